// Host folders of agents: which they are, and which an agent may have. Pure; paths as written in `check`, real ones in `plan`.
import { fileURLToPath } from "node:url";
import type { Problem } from "../../src/core/errors.ts";
import { codeFolder, namedFolders, sourceFolder, type Named } from "../../src/core/folders.ts";
import type { View } from "../../src/core/kind.ts";
import { allowedBy, clashes, dangerous, type Folder, type Homes } from "../../src/core/overlap.ts";
import { refName, refOf, type Agent, type Plugin, type Resource, type Source } from "../../src/core/resource.ts";
import type { Place } from "./action.ts";
import { placeOf } from "../../src/core/seat.ts";
import { workspacePath } from "./box.ts";
import type { AgentSeen, PathSeen } from "./seen.ts";

/** Of every agent, once a list of agents: each of them is compared with all others. */
const named = new WeakMap<readonly Resource[], readonly Folder[]>();

function agentFolders(view: View): readonly Folder[] {
  const agents = view.list("Agent");
  const known = named.get(agents);
  if (known !== undefined) return known;
  const folders = (agents as readonly Agent[]).flatMap((agent) => namedFolders(agent, view).map((each) => each.folder));
  named.set(agents, folders);
  return folders;
}

/** Folders that must not meet those of this agent: other agents', plugins' and Sources'. */
export function otherFolders(agent: Agent, view: View): readonly Folder[] {
  const owner = refName(refOf(agent));
  const agents = agentFolders(view).filter((folder) => folder.owner !== owner);
  const plugins = (view.list("Plugin") as readonly Plugin[]).flatMap((plugin) => codeFolder(plugin, view) ?? []);
  const sources = (view.list("Source") as readonly Source[]).flatMap((source) => sourceFolder(source, view) ?? []);
  return [...agents, ...plugins, ...sources];
}

/** A published package has all but its dependencies and its command in dist. */
function codeFolders(): readonly string[] {
  const here = fileURLToPath(new URL("../..", import.meta.url)).replace(/\/$/, "");
  const whole = here.endsWith("/dist") ? here.slice(0, -"/dist".length) : here;
  return ["bin", "controllers", "dist", "node_modules", "plugins", "sandbox", "schemas", "src"].map((name) => `${whole}/${name}`);
}
const CODE = codeFolders();

function homesOf(agent: Agent, view: View, home: string, paths: readonly string[]): Homes {
  const users = new Set(["/root", ...paths.flatMap((path) => /^\/home\/[^/]+/.exec(path)?.[0] ?? [])]);
  return {
    beige: home,
    code: CODE,
    own: { [refName(refOf(agent))]: placeOf(home, agent.metadata, view.seatOf).workspace },
    users: [...users],
  };
}

const ROOTS = { workspace: "workspaces", mount: "mounts" } as const;

/** Everything that forbids these folders. */
function judge(
  agent: Agent,
  view: View,
  about: { readonly mine: readonly Named[]; readonly others: readonly Folder[]; readonly home: string },
): readonly Problem[] {
  const { mine, others, home } = about;
  const homes = homesOf(agent, view, home, [home, ...mine.map((named) => named.folder.path)]);
  const object = refName(refOf(agent));
  const single = mine.flatMap(({ folder, pointer }): Problem[] => {
    const danger = dangerous(folder.path, homes);
    if (danger !== undefined)
      return [{ message: `${folder.use} ${folder.path} is refused: ${danger}`, path: pointer, object, hint: "choose another folder" }];
    if (folder.use !== "workspace" && folder.use !== "mount") return [];
    const roots = ROOTS[folder.use];
    if (allowedBy(folder.path, view.host.paths[roots])) return [];
    const hint = `the operator allows it in host.yaml: paths: {${roots}: [${folder.path}]}`;
    return [{ message: `${folder.use} ${folder.path} is not below a root that host.yaml allows`, path: pointer, object, hint }];
  });
  const folders = mine.map((named) => named.folder);
  const pointerOf = (folder: Folder): string | undefined => mine.find((named) => named.folder === folder)?.pointer;
  const pairs = clashes(folders, others, homes).map(({ folder, message, hint }): Problem => {
    const path = pointerOf(folder);
    return { message, hint, object, ...(path === undefined ? {} : { path }) };
  });
  return [...single, ...pairs];
}

/** On paths as written. */
export const checkFolders = (agent: Agent, view: View): readonly Problem[] =>
  judge(agent, view, { mine: namedFolders(agent, view), others: otherFolders(agent, view), home: view.home });

export function placesOf(seen: AgentSeen): readonly Place[] {
  const workspace: readonly Place[] =
    seen.workspace === undefined ? [] : [{ path: seen.workspace.path, real: seen.workspace.real, what: "workspace" }];
  return [...workspace, ...seen.mounts.map(({ path, real }): Place => ({ path, real, what: "mount" }))];
}

const missing = (mount: PathSeen): string | undefined =>
  !mount.exists ? `mount source ${mount.path} does not exist` : mount.folder ? undefined : `mount source ${mount.path} is not a folder`;

/** Why no container may be made. `problems` are those that no waiting mends. */
export interface Refused {
  readonly reason: string;
  readonly message: string;
  readonly problems?: readonly Problem[];
  /** When to look again where waiting may mend it. */
  readonly waitMs?: number;
}

/** On the real paths: why no container may be made; undefined when one may. */
export function placeProblem(agent: Agent, seen: AgentSeen, view: View): Refused | undefined {
  if (workspacePath(agent, view) === undefined || seen.mounts.length < agent.spec.sandbox.mounts.length)
    return { reason: "PathUnknown", message: "a path is relative and nobody knows to which folder: write it absolute" };
  const real = new Map([seen.workspace, ...seen.mounts].flatMap((path) => (path === undefined ? [] : [[path.path, path.real] as const])));
  const mine = namedFolders(agent, view).map(({ folder, pointer }) => ({
    folder: { ...folder, path: real.get(folder.path) ?? folder.path },
    pointer,
  }));
  const problems = [...ownProblem(agent, seen, view), ...judge(agent, view, { mine, others: seen.others, home: seen.homeReal })];
  const [first] = problems;
  if (first !== undefined)
    return { reason: "PathRefused", message: first.hint === undefined ? first.message : `${first.message}; ${first.hint}`, problems };
  const absent = seen.mounts.map(missing).find((message) => message !== undefined);
  return absent === undefined ? undefined : { reason: "MountMissing", message: absent };
}

/** A sandbox that was made before its agent, of a store that is lost: its container has the folder for ever, so it goes first. */
const linkHint = ({ path, real }: PathSeen, home: string): string =>
  real.startsWith(`${home}/warm/`)
    ? `a lost store's: remove its container (beige orphans), then: rm ${path} && mv ${real} ${path}`
    : "remove the link";

/** The gateway's own folder for the workspace has no links in it. */
function ownProblem(agent: Agent, seen: AgentSeen, view: View): readonly Problem[] {
  if (agent.spec.workspace.path !== undefined || seen.workspace === undefined) return [];
  const real = placeOf(seen.homeReal, agent.metadata, view.seatOf).workspace;
  return seen.workspace.real === real
    ? []
    : [{ message: `workspace ${seen.workspace.path} is a link to ${seen.workspace.real}`, hint: linkHint(seen.workspace, seen.homeReal) }];
}
