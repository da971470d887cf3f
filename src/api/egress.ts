// Where an agent's sandbox went, and whether it may go somewhere.
import type { FastifyInstance } from "fastify";
import { nsName } from "../core/resource.ts";
import { agentNamed } from "./agents.ts";
import type { RouteDeps } from "./deps.ts";
import { byOf, paramsOf, queryOf, route } from "./exchange.ts";
import { optionalText, queryNumber } from "./fields.ts";
import { badRequest, Refusal } from "./status.ts";

export function egressRoutes(app: FastifyInstance, deps: RouteDeps): void {
  route(app, "GET /api/agents/:name/egress", async ({ request }) => {
    const { namespace, name } = agentNamed(deps, byOf(request.raw).principal, paramsOf(request)["name"]);
    if (deps.audit === undefined) throw new Refusal(404, "NotFound", "this gateway keeps no record");
    const query = queryOf(request);
    const limit = queryNumber(query, "limit", { min: 1, max: 1000, absent: 50 });
    const decision = optionalText(query, "decision", 16);
    const rows = await deps.audit.tail(2 * limit, {
      type: "egress",
      agent: nsName(namespace, name),
      ...(decision === undefined ? {} : { decision }),
    });
    return { items: rows.filter((row) => row.phase !== "begin").slice(-limit) };
  });
  route(app, "GET /api/agents/:name/egress/test", async ({ request }) => {
    const agent = agentNamed(deps, byOf(request.raw).principal, paramsOf(request)["name"]);
    if (deps.egress === undefined) throw new Refusal(404, "NotFound", "this gateway lets nothing out");
    const target = optionalText(queryOf(request), "target", 300);
    if (target === undefined) throw badRequest("target is missing: HOST or HOST:PORT");
    return await deps.egress.test(agent, target);
  });
}
