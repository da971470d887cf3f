// Agents as channels see them: who is there, what they may use, whether they answer.
import type { FastifyInstance } from "fastify";
import type { AgentId, Principal } from "../core/call.ts";
import { condition, DEFAULT_NAMESPACE, nsName, type Agent } from "../core/resource.ts";
import type { RouteDeps } from "./deps.ts";
import { inScope } from "../core/who.ts";
import { byOf, paramsOf, route } from "./exchange.ts";
import { Refusal } from "./status.ts";
import { checkName } from "./target.ts";

export function agentRoutes(app: FastifyInstance, deps: RouteDeps): void {
  route(app, "GET /api/agents", ({ request }) => {
    const { principal } = byOf(request.raw);
    const seen = ({ metadata }: Agent): boolean => inScope(principal, nsName(metadata.namespace, metadata.name));
    return (deps.control.list("Agent", {}).items as readonly Agent[]).filter(seen).map(summary);
  });
  route(app, "GET /api/agents/:name", ({ request }) => {
    const { namespace, name } = split(paramsOf(request).name);
    checkScope(byOf(request.raw).principal, nsName(namespace, name));
    const agent = deps.control.get({ kind: "Agent", namespace, name }) as Agent;
    return { ...summary(agent), conditions: agent.status?.conditions ?? [], observed: agent.status?.observed ?? {} };
  });
  route(app, "GET /api/agents/:name/models", ({ request }) => {
    const { namespace, name } = agentNamed(deps, byOf(request.raw).principal, paramsOf(request).name);
    const { model, fallbacks } = (deps.control.get({ kind: "Agent", namespace, name }) as Agent).spec;
    return {
      models: [model, ...fallbacks].map(({ provider, id }, at) => {
        const facts = deps.directory.provider(provider)?.spec.models.find((each) => each.id === id);
        return { provider, id, name: `${provider}/${id}`, primary: at === 0, ...(facts !== undefined && { facts }) };
      }),
    };
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

/** Throws for an agent that the key is not for. */
export function checkScope(principal: Principal, agent: string): void {
  if (inScope(principal, agent)) return;
  throw new Refusal(403, "Forbidden", `this key is not for agent ${agent}`, "beige key list shows what each key is for");
}

/** The agent that a path names, as traffic names it. */
export function agentNamed(deps: RouteDeps, principal: Principal, text: string | undefined): AgentId {
  const { namespace, name } = split(text);
  checkScope(principal, nsName(namespace, name));
  const agent = deps.directory.agent(namespace, name);
  if (agent === undefined)
    throw new Refusal(404, "NotFound", `agent ${JSON.stringify(nsName(namespace, name))} is not known`, "beige get agents -A");
  return { namespace, name, uid: agent.metadata.uid };
}
