// beige orphans: what lies about on this machine without an object. It only reads.
import { lstatSync, readdirSync, realpathSync, statSync } from "node:fs";
import { join } from "node:path";
import { BeigeError } from "../../core/errors.ts";
import { nsName, type Resource } from "../../core/resource.ts";
import { socketFolder } from "../../core/paths.ts";
import { LABEL } from "../../core/sandbox.ts";
import { WARM } from "../../core/seat.ts";
import { createClient } from "../client.ts";
import { type Context, type Run, word } from "../flags.ts";
import { KINDS, pathOf } from "../names.ts";
import { oneLine } from "../output.ts";
import { drawTable } from "../render/table.ts";
import { waitingIn } from "../warm.ts";
import { dockerSocket } from "./doctor.ts";
import { imagesOf } from "./orphanimages.ts";

interface Listed {
  readonly Id: string;
  readonly Names?: readonly string[];
  readonly State?: string;
  readonly Labels?: Readonly<Record<string, string>>;
  readonly Mounts?: readonly BindSeen[];
}

export interface BindSeen {
  readonly Type?: string;
  readonly Source?: string;
  readonly Destination?: string;
  readonly RW?: boolean;
}

/** Whether a gateway on this home made it: its sockets are in the home. */
export function ofThisHome(home: string, mounts: readonly BindSeen[], uid: string): boolean {
  const at = mounts.find((each) => each.Destination === "/beige")?.Source;
  return at !== undefined && at === socketFolder(realHome(home), uid);
}

function realHome(home: string): string {
  try {
    return realpathSync(home);
  } catch {
    return home;
  }
}

export interface Orphan {
  readonly what: "container" | "image" | "workspace";
  /** Name of the container or image, or path of the folder. */
  readonly name: string;
  readonly agent: string;
  readonly state: string;
  readonly why: string;
}

const workspaceIn = (mounts: readonly BindSeen[]): string => mounts.find((each) => each.Destination === "/workspace")?.Source ?? "unknown";
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

function containersOf(
  listed: readonly Listed[],
  of: { readonly store: string; readonly home: string; readonly uids: ReadonlySet<string>; readonly known: ReadonlySet<string> },
): readonly Orphan[] {
  return listed.flatMap(({ Id, Names = [], State = "", Labels = {}, Mounts = [] }): Orphan[] => {
    const [store = "", uid = ""] = [Labels[LABEL.store], Labels[LABEL.uid]];
    const mine = store === of.store;
    const lost = !mine && ofThisHome(of.home, Mounts, uid);
    // One that was taken over from a lost store has its object too.
    if ((mine || lost) && of.uids.has(uid)) return [];
    // Made before its agent, so its labels do not name one: it serves, or waits.
    const warm = Labels[LABEL.kind] === WARM;
    if (warm && mine && (of.known.has(Id) || of.known.has(Id.slice(0, 12)))) return [];
    const name = (Names[0] ?? "?").replace(/^\//, "");
    const why = mine
      ? "no object: the gateway removes it at its next look"
      : lost && warm
        ? `of a lost store of this home (${store.slice(0, 8)}), made before its agent: left alone; its workspace is ${workspaceIn(Mounts)}`
        : lost
          ? `of a lost store of this home (${store.slice(0, 8)}): beige adopt ${name}`
          : `of another gateway (store ${store.slice(0, 8)}): left alone`;
    return [{ what: "container", name, agent: warm ? "-" : agentOf(Labels), state: State, why }];
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
    if (dot < 1 || agents.has(name) || lstatSync(path, { throwIfNoEntry: false })?.isDirectory() !== true) return [];
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
    await context.client.get<{ readonly store?: string; readonly [more: string]: unknown }>({ path: "/api/health" }),
    (await context.client.get<{ readonly items: readonly Resource[] }>({ path: pathOf({ kind, namespace: "" }, true) })).items,
  ];
  if (typeof health.store !== "string")
    throw new BeigeError("unavailable", "the gateway does not say which store it has", { hint: "beige gateway restart" });
  const boxes = containersOf(await labelled(context), {
    store: health.store,
    home: context.home,
    uids: new Set(agents.map((agent) => agent.metadata.uid)),
    known: new Set([
      ...waitingIn(health),
      ...agents.map(({ status }) => status?.observed?.["container"]).filter((id) => typeof id === "string"),
    ]),
  });
  const folders = workspacesOf(context.home, new Set(agents.map(({ metadata }) => `${metadata.namespace}.${metadata.name}`)));
  const found = [...boxes, ...(await imagesOf(context, dockerSocket(context.env))), ...folders];
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
