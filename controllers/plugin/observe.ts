// Looks at a plugin's folder, its instance and its secrets; and loads or unloads it.
import { asBeigeError, type Problem } from "../../src/core/errors.ts";
import { codeFolder, writableFolders } from "../../src/core/folders.ts";
import type { View } from "../../src/core/kind.ts";
import { refOf, type Plugin, type Ref } from "../../src/core/resource.ts";
import type { World } from "../../src/core/world.ts";
import { codeProblems } from "./check.ts";
import type { Peeked, PluginAction, PluginFacts } from "./plan.ts";

/** Plugins that are loaded, wanted or not. */
export const pluginNames = (w: World): Promise<readonly Ref[]> =>
  Promise.resolve(w.plugins.names().map((name) => ({ kind: "Plugin", namespace: "", name })));

/** On real paths: what agents can write that meets this folder. */
async function writers(w: World, root: string, about: { readonly plugin: Plugin; readonly view: View }): Promise<readonly Problem[]> {
  const { plugin, view } = about;
  const code = codeFolder(plugin, view);
  if (code === undefined) return [];
  const real = async (path: string): Promise<string> => (await w.workspaces.seen(path)).real;
  const folders = writableFolders(view).map(async (folder) => ({ ...folder, path: await real(folder.path) }));
  return codeProblems({ ...code, path: root }, await Promise.all(folders), await real(view.home));
}

async function peek(w: World, plugin: Plugin, view: View): Promise<Peeked> {
  try {
    const found = await w.plugins.peek(plugin.spec.source, view.origin(refOf(plugin)));
    const problems = await writers(w, found.root, { plugin, view });
    const [first] = problems;
    if (first !== undefined) return { ok: false, reason: "PathRefused", message: `${first.message}; ${first.hint ?? ""}`, problems };
    return { ok: true, ...found };
  } catch (thrown) {
    const error = asBeigeError(thrown);
    const message = error.hint === undefined ? error.message : `${error.message}; ${error.hint}`;
    if (error.code === "not_found") return { ok: false, reason: "PluginMissing", message };
    if (error.code === "invalid" || error.code === "denied") return { ok: false, reason: "PluginInvalid", message };
    throw error;
  }
}

async function lacking(w: World, plugin: Plugin): Promise<PluginFacts["lacking"]> {
  const checks = Object.entries(plugin.spec.secrets).map(async ([key, ref]) => {
    const checked = await w.secrets.check(ref);
    return checked.ok ? [] : [{ key, reason: checked.reason, message: `${checked.message}; ${checked.hint}` }];
  });
  return (await Promise.all(checks)).flat();
}

export async function observePlugin(w: World, ref: Ref, plugin: Plugin | undefined, view: View): Promise<PluginFacts> {
  const instance = w.plugins.seen(ref.name);
  const seen = instance === undefined ? {} : { seen: instance };
  if (plugin === undefined) return { name: ref.name, lacking: [], ...seen };
  const [peeked, without] = await Promise.all([peek(w, plugin, view), lacking(w, plugin)]);
  return { name: ref.name, peeked, lacking: without, ...seen };
}

/** A plugin that throws or hangs becomes `failed`; the next look sees it. */
export async function actPlugin(w: World, action: PluginAction, signal: AbortSignal): Promise<void> {
  switch (action.type) {
    case "load":
      return w.plugins.load(action.plugin, action.root, action.manifest, action.fingerprint, signal);
    case "unload":
      return w.plugins.unload(action.name);
  }
}
