// May this agent call this tool? Deny by default; nothing but the agent's own manifest widens it.
import { isCoreTool } from "./call.ts";
import type { Agent } from "./resource.ts";

/** Names of the loaded plugins that have a tool of this name. */
export type ToolOwner = (tool: string) => readonly string[];

export type Permission =
  | { readonly allowed: true; readonly kind: "core_tool"; readonly tool: string }
  /** `plugin` is absent when no loaded plugin has the tool: allowed, and not there. */
  | { readonly allowed: true; readonly kind: "tool"; readonly tool: string; readonly plugin?: string }
  /** `reason` is absent when the tool is just not listed. */
  | { readonly allowed: false; readonly reason?: string };

/** PLUGIN/TOOL, or TOOL. */
export function splitTool(name: string): { readonly plugin?: string; readonly tool: string } {
  const slash = name.indexOf("/");
  return slash < 0 ? { tool: name } : { plugin: name.slice(0, slash), tool: name.slice(slash + 1) };
}

function pluginTool(listed: readonly string[], owner: ToolOwner, name: string): Permission {
  const asked = splitTool(name);
  const entries = listed.map(splitTool).filter((entry) => entry.tool === asked.tool);
  const plain = entries.some((entry) => entry.plugin === undefined);
  const named = entries.flatMap((entry) => (entry.plugin === undefined ? [] : [entry.plugin]));
  const owners = owner(asked.tool);
  // An entry with its plugin is a choice: it wins over the bare name.
  const candidates = named.length > 0 ? named : plain ? owners : [];
  const fitting = asked.plugin === undefined ? candidates : candidates.filter((plugin) => plugin === asked.plugin);
  if (entries.length === 0 || (named.length > 0 && fitting.length === 0)) return { allowed: false };
  const loaded = fitting.filter((plugin) => owners.includes(plugin));
  if (fitting.length > 1) return { allowed: false, reason: `plugins ${fitting.toSorted().join(", ")} all have it; list it as PLUGIN/TOOL` };
  if (asked.plugin !== undefined && fitting.length === 0 && owners.length > 0) return { allowed: false };
  const plugin = loaded[0];
  return plugin === undefined
    ? { allowed: true, kind: "tool", tool: asked.tool }
    : { allowed: true, kind: "tool", tool: asked.tool, plugin };
}

export function decide(agent: Agent, toolOwner: ToolOwner, tool: string): Permission {
  if (agent.metadata.deletionTimestamp !== undefined) return { allowed: false, reason: "the agent is being deleted" };
  if (agent.spec.suspend) return { allowed: false, reason: "the agent is suspended" };
  if (isCoreTool(tool)) return agent.spec.coreTools.includes(tool) ? { allowed: true, kind: "core_tool", tool } : { allowed: false };
  return pluginTool(agent.spec.tools, toolOwner, tool);
}
