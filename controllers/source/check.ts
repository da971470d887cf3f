// What is wrong with a Source that its schema cannot see. Pure.
import type { Problem } from "../../src/core/errors.ts";
import { sourceFolder, writableFolders } from "../../src/core/folders.ts";
import type { View } from "../../src/core/kind.ts";
import { clashes, type Folder } from "../../src/core/overlap.ts";
import { overlaps } from "../../src/core/paths.ts";
import { refName, refOf, type Source } from "../../src/core/resource.ts";

const POINTER = "/spec/path";

/** What decides about agents must not lie where an agent writes, nor where the gateway keeps its own. */
export function folderProblems(folder: Folder, writable: readonly Folder[], home: string): readonly Problem[] {
  const about = { path: POINTER, object: folder.owner };
  if (overlaps(folder.path, home)) {
    const hint = "keys, audit and workspaces live there: choose a folder outside it";
    return [{ ...about, message: `source ${folder.path} overlaps BEIGE_HOME ${home}`, hint }];
  }
  return clashes([folder], writable, { beige: home }).map(({ message, hint }) => ({ ...about, message, hint }));
}

export function checkSource(source: Source, view: View): readonly Problem[] {
  const folder = sourceFolder(source, view);
  if (folder !== undefined) return folderProblems(folder, writableFolders(view), view.home);
  const message = `path '${source.spec.path}' is relative and has no manifest folder to start from`;
  return [{ message, path: POINTER, object: refName(refOf(source)), hint: "write an absolute path" }];
}
