// What each role may ask over HTTP, by method and path, before any route is reached. What is not listed is refused.
import type { Principal } from "../core/call.ts";
import { DEFAULT_NAMESPACE, nsName } from "../core/resource.ts";
import { inScope } from "../core/who.ts";
import { Refusal } from "./status.ts";

interface Wish {
  readonly method: string;
  readonly url: string;
}

/** Questions about oneself, which are asked by writing. */
const SELF = /^\/apis\/(authorization|authentication)\.k8s\.io\/v1\/selfsubject(accessreviews|rulesreviews|reviews)$/;
/** What is served at all: says nothing of any object. */
const DISCOVERY = /^\/(api|apis|api\/v1|apis\/[^/]+(\/v1)?|openapi(\/.*)?|version|healthz|livez|readyz|api\/health|api\/kinds)$/;
const EXEC = /\/exec$/;
const KEYS = /^\/api\/keys(\/|$)/;
/** Name the agent or model in their body: the route itself holds it against the key. */
const ASKS = /^\/(v1\/(chat\/completions|responses|messages|messages\/count_tokens)|api\/chat\/stream)$/;
const MODELS = /^\/v1\/models(\/.*)?$/;
const AGENT = /^\/api\/agents\/([a-z0-9.-]+)(?:\/(prompt|exec|models))?$/;
const SESSION = /^\/api\/agents\/([a-z0-9.-]+)\/(?:search|sessions(?:\/([^/]+)(?:\/(export|steer|follow-up|abort|entries))?)?)$/;
const POD = /^\/api\/v1\/namespaces\/([a-z0-9-]+)\/pods\/([a-z0-9-]+)(\/exec)?$/;

/** Why the role does not allow it; undefined allows it. */
export function forbidden(principal: Principal, { method, url }: Wish): Refusal | undefined {
  const path = decoded(url.split("?", 1)[0] ?? "");
  if (principal.kind === "operator" || (method === "POST" && SELF.test(path))) return undefined;
  if (principal.kind === "viewer") {
    // kubectl's exec is a GET that becomes a WebSocket.
    if (method === "GET" && !EXEC.test(path) && !KEYS.test(path)) return undefined;
    return no("a viewer may read, and nothing else", "ask the operator, or for a key of another role");
  }
  if (principal.kind !== "caller") return no("this is not for requests");
  if (method === "GET" && (DISCOVERY.test(path) || path === "/api/agents")) return undefined;
  if ((method === "POST" && ASKS.test(path)) || (method === "GET" && MODELS.test(path))) return undefined;
  const agent = wanted(method, path);
  if (agent === undefined)
    return no("a caller may prompt and call its agents, and nothing else", 'beige prompt AGENT "TEXT", or POST /api/agents/AGENT/prompt');
  return inScope(principal, agent) ? undefined : no(`this key is not for agent ${agent}`, "beige key list shows what each key is for");
}

/** As the router reads it, so that both speak of the same route. */
function decoded(path: string): string {
  try {
    return decodeURI(path);
  } catch {
    return path;
  }
}

/** The agent that a caller's request is about. */
function wanted(method: string, path: string): string | undefined {
  const [, name, deed] = AGENT.exec(path) ?? [];
  if (name !== undefined) return (deed === undefined || deed === "models") === (method === "GET") ? withoutDefault(name) : undefined;
  const [, of, session, what] = SESSION.exec(path) ?? [];
  if (of !== undefined) return sessionMethods(session, what).includes(method) ? withoutDefault(of) : undefined;
  const [, namespace, pod, exec] = POD.exec(path) ?? [];
  if (namespace === undefined || pod === undefined) return undefined;
  return method === "GET" || (method === "POST" && exec !== undefined) ? nsName(namespace, pod) : undefined;
}

/** Its own sessions: the routes see to it that others' are not among them. */
function sessionMethods(session: string | undefined, what: string | undefined): readonly string[] {
  if (session === undefined || what === "export") return ["GET"];
  return what === undefined ? ["GET", "PATCH", "DELETE"] : ["POST"];
}

const withoutDefault = (name: string): string =>
  name.startsWith(`${DEFAULT_NAMESPACE}.`) ? name.slice(DEFAULT_NAMESPACE.length + 1) : name;

const no = (message: string, hint?: string): Refusal => new Refusal(403, "Forbidden", message, hint);

/** The same for an action on a kind, as clients of Kubernetes ask about it. */
export function roleAllows(
  principal: Principal,
  asked: { readonly resource: string; readonly subresource: string; readonly verb: string; readonly agent?: string },
): boolean {
  const { resource, subresource, verb, agent } = asked;
  if (principal.kind === "operator" || resource.startsWith("selfsubject")) return true;
  if (principal.kind === "viewer") return ["get", "list", "watch"].includes(verb) && subresource !== "exec";
  if (principal.kind !== "caller" || resource !== "pods" || agent === undefined || !inScope(principal, agent)) return false;
  return subresource === "" ? verb === "get" : subresource === "exec" && (verb === "get" || verb === "create");
}
