// What is wrong with a plugin that its schema cannot see. Pure.
import type { Problem } from "../../src/core/errors.ts";
import type { View } from "../../src/core/kind.ts";
import { allowedBy } from "../../src/core/overlap.ts";
import { resolvePath } from "../../src/core/paths.ts";
import { refName, refOf, type Plugin } from "../../src/core/resource.ts";

export function checkPlugin(plugin: Plugin, view: View): readonly Problem[] {
  const source = plugin.spec.source.path;
  if (source === undefined) return [];
  const ref = refOf(plugin);
  const about = { path: "/spec/source/path", object: refName(ref) };
  const path = resolvePath(source, view.origin(ref));
  if (path === undefined)
    return [{ ...about, message: `path '${source}' is relative and has no manifest folder to start from`, hint: "write an absolute path" }];
  if (allowedBy(path, view.host.paths.plugins)) return [];
  const hint = `the operator allows it in host.yaml: paths: {plugins: [${path}]}`;
  return [{ ...about, message: `plugin folder ${path} is not below a root that host.yaml allows`, hint }];
}
