// Whether the gateway lives and is ready: the one answer that needs no token.
import type { FastifyInstance } from "fastify";
import type { RouteDeps } from "./deps.ts";
import { askerOf, route } from "./exchange.ts";
import { OPEN_PATH } from "./gate.ts";

export function healthRoutes(app: FastifyInstance, deps: RouteDeps): void {
  route(app, `GET ${OPEN_PATH}`, ({ request, reply }) => {
    const settled = deps.control.settled();
    const status = settled ? "ok" : "starting";
    if (!settled) reply.code(503).header("retry-after", "1");
    const who = askerOf(request.raw)?.principal.kind;
    return who === "operator" || who === "viewer"
      ? { ...deps.health(), status, version: deps.version, resourceVersion: deps.control.version() }
      : { status };
  });
  route(app, "GET /readyz", ({ reply }) => {
    reply.type("text/plain; charset=utf-8");
    return deps.control.settled() ? "ok" : reply.code(503).send("starting");
  });
  for (const path of ["/livez", "/healthz"]) {
    route(app, `GET ${path}`, ({ reply }) => {
      reply.type("text/plain; charset=utf-8");
      return "ok";
    });
  }
}
