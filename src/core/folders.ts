// The host folders that manifests name, and whose they are. Pure: paths as written, made absolute.
import type { View } from "./kind.ts";
import type { Folder } from "./overlap.ts";
import { resolvePath } from "./paths.ts";
import { placeOf } from "./seat.ts";
import { refName, refOf, type Agent, type Plugin, type Source } from "./resource.ts";

/** A folder that a manifest names, and where it does. */
export interface Named {
  readonly folder: Folder;
  readonly pointer: string;
}

/** The folders that an agent's manifest itself names; a relative one without a folder to start from is left out. */
export function namedFolders(agent: Agent, view: View): readonly Named[] {
  const origin = view.origin(refOf(agent));
  const owner = refName(refOf(agent));
  const { workspace, sandbox } = agent.spec;
  const own = workspace.path === undefined ? undefined : resolvePath(workspace.path, origin);
  const mounts = sandbox.mounts.flatMap(({ source, readOnly }, i): Named[] => {
    const path = resolvePath(source, origin);
    return path === undefined
      ? []
      : [{ folder: { owner, path, use: "mount", writable: !readOnly }, pointer: `/spec/sandbox/mounts/${i}/source` }];
  });
  if (own === undefined) return mounts;
  const folder: Folder = { owner, path: own, use: "workspace", writable: true, shared: workspace.shared };
  return [{ folder, pointer: "/spec/workspace/path" }, ...mounts];
}

/** Everything that agents can write: their workspaces, also those below BEIGE_HOME, and their writable mounts. */
export const writableFolders = (view: View): readonly Folder[] =>
  (view.list("Agent") as readonly Agent[]).flatMap((agent) => {
    const own: Folder = {
      owner: refName(refOf(agent)),
      path: placeOf(view.home, agent.metadata, view.seatOf).workspace,
      use: "workspace",
      writable: true,
    };
    const named = namedFolders(agent, view).map(({ folder }) => folder);
    return [own, ...named.filter((folder) => folder.writable)];
  });

/** The folder of a plugin's code; undefined for one that ships with beige. */
export function codeFolder(plugin: Plugin, view: View): Folder | undefined {
  const { path: source } = plugin.spec.source;
  const path = source === undefined ? undefined : resolvePath(source, view.origin(refOf(plugin)));
  return path === undefined ? undefined : { owner: refName(refOf(plugin)), path, use: "plugin", writable: false };
}

/** The folder that a Source reads; undefined for a relative one without a folder to start from. */
export function sourceFolder(source: Source, view: View): Folder | undefined {
  const path = resolvePath(source.spec.path, view.origin(refOf(source)));
  return path === undefined ? undefined : { owner: refName(refOf(source)), path, use: "source", writable: false };
}
