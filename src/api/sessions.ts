// Sessions of agents over HTTP: seen, set, steered, ended, exported, deleted, searched, and added to by a terminal that runs the loop itself.
import type { FastifyInstance } from "fastify";
import type { SessionAsk, SessionDesk, SessionEntry, SessionSettings, SettingsPatch } from "../core/session.ts";
import { agentNamed } from "./agents.ts";
import type { RouteDeps } from "./deps.ts";
import { byOf, paramsOf, queryOf, route, type Exchange } from "./exchange.ts";
import { only, optionalText, queryNumber, record, text, type Unknowns } from "./fields.ts";
import { countSession, ownSessions, sessionOf } from "./keys.ts";
import { requestOf } from "./principal.ts";
import { markdown } from "./sessions/markdown.ts";
import { badRequest } from "./status.ts";
import { send } from "./stream.ts";

const LONG = 8 * 1024 * 1024;
const BASE = "/api/agents/:name/sessions";
const ONE = `${BASE}/:key`;

export function sessionRoutes(app: FastifyInstance, deps: RouteDeps): void {
  const { sessions } = deps;
  if (sessions === undefined) return;
  const askOf = (exchange: Exchange): SessionAsk => {
    const { principal } = byOf(exchange.request.raw);
    const { name, key } = paramsOf(exchange.request);
    const agent = agentNamed(deps, principal, name);
    const session = sessionOf(principal, key ?? "");
    // Who only looks opens nothing.
    if (exchange.request.method !== "GET" && exchange.request.method !== "DELETE") countSession(deps, principal, session);
    return { principal, agent, session, request: requestOf(exchange) };
  };
  // All of an agent's conversations; of callers just their own.
  const allOf = (exchange: Exchange): { readonly agent: SessionAsk["agent"]; readonly own?: string } => {
    const { principal } = byOf(exchange.request.raw);
    const own = ownSessions(principal);
    return { agent: agentNamed(deps, principal, paramsOf(exchange.request).name), ...(own !== undefined && { own }) };
  };
  route(app, `GET ${BASE}`, (exchange) => {
    const { agent, own } = allOf(exchange);
    return { sessions: sessions.list(agent, own) };
  });
  route(app, "GET /api/agents/:name/search", (exchange) => search(sessions, exchange, allOf(exchange)));
  route(app, `GET ${ONE}`, (exchange) => sessions.show(askOf(exchange)));
  route(app, `GET ${ONE}/export`, (exchange) => exported(deps, sessions, { exchange, ask: askOf(exchange) }));
  route(app, `PATCH ${ONE}`, (exchange) => sessions.set(askOf(exchange), patchOf(exchange.request.body)));
  route(app, `DELETE ${ONE}`, async (exchange) => {
    await sessions.remove(askOf(exchange));
    return { deleted: true };
  });
  for (const how of ["steer", "follow-up"] as const)
    route(app, `POST ${ONE}/${how}`, (exchange) =>
      sessions.say(askOf(exchange), how, text(only(exchange.request.body, ["text"]), "text", LONG)),
    );
  route(app, `POST ${ONE}/abort`, (exchange) => ({ ended: sessions.abort(askOf(exchange)) }));
  route(app, `GET ${ONE}/loop`, (exchange) => sessions.loop(askOf(exchange)));
  route(app, `POST ${ONE}/entries`, (exchange) => append(sessions, exchange, askOf(exchange)));
}

function search(
  sessions: SessionDesk,
  { request }: Exchange,
  { agent, own }: { readonly agent: SessionAsk["agent"]; readonly own?: string },
): ReturnType<SessionDesk["search"]> {
  const query = queryOf(request);
  const limit = queryNumber(query, "limit", { min: 1, max: 200, absent: 50 });
  return sessions.search(agent, { text: text(query, "q", 256), limit, ...(own !== undefined && { own }) });
}

function exported(
  deps: RouteDeps,
  sessions: SessionDesk,
  { exchange, ask }: { readonly exchange: Exchange; readonly ask: SessionAsk },
): Promise<unknown> {
  const format = optionalText(queryOf(exchange.request), "format") ?? "jsonl";
  if (format === "markdown") return sessions.show(ask).then((shown) => reply(exchange, markdown(shown)));
  if (format !== "jsonl") throw badRequest("format must be jsonl or markdown");
  return send<Uint8Array>(deps, exchange, {
    events: () => sessions.bytes(ask),
    line: (bytes) => Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength),
    broken: (error) => ({ type: "error", code: error.code, message: error.message }),
    type: "application/x-ndjson",
    eager: false,
    stop: deps.stopped,
  });
}

const reply = ({ reply: to }: Exchange, body: string): unknown => to.type("text/markdown; charset=utf-8").send(body);

function append(sessions: SessionDesk, { request }: Exchange, ask: SessionAsk): ReturnType<SessionDesk["append"]> {
  const body = only(request.body, ["entries", "after"]);
  const { entries, after } = body;
  if (!Array.isArray(entries)) throw badRequest("entries must be a list");
  if (after !== undefined && after !== null && typeof after !== "string") throw badRequest("after must be the id of an entry, or null");
  return sessions.append(ask, entries as readonly SessionEntry[], after);
}

function patchOf(raw: unknown): SettingsPatch {
  const body = only(raw, ["model", "thinking", "verbose"]);
  const verbose = body["verbose"];
  if (verbose !== undefined && verbose !== null && typeof verbose !== "boolean") throw badRequest("verbose must be true, false or null");
  return {
    ...patched(body, "model", (value) => modelOf(value)),
    ...patched(body, "thinking", () => text(body, "thinking") as NonNullable<SessionSettings["thinking"]>),
    ...(verbose === undefined ? {} : { verbose }),
  };
}

function patched<K extends "model" | "thinking">(
  body: Unknowns,
  key: K,
  read: (value: unknown) => NonNullable<SessionSettings[K]>,
): { readonly [P in K]?: NonNullable<SessionSettings[K]> | null } {
  const value = body[key];
  if (value === undefined) return {};
  return { [key]: value === null ? null : read(value) } as { readonly [P in K]?: NonNullable<SessionSettings[K]> | null };
}

/** `{provider, id}`, or PROVIDER/ID; ids may hold slashes. */
function modelOf(value: unknown): NonNullable<SessionSettings["model"]> {
  if (typeof value === "string") {
    const slash = value.indexOf("/");
    if (slash < 1 || slash === value.length - 1) throw badRequest("model must be PROVIDER/MODEL");
    return { provider: value.slice(0, slash), id: value.slice(slash + 1) };
  }
  const named = only(record(value, "model"), ["provider", "id"], "model");
  return { provider: text(named, "provider"), id: text(named, "id") };
}
