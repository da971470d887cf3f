// What stock Kubernetes clients need besides the kinds themselves; whatever is not offered is refused with what to use instead.
import type { FastifyInstance } from "fastify";
import type { RouteDeps } from "../deps.ts";
import { bodyOf, paramsOf, route, type Exchange } from "../exchange.ts";
import { optionalText, record } from "../fields.ts";
import { badRequest, Refusal } from "../status.ts";
import { checkName } from "../target.ts";
import { discoveryRoutes } from "./discovery.ts";
import { events } from "./events.ts";
import { absent } from "./instead.ts";
import { logs } from "./logs.ts";
import { namespaceOf, namespaces } from "./namespaces.ts";
import { openapiRoutes } from "./openapi.ts";
import { pods } from "./pods.ts";
import { getProjected, listProjected } from "./projection.ts";
import { reviewRoutes } from "./reviews.ts";

const CORE = "/api/v1";

export function kubeRoutes(app: FastifyInstance, deps: RouteDeps): void {
  discoveryRoutes(app, deps);
  openapiRoutes(app, deps);
  reviewRoutes(app, deps);
  namespaceRoutes(app, deps);
  podRoutes(app, deps);
  for (const [plural, projection] of Object.entries({ pods: pods(deps), events: events(deps) })) {
    const base = `${CORE}/namespaces/:namespace/${plural}`;
    for (const path of [`${CORE}/${plural}`, base]) route(app, `GET ${path}`, (exchange) => listProjected(deps, exchange, projection));
    route(app, `GET ${base}/:name`, (exchange) => getProjected(deps, exchange, projection));
    const readOnly = refuser(405, "MethodNotAllowed", `${plural} are projected and cannot be written`, WRITE_INSTEAD[plural]);
    for (const method of ["POST", "DELETE"]) route(app, `${method} ${base}`, readOnly);
    for (const method of ["PUT", "PATCH", "DELETE"]) route(app, `${method} ${base}/:name`, readOnly);
  }
  for (const method of ["GET", "POST", "PUT", "PATCH", "DELETE"])
    for (const path of [`${CORE}/*`, "/apis/*"]) route(app, `${method} ${path}`, notServed);
}

const WRITE_INSTEAD: Readonly<Record<string, string>> = {
  pods: "change the agent of that name: kubectl edit agent NAME, kubectl delete agent NAME",
  events: "beige writes them as things happen",
};

function refuser(http: number, reason: string, message: string, hint?: string): () => never {
  return () => {
    throw new Refusal(http, reason, message, hint);
  };
}

function podRoutes(app: FastifyInstance, deps: RouteDeps): void {
  const pod = `${CORE}/namespaces/:namespace/pods/:name`;
  route(app, `GET ${pod}/log`, (exchange) => logs(deps, exchange));
  const parts: Readonly<Record<string, readonly [string, string]>> = {
    exec: ["exec needs a WebSocket, which this client does not speak", "use kubectl 1.30 or newer, or: beige exec NAME -- COMMAND"],
    attach: ["attach is not offered", "use kubectl exec NAME -- COMMAND, or: beige prompt NAME TEXT"],
    portforward: ["port-forward is not offered: sandboxes serve no ports", "use kubectl exec NAME -- COMMAND"],
    proxy: ["proxy is not offered: sandboxes serve no ports", "use kubectl exec NAME -- COMMAND"],
    eviction: ["eviction is not offered", "kubectl delete agent NAME"],
    ephemeralcontainers: ["kubectl debug is not offered", "use kubectl exec NAME -- COMMAND"],
  };
  for (const [part, [message, hint]] of Object.entries(parts))
    for (const method of ["GET", "POST", "PATCH"]) route(app, `${method} ${pod}/${part}`, refuser(400, "BadRequest", message, hint));
}

function namespaceRoutes(app: FastifyInstance, deps: RouteDeps): void {
  const projection = namespaces(deps);
  const one = `${CORE}/namespaces/:name`;
  route(app, `GET ${CORE}/namespaces`, (exchange) => listProjected(deps, exchange, projection));
  route(app, `GET ${one}`, (exchange) => getProjected(deps, exchange, projection));
  route(app, `POST ${CORE}/namespaces`, (exchange) => {
    const metadata = record(bodyOf(exchange.request)["metadata"], "metadata");
    return noted(exchange, checkName(optionalText(metadata, "name", 64), "namespace"), 201);
  });
  for (const method of ["PUT", "PATCH"])
    route(app, `${method} ${one}`, (exchange) => noted(exchange, checkName(paramsOf(exchange.request)["name"], "namespace"), 200));
  const away = "a namespace goes with its last object";
  route(app, `DELETE ${one}`, refuser(405, "MethodNotAllowed", away, "kubectl delete agents,schedules --all -n NAMESPACE"));
}

/** Nothing of a namespace is stored: the answer says so beside the object. */
function noted({ reply }: Exchange, name: string, code: number): object {
  reply.header("warning", '299 - "a namespace comes with its first object and goes with its last: nothing was stored"');
  reply.code(code);
  return namespaceOf(name);
}

const SETS = "use beige apply -f FILE --prune, or kubectl apply -f FILE --prune -l LABEL --prune-allowlist=beige.dev/v1/Agent";

/** An ApplySet keeps its members in a Secret, a ConfigMap or a kind that says it may be one. */
const isApplySet = (url: string): boolean => /[?&](fieldManager=kubectl-applyset|labelSelector=applyset\.)/.test(url);

function notServed({ request }: Exchange): never {
  const path = request.url.split("?", 1)[0] ?? "";
  if (isApplySet(request.url)) throw new Refusal(400, "BadRequest", "ApplySets are not offered", SETS);
  if (path.length > 1024) throw badRequest("this path is too long");
  throw absent(path);
}
