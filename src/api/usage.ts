// What was spent, and the numbers for whoever watches the gateway.
import type { FastifyInstance } from "fastify";
import { USAGE_BY, type UsageBy } from "../core/ledger.ts";
import type { RouteDeps } from "./deps.ts";
import { queryOf, route } from "./exchange.ts";
import { optionalText, queryNumber, type Unknowns } from "./fields.ts";
import { Refusal } from "./status.ts";

const DAY_MS = 86_400_000;

export function usageRoutes(app: FastifyInstance, deps: RouteDeps): void {
  const { accounts, metrics } = deps;
  route(app, "GET /api/usage", async ({ request }) => {
    if (accounts === undefined) throw new Refusal(404, "NotFound", "this gateway keeps no ledger");
    const query = queryOf(request);
    const by = optionalText(query, "by", 16) ?? "agent";
    if (!isBy(by)) throw new Refusal(400, "BadRequest", `by is ${USAGE_BY.join(", ")}, not ${JSON.stringify(by)}`);
    const now = deps.clock.now();
    const until = timeOf(query, "until") ?? now + 1;
    const since = timeOf(query, "since") ?? Math.min(now, until) - 7 * DAY_MS;
    if (since >= until) throw new Refusal(400, "BadRequest", "since is not before until");
    const limit = queryNumber(query, "limit", { min: 1, max: 1000, absent: 100 });
    return { ...(await accounts.usage({ by, since, until, limit })), budgets: accounts.budgets() };
  });
  route(app, "GET /metrics", async ({ reply }) => {
    if (metrics === undefined) throw new Refusal(404, "NotFound", "this gateway counts nothing");
    const { type, body } = await metrics.text();
    return reply.type(type).send(body);
  });
}

const isBy = (text: string): text is UsageBy => (USAGE_BY as readonly string[]).includes(text);

/** RFC 3339, or milliseconds since the epoch. */
function timeOf(query: Unknowns, name: string): number | undefined {
  const text = optionalText(query, name, 40);
  if (text === undefined) return undefined;
  const at = /^\d{1,15}$/.test(text) ? Number(text) : /^\d{4}-\d\d-\d\d/.test(text) ? Date.parse(text) : Number.NaN;
  if (Number.isFinite(at) && Math.abs(at) < 8e15) return at;
  throw new Refusal(400, "BadRequest", `${name} is no time: ${JSON.stringify(text)}`, `${name}=2026-11-01T00:00:00Z`);
}
