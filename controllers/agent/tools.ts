// Which plugin each tool of an agent comes from, and what of it is put into the sandbox. Pure.
import type { Agent, Plugin, Resource } from "../../src/core/resource.ts";
import type { Kit } from "../../src/core/world.ts";
import type { View } from "../../src/core/kind.ts";
import { isCoreTool } from "../../src/core/call.ts";
import { splitTool } from "../../src/core/policy.ts";
import { suggest } from "../../src/core/text.ts";

export interface ToolFound {
  /** As the manifest writes it. */
  readonly entry: string;
  readonly tool: string;
  readonly plugin?: string;
  /** Why it cannot be had. */
  readonly problem?: string;
  readonly hint?: string;
  /** The plugin has not been looked at yet, so nobody knows its tools. */
  readonly unknown?: boolean;
  /** The plugin that the entry names does not exist: `needs` says so too. */
  readonly absent?: boolean;
}

/** What a Plugin's own status says of it; undefined before its first look. */
interface PluginFacts {
  readonly name: string;
  readonly tools?: readonly string[];
  readonly root?: string;
  readonly files: readonly string[];
}

const strings = (value: unknown): readonly string[] => (Array.isArray(value) ? value.filter((item) => typeof item === "string") : []);

function factsOf(plugin: Resource): PluginFacts {
  const observed = plugin.status?.observed;
  const root = observed?.["root"];
  return {
    name: plugin.metadata.name,
    ...(Array.isArray(observed?.["tools"]) ? { tools: strings(observed["tools"]) } : {}),
    ...(typeof root === "string" ? { root } : {}),
    files: strings(observed?.["files"]),
  };
}

const wantedPlugins = (view: View): readonly PluginFacts[] =>
  (view.list("Plugin") as readonly Plugin[]).filter((plugin) => plugin.metadata.deletionTimestamp === undefined).map(factsOf);

function findTool(entry: string, plugins: readonly PluginFacts[]): ToolFound {
  const asked = splitTool(entry);
  const found = { entry, tool: asked.tool };
  if (isCoreTool(asked.tool))
    return { ...found, problem: `'${entry}' has the name of a core tool`, hint: "core tools are listed in coreTools" };
  if (asked.plugin !== undefined) return inPlugin(found, asked.plugin, plugins);
  const owners = plugins.filter((plugin) => plugin.tools?.includes(asked.tool));
  const names = owners.map((owner) => owner.name).toSorted();
  if (owners.length > 1) {
    const choices = names.map((name) => `${name}/${asked.tool}`).join(" or ");
    return { ...found, problem: `tool '${entry}' is in plugins ${names.join(", ")}`, hint: `write ${choices}` };
  }
  if (names[0] !== undefined) return { ...found, plugin: names[0] };
  if (plugins.some((plugin) => plugin.tools === undefined)) return { ...found, unknown: true };
  const known = plugins.flatMap((plugin) => plugin.tools ?? []);
  return { ...found, problem: `tool '${entry}' is in no plugin`, hint: suggest(asked.tool, known, "tools") };
}

function inPlugin(found: ToolFound, name: string, plugins: readonly PluginFacts[]): ToolFound {
  const plugin = plugins.find((candidate) => candidate.name === name);
  if (plugin === undefined)
    return {
      ...found,
      absent: true,
      problem: `plugin '${name}' of tool '${found.entry}' does not exist`,
      hint: suggest(
        name,
        plugins.map((candidate) => candidate.name),
        "plugins",
      ),
    };
  if (plugin.tools === undefined) return { ...found, plugin: name, unknown: true };
  if (plugin.tools.includes(found.tool)) return { ...found, plugin: name };
  return { ...found, problem: `plugin '${name}' has no tool '${found.tool}'`, hint: suggest(found.tool, plugin.tools, "tools") };
}

/** One answer an entry of spec.tools; a launcher's name is taken once only. */
export function findTools(agent: Agent, view: View): readonly ToolFound[] {
  const plugins = wantedPlugins(view);
  const taken = new Map<string, string>();
  return agent.spec.tools.map((entry) => {
    const found = findTool(entry, plugins);
    const first = taken.get(found.tool);
    taken.set(found.tool, first ?? entry);
    if (first === undefined) return found;
    return {
      entry,
      tool: found.tool,
      problem: `tools '${first}' and '${entry}' are one command '${found.tool}'`,
      hint: "list one of them",
    };
  });
}

/** Launchers and documentation for the tools that are known. */
export function kitOf(agent: Agent, view: View): Kit {
  const found = findTools(agent, view).filter((tool) => tool.problem === undefined && tool.plugin !== undefined && tool.unknown !== true);
  const used = new Set(found.map((tool) => tool.plugin));
  const packages = wantedPlugins(view).flatMap((plugin) =>
    used.has(plugin.name) && plugin.root !== undefined ? [{ name: plugin.name, root: plugin.root, files: plugin.files }] : [],
  );
  return {
    tools: found.map((tool) => tool.tool).toSorted(),
    packages: packages.toSorted((a, b) => (a.name < b.name ? -1 : 1)),
  };
}
