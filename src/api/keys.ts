// API keys over HTTP, for the operator: made, listed, revoked. The secret is in one answer, once.
import type { FastifyInstance } from "fastify";
import type { Principal } from "../core/call.ts";
import { parseBudget } from "../core/budget.ts";
import { ROLES, type KeyAsk, type Keys } from "../core/keys.ts";
import type { RouteDeps } from "./deps.ts";
import { byOf, paramsOf, route } from "./exchange.ts";
import { only, optionalText, text, texts, wholeNumber, type Unknowns } from "./fields.ts";
import { badRequest, Refusal } from "./status.ts";
import { checkName } from "./target.ts";

const MOST = 1_000_000_000;
const FAR_MS = 100 * 366 * 86_400_000;

export function keyRoutes(app: FastifyInstance, deps: RouteDeps): void {
  const keys = (raw: object): Keys => {
    // The gate has said it already: nobody else gets here.
    if (byOf(raw).principal.kind !== "operator") throw new Refusal(403, "Forbidden", "keys are the operator's");
    if (deps.keys === undefined) throw new Refusal(404, "NotFound", "this gateway keeps no keys");
    return deps.keys;
  };
  route(app, "GET /api/keys", ({ request }) => ({ items: keys(request.raw).list() }));
  route(app, "POST /api/keys", ({ request, reply }) => {
    const made = keys(request.raw).create(asked(request.body, deps.clock.now()));
    reply.code(201);
    return { ...made.key, secret: made.secret };
  });
  route(app, "DELETE /api/keys/:name", ({ request, reply }) => {
    const shown = keys(request.raw).revoke(checkName(paramsOf(request).name, "key"));
    deps.live.cut(shown.name, reply.raw);
    return shown;
  });
}

function asked(raw: unknown, now: number): KeyAsk {
  const body = only(raw, ["name", "role", "agents", "requests", "sessions", "expiresInMs", "budget"]);
  const said = optionalText(body, "role", 20) ?? "caller";
  const role = ROLES.find((each) => each === said);
  if (role === undefined) throw badRequest(`there is no role ${JSON.stringify(said)}`, ROLES.join(", "));
  const life = numberOf(body, "expiresInMs", FAR_MS);
  return {
    name: text(body, "name", 63),
    role,
    agents: body.agents === undefined ? [] : texts(body, "agents", 1000),
    ...optional("requests", numberOf(body, "requests", MOST)),
    ...optional("sessions", numberOf(body, "sessions", MOST)),
    ...optional("expiresAt", life === undefined ? undefined : now + life),
    ...(body.budget !== undefined && { budget: parseBudget(body.budget) }),
  };
}

/** A session that a caller opens or uses counts against its key, whichever door it uses it through. Throws `exhausted`. */
export function countSession(deps: Pick<RouteDeps, "keys">, principal: Principal, session: string | undefined): void {
  if (principal.kind === "caller" && session !== undefined) deps.keys?.session(principal.key, session);
}

const optional = (key: string, value: number | undefined): object => (value === undefined ? {} : { [key]: value });
const numberOf = (body: Unknowns, key: string, max: number): number | undefined =>
  body[key] === undefined ? undefined : wholeNumber(body, key, { min: 1, max, absent: 0 });

/** Where the keys of all sessions of a caller begin; undefined for those who see all. */
export const ownSessions = (principal: Principal): string | undefined =>
  principal.kind === "caller" ? `key:${principal.key}:` : undefined;

/** A caller's sessions lie below its own name, by the same key at every door, so that no key reads another's, or the operator's. */
export function sessionOf(principal: Principal, session: string): string {
  const own = ownSessions(principal);
  if (own === undefined) return session;
  return session.startsWith(own) ? session : `${own}${session.replaceAll(":", "-")}`;
}
