// How well an agent's sandbox is contained.
import type { FastifyInstance } from "fastify";
import { agentNamed } from "./agents.ts";
import type { RouteDeps } from "./deps.ts";
import { byOf, leaving, paramsOf, route } from "./exchange.ts";
import { Refusal } from "./status.ts";

export function sandboxRoutes(app: FastifyInstance, deps: RouteDeps): void {
  route(app, "GET /api/agents/:name/checks", async ({ request, reply }) => {
    const { uid } = agentNamed(deps, byOf(request.raw).principal, paramsOf(request)["name"]);
    if (deps.checks === undefined) throw new Refusal(404, "NotFound", "this gateway checks no sandboxes");
    const left = leaving(reply, deps.stopped);
    try {
      return { items: await deps.checks(uid, left.signal) };
    } finally {
      left.done();
    }
  });
}
