// beige adopt: a manifest by which an agent takes over a container that a lost store left, or the workspace of somebody else's. It only reads.
import { ADOPT, adoptText } from "../../core/adoption.ts";
import { BeigeError } from "../../core/errors.ts";
import { workspaceFolder } from "../../core/paths.ts";
import { LABEL } from "../../core/sandbox.ts";
import { WARM } from "../../core/seat.ts";
import { createClient } from "../client.ts";
import { type Context, type Input, type Run, word } from "../flags.ts";
import { escaped } from "../neat.ts";
import { oneLine } from "../output.ts";
import { dockerSocket } from "./doctor.ts";
import { type BindSeen, ofThisHome } from "./orphans.ts";

interface Inspected {
  readonly Name?: string;
  readonly State?: { readonly Running?: boolean };
  readonly Config?: {
    readonly Image?: string;
    readonly Env?: readonly string[] | null;
    readonly Labels?: Readonly<Record<string, string>> | null;
  };
  readonly HostConfig?: {
    readonly NetworkMode?: string;
    readonly Memory?: number;
    readonly NanoCpus?: number;
    readonly PidsLimit?: number | null;
    readonly Tmpfs?: Readonly<Record<string, string>> | null;
    readonly ReadonlyRootfs?: boolean;
    readonly Runtime?: string;
  };
  readonly Mounts?: readonly BindSeen[];
}

/** Places that the gateway fills itself. */
const OWN_TARGETS = ["/beige", "/tools/bin", "/tools/packages", "/tools"];
/** Variables that the gateway sets, with the values that need no words in a manifest. */
const OWN_ENV: Readonly<Record<string, string | undefined>> = {
  PATH: undefined,
  BEIGE_AGENT: undefined,
  HOSTNAME: undefined,
  HOME: "/workspace",
  AI_AGENT: "beige",
  LANG: "C.UTF-8",
};
const PATH_DEFAULT = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";
const NAME = /^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?$/;

const mib = (bytes: number): string => `${Math.max(6, Math.round(bytes / 1048576))}Mi`;

export interface Taking {
  readonly name: string;
  readonly namespace: string;
  readonly provider: string;
  readonly model: string;
  /** Of the agent's annotation. */
  readonly adopt: string;
  /** Where its workspace lies when the manifest names none. */
  readonly usual: string;
  /** A gateway made it: what that chose is in the container as the manifest said it. */
  readonly ours: boolean;
}

const pairs = (entries: readonly string[]): readonly (readonly [string, string])[] =>
  entries.flatMap((entry) => (entry.indexOf("=") < 1 ? [] : [[entry.slice(0, entry.indexOf("=")), entry.slice(entry.indexOf("=") + 1)]]));

function envOf(entries: readonly string[], ours: boolean): Readonly<Record<string, string>> {
  const told = ([key, value]: readonly [string, string]): boolean =>
    !Object.hasOwn(OWN_ENV, key) || (ours && OWN_ENV[key] !== undefined && OWN_ENV[key] !== value);
  return Object.fromEntries(pairs(entries).filter(told));
}

/** What only a container of ours can say: whatever else was made otherwise gets the defaults. */
function madeByUs(seen: Inspected): object {
  const { HostConfig = {}, Config = {} } = seen;
  const path = pairs(Config.Env ?? [])
    .find(([key]) => key === "PATH")?.[1]
    .replace(/^\/tools\/bin:/, "");
  return {
    ...(HostConfig.ReadonlyRootfs === false && { profile: "packages" }),
    ...(HostConfig.Runtime !== undefined && HostConfig.Runtime !== "runc" && { runtime: HostConfig.Runtime }),
    ...(path !== undefined && path.startsWith("/") && path !== PATH_DEFAULT && { path }),
  };
}

function resourcesOf({ Memory = 0, NanoCpus = 0, PidsLimit, Tmpfs }: NonNullable<Inspected["HostConfig"]>, ours: boolean): object {
  const tmp = Number(/(?:^|,)size=(\d+)(?:,|$)/.exec(Tmpfs?.["/tmp"] ?? "")?.[1] ?? 0);
  return {
    ...(Memory > 0 && { memory: Memory % 1048576 === 0 || !ours ? mib(Memory) : Memory }),
    ...(NanoCpus > 0 && { cpus: Math.max(0.01, NanoCpus / 1e9) }),
    ...(typeof PidsLimit === "number" && PidsLimit >= 16 && { pids: PidsLimit }),
    ...(ours && tmp >= 65_536 && { tmp }),
  };
}

/** The agent that a container is, as far as Docker tells: what the gateway decides is left out. */
export function agentFrom(seen: Inspected, of: Taking): object {
  const { Config = {}, HostConfig = {}, Mounts = [] } = seen;
  const env = envOf(Config.Env ?? [], of.ours);
  const binds = Mounts.filter((each) => each.Type === "bind" && each.Source !== undefined && !OWN_TARGETS.includes(each.Destination ?? ""));
  const workspace = binds.find((each) => each.Destination === "/workspace")?.Source;
  const mounts = binds
    .filter((each) => each.Destination !== "/workspace")
    .map((each) => ({ source: each.Source, target: each.Destination, readOnly: each.RW === false }));
  const resources = resourcesOf(HostConfig, of.ours);
  return {
    apiVersion: "beige.dev/v1",
    kind: "Agent",
    metadata: { name: of.name, ...(of.namespace !== "default" && { namespace: of.namespace }), annotations: { [ADOPT]: of.adopt } },
    spec: {
      model: { provider: of.provider, id: of.model },
      sandbox: {
        ...(Config.Image !== undefined && { image: Config.Image }),
        ...(of.ours && madeByUs(seen)),
        ...(Object.keys(resources).length > 0 && { resources }),
        network: { mode: HostConfig.NetworkMode === "none" ? "none" : "open" },
        ...(mounts.length > 0 && { mounts }),
        ...(Object.keys(env).length > 0 && { env }),
      },
      ...(workspace !== undefined && workspace !== of.usual && { workspace: { path: workspace } }),
    },
  };
}

function modelOf(input: Input, given: string): { readonly provider: string; readonly model: string } {
  const [provider = "", ...rest] = (word(input, "model") ?? "").split("/");
  const model = rest.join("/");
  if (provider !== "" && model !== "") return { provider, model };
  throw new BeigeError("invalid", "Docker does not know which model the agent has", {
    hint: `beige adopt ${given} --model PROVIDER/MODEL`,
  });
}

function checkName(given: string): void {
  if (/^[\w.-]{1,128}$/.test(given)) return;
  throw new BeigeError("invalid", `"${oneLine(given)}" is no name of a container`, { hint: "beige orphans" });
}

async function inspected(context: Context, given: string): Promise<Inspected> {
  const path = `/containers/${given}/json`;
  return createClient(dockerSocket(context.env), context.signal)
    .get<Inspected>({ path, idleMs: 15_000 })
    .catch((error: unknown) => {
      if (error instanceof BeigeError && error.code === "not_found")
        throw new BeigeError("not_found", `there is no container ${given}`, { hint: "beige orphans", cause: error });
      throw error;
    });
}

/** The store of the gateway, where one answers: nothing of its own can be taken over. */
const ownStore = (context: Context): Promise<string | undefined> =>
  context.client.get<{ readonly store?: string }>({ path: "/api/health" }).then(
    ({ store }) => store,
    () => undefined,
  );

function noteOf(container: string, taking: Taking, seen: Inspected): string {
  if (taking.ours) return "nothing was changed. Apply it: the container goes on as it is, under the new object";
  const stop = seen.State?.Running === true ? `; it waits until the container's owner has stopped it: docker stop ${container}` : "";
  return `nothing was changed. Applied, the agent takes the workspace over${stop}. The old container is never touched`;
}

export const adopt: Run = async (context, input) => {
  const given = input.args[0] ?? "";
  checkName(given);
  const model = modelOf(input, given);
  const seen = await inspected(context, given);
  const labels = seen.Config?.Labels ?? {};
  const [store = "", uid = ""] = [labels[LABEL.store], labels[LABEL.uid]];
  const container = (seen.Name ?? given).replace(/^\//, "");
  if (store !== "" && store === (await ownStore(context)))
    throw new BeigeError("conflict", `container ${container} is this gateway's own already`, { hint: "beige get agents" });
  if (labels[LABEL.kind] === WARM)
    throw new BeigeError("conflict", `container ${container} was made before its agent: nothing in it says whose it is`, {
      hint: "beige orphans says where its workspace is",
    });
  const name = word(input, "name") ?? labels[LABEL.name] ?? container.replace(/^beige-/, "");
  const namespace = word(input, "namespace") ?? labels[LABEL.namespace] ?? "default";
  if (!NAME.test(name) || !NAME.test(namespace))
    throw new BeigeError("invalid", `"${oneLine(name)}" cannot name an Agent`, { hint: `beige adopt ${given} --name NAME` });
  const ours = store !== "" && uid !== "" && ofThisHome(context.home, seen.Mounts ?? [], uid);
  const taking: Taking = {
    name,
    namespace,
    ...model,
    adopt: ours ? adoptText(store, uid) : container,
    usual: workspaceFolder(context.home, { namespace, name }),
    ours,
  };
  const { yamlText } = await import("../offline.ts");
  await context.out.write(yamlText(escaped(agentFrom(seen, taking))));
  context.out.note(noteOf(container, taking, seen));
  return 0;
};
