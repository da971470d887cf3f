// beige orphans and adopt: what lies about on this machine without an object, and a manifest for a container that some gateway left. Both only read.
import { readdirSync, statSync } from "node:fs";
import { join } from "node:path";
import { BeigeError } from "../../core/errors.ts";
import { nsName, type Resource } from "../../core/resource.ts";
import { LABEL } from "../../core/sandbox.ts";
import { createClient } from "../client.ts";
import { type Context, type Run, word } from "../flags.ts";
import { KINDS, pathOf } from "../names.ts";
import { escaped } from "../neat.ts";
import { oneLine } from "../output.ts";
import { drawTable } from "../render/table.ts";
import { dockerSocket } from "./doctor.ts";

interface Listed {
  readonly Id: string;
  readonly Names?: readonly string[];
  readonly State?: string;
  readonly Labels?: Readonly<Record<string, string>>;
}

export interface Orphan {
  readonly what: "container" | "workspace";
  /** Name of the container, or path of the folder. */
  readonly name: string;
  readonly agent: string;
  readonly state: string;
  readonly why: string;
}

const agentOf = (labels: Readonly<Record<string, string>>): string => nsName(labels[LABEL.namespace] ?? "", labels[LABEL.name] ?? "?");

/** Containers with our labels, of any gateway. Throws `unavailable` when the engine does not answer. */
async function labelled(context: Context): Promise<readonly Listed[]> {
  const socket = dockerSocket(context.env);
  const filters = encodeURIComponent(JSON.stringify({ label: [LABEL.store] }));
  try {
    return await createClient(socket, context.signal).get<readonly Listed[]>({
      path: `/containers/json?all=1&filters=${filters}`,
      idleMs: 15_000,
    });
  } catch (error) {
    throw new BeigeError("unavailable", `cannot ask Docker at ${socket} for its containers`, { cause: error, hint: "beige doctor" });
  }
}

function containersOf(listed: readonly Listed[], of: { readonly store: string; readonly uids: ReadonlySet<string> }): readonly Orphan[] {
  return listed.flatMap(({ Names = [], State = "", Labels = {} }): Orphan[] => {
    const store = Labels[LABEL.store] ?? "";
    const mine = store === of.store;
    if (mine && of.uids.has(Labels[LABEL.uid] ?? "")) return [];
    const why = mine ? "no object: the gateway removes it at its next look" : `of another gateway (store ${store.slice(0, 8)}): left alone`;
    return [{ what: "container", name: (Names[0] ?? "?").replace(/^\//, ""), agent: agentOf(Labels), state: State, why }];
  });
}

/** Workspaces that were kept when their agents went. */
function workspacesOf(home: string, agents: ReadonlySet<string>): readonly Orphan[] {
  const folder = join(home, "agents");
  const names = statSync(folder, { throwIfNoEntry: false })?.isDirectory() === true ? readdirSync(folder) : [];
  return names.toSorted().flatMap((name): Orphan[] => {
    const path = join(folder, name, "workspace");
    const dot = name.indexOf(".");
    const agent = nsName(name.slice(0, dot), name.slice(dot + 1));
    if (dot < 1 || agents.has(name) || statSync(path, { throwIfNoEntry: false })?.isDirectory() !== true) return [];
    const files = readdirSync(path).length;
    return [
      {
        what: "workspace",
        name: path,
        agent,
        state: files === 0 ? "empty" : `${files} entries`,
        why: "kept when its agent was deleted; the next agent of this name gets it",
      },
    ];
  });
}

export const orphans: Run = async (context, input) => {
  const kind = KINDS.find((each) => each.kind === "Agent") as (typeof KINDS)[number];
  const [health, agents] = [
    await context.client.get<{ readonly store?: string }>({ path: "/api/health" }),
    (await context.client.get<{ readonly items: readonly Resource[] }>({ path: pathOf({ kind, namespace: "" }, true) })).items,
  ];
  if (typeof health.store !== "string")
    throw new BeigeError("unavailable", "the gateway does not say which store it has", { hint: "beige gateway restart" });
  const boxes = containersOf(await labelled(context), { store: health.store, uids: new Set(agents.map((agent) => agent.metadata.uid)) });
  const folders = workspacesOf(context.home, new Set(agents.map(({ metadata }) => `${metadata.namespace}.${metadata.name}`)));
  const found = [...boxes, ...folders];
  if (word(input, "output") === "json") {
    await context.out.write(`${JSON.stringify({ items: found }, undefined, 2)}\n`);
    return 0;
  }
  if (found.length === 0) context.out.note("no orphans");
  else {
    const rows = found.map((each) => [each.what, each.agent, each.state, each.name, each.why].map(oneLine));
    const drawn = drawTable(["WHAT", "AGENT", "STATE", "NAME", "WHY"], rows, context.out.tty ? { width: context.out.columns } : {});
    await context.out.write(`${[context.out.paint("dim", drawn.header), ...drawn.rows].join("\n")}\n`);
  }
  return 0;
};

interface Inspected {
  readonly Name?: string;
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
  };
  readonly Mounts?: readonly { readonly Type?: string; readonly Source?: string; readonly Destination?: string; readonly RW?: boolean }[];
}

/** Places that the gateway fills itself. */
const OWN_TARGETS = ["/beige", "/tools/bin", "/tools/packages", "/tools"];
const OWN_ENV = ["PATH", "HOME", "BEIGE_AGENT", "AI_AGENT", "LANG", "HOSTNAME"];
const NAME = /^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?$/;

const mib = (bytes: number): string => `${Math.max(6, Math.round(bytes / 1048576))}Mi`;

/** The agent that a container is, as far as Docker tells: what the gateway decides is left out. */
export function agentFrom(
  seen: Inspected,
  of: { readonly name: string; readonly namespace: string; readonly provider: string; readonly model: string },
): object {
  const { Config = {}, HostConfig = {}, Mounts = [] } = seen;
  const env = Object.fromEntries(
    (Config.Env ?? []).flatMap((pair) => {
      const at = pair.indexOf("=");
      return at < 1 || OWN_ENV.includes(pair.slice(0, at)) ? [] : [[pair.slice(0, at), pair.slice(at + 1)] as const];
    }),
  );
  const binds = Mounts.filter((each) => each.Type === "bind" && each.Source !== undefined && !OWN_TARGETS.includes(each.Destination ?? ""));
  const workspace = binds.find((each) => each.Destination === "/workspace")?.Source;
  const mounts = binds
    .filter((each) => each.Destination !== "/workspace")
    .map((each) => ({ source: each.Source, target: each.Destination, readOnly: each.RW === false }));
  const { Memory = 0, NanoCpus = 0, PidsLimit } = HostConfig;
  const resources = {
    ...(Memory > 0 && { memory: mib(Memory) }),
    ...(NanoCpus > 0 && { cpus: Math.max(0.01, NanoCpus / 1e9) }),
    ...(typeof PidsLimit === "number" && PidsLimit >= 16 && { pids: PidsLimit }),
  };
  return {
    apiVersion: "beige.dev/v1",
    kind: "Agent",
    metadata: { name: of.name, ...(of.namespace !== "default" && { namespace: of.namespace }) },
    spec: {
      model: { provider: of.provider, id: of.model },
      sandbox: {
        ...(Config.Image !== undefined && { image: Config.Image }),
        ...(Object.keys(resources).length > 0 && { resources }),
        network: { mode: HostConfig.NetworkMode === "none" ? "none" : "open" },
        ...(mounts.length > 0 && { mounts }),
        ...(Object.keys(env).length > 0 && { env }),
      },
      ...(workspace !== undefined && { workspace: { path: workspace } }),
    },
  };
}

export const adopt: Run = async (context, input) => {
  const given = input.args[0] ?? "";
  if (!/^[\w.-]{1,128}$/.test(given))
    throw new BeigeError("invalid", `"${oneLine(given)}" is no name of a container`, { hint: "beige orphans" });
  const [provider = "", ...rest] = (word(input, "model") ?? "").split("/");
  const model = rest.join("/");
  if (provider === "" || model === "")
    throw new BeigeError("invalid", "Docker does not know which model the agent has", {
      hint: `beige adopt ${given} --model PROVIDER/MODEL`,
    });
  const socket = dockerSocket(context.env);
  const seen = await createClient(socket, context.signal)
    .get<Inspected>({ path: `/containers/${given}/json`, idleMs: 15_000 })
    .catch((error: unknown) => {
      if (error instanceof BeigeError && error.code === "not_found")
        throw new BeigeError("not_found", `there is no container ${given}`, { hint: "beige orphans", cause: error });
      throw error;
    });
  const labels = seen.Config?.Labels ?? {};
  const name = word(input, "name") ?? labels[LABEL.name] ?? (seen.Name ?? given).replace(/^\//, "").replace(/^beige-/, "");
  const namespace = word(input, "namespace") ?? labels[LABEL.namespace] ?? "default";
  if (!NAME.test(name) || !NAME.test(namespace))
    throw new BeigeError("invalid", `"${oneLine(name)}" cannot name an Agent`, { hint: `beige adopt ${given} --name NAME` });
  const { yamlText } = await import("../offline.ts");
  await context.out.write(yamlText(escaped(agentFrom(seen, { name, namespace, provider, model }))));
  context.out.note(`nothing was changed. Look at it, apply it, then take the old container away: docker rm -f ${given}`);
  return 0;
};
