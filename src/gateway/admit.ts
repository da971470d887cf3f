// Whether a request may go on the road, whose it is, and which models may answer it.
import { BeigeError } from "../core/errors.ts";
import { nsName, type Agent } from "../core/resource.ts";
import type { AuditCall } from "../core/audit.ts";
import type { RoadRequest } from "../core/road.ts";
import { inScope, principalName } from "../core/who.ts";
import type { Directory } from "../core/world.ts";
import { candidatesOf, oneModel, type Candidate } from "./models.ts";

export interface Admitted {
  /** Absent for an operator's own request to one model. */
  readonly agent?: Agent;
  readonly models: readonly Candidate[];
}

export const agentName = ({ agent }: RoadRequest): string => (agent === undefined ? "" : nsName(agent.namespace, agent.name));

export interface Gates {
  readonly directory: Directory;
  /** Whether a key may still spend: what waited in a session outlives the request that brought it. All may when absent. */
  readonly goodKey?: (name: string) => boolean;
}

export function admit({ directory, goodKey }: Gates, request: RoadRequest): Admitted {
  const { principal, model } = request;
  if ("key" in principal && principal.key !== undefined && goodKey?.(principal.key) === false)
    throw new BeigeError("denied", `key ${principal.key} was revoked or has expired`, { hint: "beige key list" });
  if (principal.kind === "viewer") throw new BeigeError("denied", "a viewer may not use models");
  if (request.agent !== undefined) {
    const agent = allowedAgent(directory, request, request.agent.uid);
    return { agent, models: candidatesOf(directory, agent, model) };
  }
  if (principal.kind !== "operator")
    throw new BeigeError("denied", "only an operator may ask a model without an agent", { hint: "name an agent that has the model" });
  if (model === undefined) throw new BeigeError("invalid", "neither an agent nor a model is named");
  return { models: [oneModel(directory, model)] };
}

function allowedAgent(directory: Directory, request: RoadRequest, uid: string): Agent {
  const { principal } = request;
  const name = agentName(request);
  if (!inScope(principal, name))
    throw new BeigeError("denied", `the key is not for agent '${name}'`, { hint: "beige key create NAME --agent AGENT" });
  if (principal.kind === "agent" && principal.uid !== uid) throw new BeigeError("denied", "an agent may not use another one's models");
  const agent = directory.agentByUid(uid);
  if (agent === undefined) throw new BeigeError("not_found", `agent '${name}' does not exist`, { hint: "beige get agents" });
  if (agent.metadata.deletionTimestamp !== undefined) throw new BeigeError("denied", `agent '${name}' is being deleted`);
  if (agent.spec.suspend) throw new BeigeError("denied", `agent '${name}' is suspended`, { hint: "set spec.suspend: false and apply" });
  return agent;
}

export const rowOf = (request: RoadRequest, tool: string): AuditCall => ({
  agent: agentName(request),
  type: "llm",
  tool,
  args: [],
  decision: "allowed",
  target: "provider",
  principal: principalName(request.principal),
  ...(request.session === undefined ? {} : { session: request.session }),
  ...(request.request === undefined ? {} : { request: request.request }),
});
