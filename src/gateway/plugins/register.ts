// Makes a plugin and lets it register: the same in the gateway and in a plugin's own process.
import type { CreatePlugin, Hooks, PluginContext, PluginInstance, PluginRegistrar, ToolDefinition } from "../../core/plugin.ts";
import { isCoreTool } from "../../core/call.ts";
import { HOOKS, TOOL_NAME } from "./folder.ts";

export interface Registered {
  readonly instance: PluginInstance;
  readonly tools: ReadonlyMap<string, ToolDefinition>;
  readonly hooks: Hooks;
}

const TOOLS_MAX = 64;

function checkTool(tool: ToolDefinition, tools: ReadonlyMap<string, ToolDefinition>): void {
  if (typeof tool?.name !== "string" || !TOOL_NAME.test(tool.name)) throw new Error("registers a tool whose name is not a lower-case word");
  if (isCoreTool(tool.name)) throw new Error(`registers tool '${tool.name}', which is a core tool`);
  if (tools.has(tool.name)) throw new Error(`registers tool '${tool.name}' twice`);
  if (typeof tool.run !== "function" || typeof tool.description !== "string")
    throw new Error(`registers tool '${tool.name}' without run or description`);
  if (tools.size >= TOOLS_MAX) throw new Error(`registers more than ${TOOLS_MAX} tools`);
}

function findCreate(loaded: Readonly<Record<string, unknown>>): CreatePlugin {
  const found = loaded["createPlugin"] ?? loaded["default"];
  if (typeof found !== "function") throw new Error("its entry point exports no createPlugin function");
  return found as CreatePlugin;
}

/** Throws whatever the plugin throws. */
export async function registerPlugin(url: string, context: PluginContext): Promise<Registered> {
  const loaded = (await import(url)) as Readonly<Record<string, unknown>>;
  const instance = await findCreate(loaded)(context);
  const tools = new Map<string, ToolDefinition>();
  const hooks: Record<string, unknown> = {};
  let open = true;
  const registrar: PluginRegistrar = {
    tool: (definition) => {
      if (!open) throw new Error("register is over");
      checkTool(definition, tools);
      tools.set(definition.name, definition);
    },
    hooks: (given) => {
      if (!open) throw new Error("register is over");
      for (const name of HOOKS) {
        if (given[name] === undefined) continue;
        if (hooks[name] !== undefined) throw new Error(`registers hook ${name} twice`);
        hooks[name] = given[name];
      }
    },
  };
  await instance.register(registrar);
  open = false;
  return { instance, tools, hooks };
}
