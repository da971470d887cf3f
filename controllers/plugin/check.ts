// What is wrong with a plugin that its schema cannot see. Pure.
import type { Problem } from "../../src/core/errors.ts";
import { codeFolder, writableFolders } from "../../src/core/folders.ts";
import type { View } from "../../src/core/kind.ts";
import { allowedBy, clashes, type Folder } from "../../src/core/overlap.ts";
import { refName, refOf, type Plugin } from "../../src/core/resource.ts";

const POINTER = "/spec/source/path";

/** Code that runs in the gateway must not lie where an agent writes. */
export function codeProblems(code: Folder, writable: readonly Folder[], home: string): readonly Problem[] {
  return clashes([code], writable, { beige: home }).map(({ message, hint }) => ({ message, hint, path: POINTER, object: code.owner }));
}

export function checkPlugin(plugin: Plugin, view: View): readonly Problem[] {
  const source = plugin.spec.source.path;
  if (source === undefined) return [];
  const about = { path: POINTER, object: refName(refOf(plugin)) };
  const code = codeFolder(plugin, view);
  if (code === undefined)
    return [{ ...about, message: `path '${source}' is relative and has no manifest folder to start from`, hint: "write an absolute path" }];
  const { path } = code;
  const problems = codeProblems(code, writableFolders(view), view.home);
  if (allowedBy(path, view.host.paths.plugins)) return problems;
  const hint = `the operator allows it in host.yaml: paths: {plugins: [${path}]}`;
  return [...problems, { ...about, message: `plugin folder ${path} is not below a root that host.yaml allows`, hint }];
}
