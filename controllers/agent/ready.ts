// Whether an agent is Ready, and the one sentence that says why not. Pure.
import { diskLimit, isOver } from "../../src/core/disk.ts";
import type { Plan } from "../../src/core/kind.ts";
import { showBytes } from "../../src/core/quantity.ts";
import { condition, type Ref } from "../../src/core/resource.ts";
import type { AgentAction } from "./action.ts";
import { limitsWanted, type Situation } from "./situation.ts";
import type { Body } from "./live.ts";
import { outdated } from "./outdated.ts";
import { shortId } from "./seen.ts";
import { findTools } from "./tools.ts";

interface Lack {
  readonly reason: string;
  readonly message: string;
  readonly on?: readonly Ref[];
}

const cluster = (kind: string, name: string): Ref => ({ kind, namespace: "", name });

function missingProvider({ agent, view }: Situation): Lack | undefined {
  const named = [agent.spec.model.provider, ...agent.spec.fallbacks.map((model) => model.provider)];
  const name = named.find((provider) => view.get(cluster("Provider", provider)) === undefined);
  return name === undefined
    ? undefined
    : { reason: "ProviderMissing", message: `provider ${name} does not exist`, on: [cluster("Provider", name)] };
}

function lackingTool({ agent, view }: Situation): Lack | undefined {
  for (const found of findTools(agent, view)) {
    const on =
      found.plugin === undefined
        ? view.list("Plugin").map((one) => cluster("Plugin", one.metadata.name))
        : [cluster("Plugin", found.plugin)];
    if (found.problem !== undefined)
      return { reason: "ToolUnknown", message: `${found.problem}: ${found.hint ?? ""}`.replace(/: $/, ""), on };
    if (found.unknown === true) return { reason: "PluginNotReady", message: `tool ${found.entry} waits for its plugin`, on };
    const plugin = found.plugin === undefined ? undefined : view.get(cluster("Plugin", found.plugin));
    const ready = plugin === undefined ? undefined : condition(plugin, "Ready");
    if (ready?.status === "True") continue;
    const why = ready === undefined || ready.message === "" ? "it is not ready yet" : ready.message;
    return { reason: "PluginNotReady", message: `plugin ${found.plugin ?? found.tool}: ${why}`, on };
  }
  return undefined;
}

/** What lies outside the container, in the order in which a person would mend it. */
const lackOf = (s: Situation): Lack | undefined =>
  missingProvider(s) ??
  lackingTool(s) ??
  (s.seen.kit.error === undefined ? undefined : { reason: "PluginFilesMissing", message: s.seen.kit.error });

function observed(s: Situation, body: Body): Readonly<Record<string, unknown>> {
  const box = body.serving;
  const settled = body.actions.length === 0 && box !== undefined;
  const wait = body.waitingFor === undefined || s.helloed(body.waitingFor) ? undefined : s.waiting(body.waitingFor);
  return {
    model: `${s.agent.spec.model.provider}/${s.agent.spec.model.id}`,
    image: box?.spec.image ?? s.box.image,
    workspace: s.seen.workspace?.path,
    tools: s.kit.tools,
    limits: settled ? limitsWanted(s) : s.limitsBefore,
    ...(box === undefined ? {} : { container: shortId(box.id), imageId: box.imageId, startedAt: box.startedAt }),
    ...(box !== undefined && s.compare(box).outdated ? { outdated: true } : {}),
    ...(wait === undefined ? {} : { waiting: wait }),
    ...(body.asleep === undefined ? {} : { asleep: true }),
    ...(body.build === undefined ? {} : { build: body.build }),
  };
}

/** Members without a value are left out, as the store's JSON does. */
const present = (record: Readonly<Record<string, unknown>>): Readonly<Record<string, unknown>> =>
  Object.fromEntries(Object.entries(record).filter(([, value]) => value !== undefined));

/** Below these an agent that writes much takes the disk from the gateway's records. */
const FREE_BYTES = 2 ** 30;
const FREE_FILES = 10_000;

/** Without the numbers: the status does not change at every look. */
function diskPressure({ agent, seen: { room, used, workspace } }: Situation): Plan["degraded"] {
  const limit = diskLimit(agent);
  if (limit !== undefined && isOver(used, limit)) {
    const beyond = used?.beyond === undefined ? "takes" : `has ${used.beyond}, so it may take`;
    const why = `workspace ${workspace?.path ?? ""} ${beyond} more than sandbox.resources.disk, ${showBytes(limit)}`;
    return { reason: "DiskPressure", message: `${why}: the agent's commands and writes are refused but for reading and a plain rm` };
  }
  if (room === undefined || (room.freeBytes >= FREE_BYTES && room.freeFiles >= FREE_FILES)) return undefined;
  const what = room.freeBytes < FREE_BYTES ? "less than 1 GiB" : `room for less than ${FREE_FILES} files`;
  const message = `the disk of workspace ${workspace?.path ?? ""} has ${what} left; nothing limits what an agent writes there`;
  return { reason: "DiskPressure", message };
}

function olderBox(s: Situation, { actions, serving }: Body): Plan["degraded"] {
  if (serving === undefined || actions.length > 0 || !s.compare(serving).outdated) return undefined;
  return outdated(s.agent, s.box, serving.spec);
}

export function judgeReady(s: Situation, body: Body): Plan<AgentAction> {
  const degraded = body.degraded ?? diskPressure(s) ?? olderBox(s, body);
  const lack = lackOf(s);
  // While the sandbox is on its way that is the news; what else is missing comes after it.
  const why = body.pending ?? lack;
  const on = lack?.on;
  const ms = body.wait?.ms;
  return {
    actions: body.actions,
    ready: why === undefined,
    reason: why?.reason ?? (body.asleep === undefined ? "Ready" : "Lazy"),
    message: why?.message ?? body.asleep ?? "",
    observed: present(observed(s, body)),
    ...(s.seen.lacks === undefined ? {} : { lacks: s.seen.lacks }),
    ...(body.drift === undefined || body.drift.length === 0 ? {} : { drift: body.drift }),
    ...(degraded === undefined ? {} : { degraded }),
    ...(s.refused?.problems === undefined ? {} : { refused: s.refused.problems }),
    ...(on === undefined && ms === undefined ? {} : { wait: { ...(on === undefined ? {} : { on }), ...(ms === undefined ? {} : { ms }) } }),
  };
}
