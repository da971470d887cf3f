// Agents as channels see them: who is there, what they may use, whether they answer.
import type { FastifyInstance } from "fastify";
import type { AgentId } from "../core/call.ts";
import { condition, DEFAULT_NAMESPACE, nsName, type Agent } from "../core/resource.ts";
import type { RouteDeps } from "./deps.ts";
import { paramsOf, route } from "./exchange.ts";
import { Refusal } from "./status.ts";
import { checkName } from "./target.ts";

export function agentRoutes(app: FastifyInstance, deps: RouteDeps): void {
  route(app, "GET /api/agents", () => (deps.control.list("Agent", {}).items as readonly Agent[]).map(summary));
  route(app, "GET /api/agents/:name", ({ request }) => {
    const { namespace, name } = split(paramsOf(request).name);
    const agent = deps.control.get({ kind: "Agent", namespace, name }) as Agent;
    return { ...summary(agent), conditions: agent.status?.conditions ?? [], observed: agent.status?.observed ?? {} };
  });
}

function summary(agent: Agent): object {
  const ready = condition(agent, "Ready");
  return {
    name: nsName(agent.metadata.namespace, agent.metadata.name),
    namespace: agent.metadata.namespace,
    uid: agent.metadata.uid,
    model: agent.spec.model,
    tools: agent.spec.tools,
    ready: ready?.status ?? "Unknown",
    reason: ready?.reason ?? "Pending",
    message: ready?.message ?? "",
  };
}

/** NAME, or NS.NAME. */
function split(text: string | undefined): { readonly namespace: string; readonly name: string } {
  const dot = (text ?? "").indexOf(".");
  if (dot === -1) return { namespace: DEFAULT_NAMESPACE, name: checkName(text, "name") };
  return { namespace: checkName(text?.slice(0, dot), "namespace"), name: checkName(text?.slice(dot + 1), "name") };
}

/** The agent that a path names, as traffic names it. */
export function agentNamed(deps: RouteDeps, text: string | undefined): AgentId {
  const { namespace, name } = split(text);
  const agent = deps.directory.agent(namespace, name);
  if (agent === undefined)
    throw new Refusal(404, "NotFound", `agent ${JSON.stringify(nsName(namespace, name))} is not known`, "beige get agents -A");
  return { namespace, name, uid: agent.metadata.uid };
}
