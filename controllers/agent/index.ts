// Agent: a sandbox with a model, a workspace and tools.
import agentSchema from "../../schemas/agent.json" with { type: "json" };
import { defineKind, type Need } from "../../src/core/kind.ts";
import { splitTool } from "../../src/core/policy.ts";
import { pointer } from "../../src/core/text.ts";
import type { Agent } from "../../src/core/resource.ts";
import { actAgent } from "./act.ts";
import type { AgentAction } from "./action.ts";
import { checkAgent } from "./check.ts";
import { agentColumns } from "./columns.ts";
import { agentNames, observeAgent } from "./observe.ts";
import { planAgent } from "./plan.ts";
import type { AgentSeen } from "./seen.ts";

function needs(agent: Agent): readonly Need[] {
  const { model, fallbacks, tools, plugins } = agent.spec;
  const provider = (name: string, path: string): Need => ({ ref: { kind: "Provider", namespace: "", name }, path });
  const plugin = (name: string, path: string): Need => ({ ref: { kind: "Plugin", namespace: "", name }, path });
  return [
    provider(model.provider, "/spec/model/provider"),
    ...fallbacks.map((fallback, i) => provider(fallback.provider, `/spec/fallbacks/${i}/provider`)),
    ...tools.flatMap((tool, i) => {
      const named = splitTool(tool).plugin;
      return named === undefined ? [] : [plugin(named, `/spec/tools/${i}`)];
    }),
    ...Object.keys(plugins).map((name) => plugin(name, pointer(["spec", "plugins", name]))),
  ];
}

export const agentKind = defineKind<Agent, AgentSeen, AgentAction>({
  kind: "Agent",
  plural: "agents",
  short: ["ag"],
  scope: "Namespaced",
  schema: agentSchema,
  columns: agentColumns,
  finalizer: "beige.dev/agent",
  needs,
  check: checkAgent,
  names: agentNames,
  observe: observeAgent,
  plan: planAgent,
  act: actAgent,
});
