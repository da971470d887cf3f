// Whom a client's model name means: an agent, or one model of a provider, as far as the caller may.
import { createHash } from "node:crypto";
import type { AgentId, Principal } from "../../core/call.ts";
import { DEFAULT_NAMESPACE, nsName, type Agent } from "../../core/resource.ts";
import type { ModelName } from "../../core/road.ts";
import { inScope } from "../../core/who.ts";
import type { Directory } from "../../core/world.ts";
import { ownSessions, sessionOf } from "../keys.ts";
import { Refusal } from "../status.ts";

export type Target =
  | { readonly kind: "agent"; readonly agent: Agent }
  /** With an agent: it is charged, and its hooks and list hold. */
  | { readonly kind: "model"; readonly model: ModelName; readonly agent?: Agent };

export interface Wanted {
  readonly principal: Principal;
  /** As the client wrote it. */
  readonly model: string;
  /** Of a bare model: the agent to charge, as NAME or NS.NAME. */
  readonly agent?: string;
}

export const idOf = (agent: Agent): AgentId => ({
  namespace: agent.metadata.namespace,
  name: agent.metadata.name,
  uid: agent.metadata.uid,
});

export const fullName = (agent: Agent): string => nsName(agent.metadata.namespace, agent.metadata.name);

const quoted = (text: string): string => JSON.stringify(text.slice(0, 200));

export function targetOf(directory: Directory, wanted: Wanted): Target {
  const slash = wanted.model.indexOf("/");
  if (slash === -1) return { kind: "agent", agent: agentOf(directory, wanted.principal, wanted.model) };
  const model = { provider: wanted.model.slice(0, slash), id: wanted.model.slice(slash + 1) };
  if (wanted.agent !== undefined) {
    const agent = agentOf(directory, wanted.principal, wanted.agent);
    if (lists(agent, model)) return { kind: "model", model, agent };
    throw new Refusal(403, "Forbidden", `model ${quoted(wanted.model)} is not in the list of agent '${fullName(agent)}'`, "GET /v1/models");
  }
  if (wanted.principal.kind === "operator") {
    if (model.id !== "" && directory.provider(model.provider) !== undefined) return { kind: "model", model };
    throw unknown(wanted.model);
  }
  const agent = agentsOf(directory, wanted.principal).find((each) => lists(each, model));
  if (agent === undefined) throw unknown(wanted.model);
  return { kind: "model", model, agent };
}

/** One that is out of scope is not told apart from one that is not there. */
function agentOf(directory: Directory, principal: Principal, text: string): Agent {
  const dot = text.indexOf(".");
  const namespace = dot === -1 ? DEFAULT_NAMESPACE : text.slice(0, dot);
  const agent = directory.agent(namespace, text.slice(dot + 1));
  if (agent === undefined || !inScope(principal, fullName(agent))) throw unknown(text);
  return agent;
}

const unknown = (name: string): Refusal =>
  new Refusal(404, "NotFound", `model ${quoted(name)} is not known`, "name an agent, or PROVIDER/MODEL; GET /v1/models lists them");

/** Agents that the caller may prompt. */
export function agentsOf(directory: Directory, principal: Principal): readonly Agent[] {
  if (principal.kind !== "caller" || principal.agents.includes("*")) return directory.agents();
  return directory.agents().filter((agent) => inScope(principal, fullName(agent)));
}

/** The models that an agent may use, its first one first. */
export const modelsOf = (agent: Agent): readonly ModelName[] => [
  { provider: agent.spec.model.provider, id: agent.spec.model.id },
  ...agent.spec.fallbacks,
];

const lists = (agent: Agent, model: ModelName): boolean =>
  modelsOf(agent).some((each) => each.provider === model.provider && each.id === model.id);

const FIT = /^[A-Za-z0-9][\w.@-]{0,60}$/;

/** A client's own name of a conversation as a session key: of this channel; below the key's own name for callers, as at the other doors. */
export function sessionKey(principal: Principal, name: string): string {
  const below = ownSessions(principal);
  if (below !== undefined && name.startsWith(below) && FIT.test(name.slice(below.length))) return name;
  const own = name.startsWith("api:") ? name.slice(4) : name;
  const fits = own.split(":").length <= 2 && own.split(":").every((part) => FIT.test(part));
  const fit = fits ? own : createHash("sha256").update(own).digest("hex").slice(0, 32);
  return principal.kind === "caller" ? sessionOf(principal, fit) : `api:${fit}`;
}
