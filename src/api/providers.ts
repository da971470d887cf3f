// What the gateway remembers of each model from its traffic: failures and cooldowns, which outlive a restart.
import type { FastifyInstance } from "fastify";
import type { Provider } from "../core/resource.ts";
import type { RouteDeps } from "./deps.ts";
import { route } from "./exchange.ts";
import { Refusal } from "./status.ts";

/** One model as it is now. */
interface ModelHealth {
  readonly provider: string;
  readonly model: string;
  /** Since the last answer, over all sessions. */
  readonly failures: number;
  /** RFC 3339; every session skips the model until then. */
  readonly coolingUntil?: string;
  readonly lastError?: string;
}

export function providerRoutes(app: FastifyInstance, deps: RouteDeps): void {
  route(app, "GET /api/providers/health", () => {
    const { providers } = deps;
    if (providers === undefined) throw new Refusal(404, "NotFound", "this gateway remembers nothing of its providers");
    const names = (deps.control.list("Provider", {}).items as readonly Provider[]).map(({ metadata }) => metadata.name);
    const items = names.toSorted().flatMap((provider) =>
      providers.seen(provider).models.map(({ id, failures, coolingUntil, lastError }): ModelHealth => {
        const until = coolingUntil === undefined ? {} : { coolingUntil: new Date(coolingUntil).toISOString() };
        return { provider, model: id, failures, ...until, ...(lastError !== undefined && { lastError }) };
      }),
    );
    return { items };
  });
}
