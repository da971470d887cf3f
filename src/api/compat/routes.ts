// The endpoints that clients of OpenAI's and Anthropic's APIs speak already: a model's name is an agent, or PROVIDER/MODEL.
import { randomUUID } from "node:crypto";
import type { FastifyInstance } from "fastify";
import type { Principal } from "../../core/call.ts";
import type { ChatContext } from "../../core/chat.ts";
import { BeigeError } from "../../core/errors.ts";
import type { RoadRequest, WireRequest } from "../../core/road.ts";
import type { SessionAsk } from "../../core/session.ts";
import type { RouteDeps } from "../deps.ts";
import { bodyOf, route, type Exchange } from "../exchange.ts";
import type { Unknowns } from "../fields.ts";
import { countSession } from "../keys.ts";
import { principalOf, requestOf } from "../principal.ts";
import { Refusal } from "../status.ts";
import { answer } from "./answer.ts";
import { FORMATS } from "./faults.ts";
import { unfit } from "./fields.ts";
import type { Format } from "./format.ts";
import { listRoutes } from "./list.ts";
import { roadOf } from "./road.ts";
import { idOf, sessionKey, targetOf, type Target } from "./target.ts";
import { brings } from "./tools.ts";
import { asAnswer, spoken, type AnswerEvent } from "./turn.ts";

export function compatRoutes(app: FastifyInstance, deps: RouteDeps): void {
  for (const [path, format] of Object.entries(FORMATS)) route(app, `POST ${path}`, (exchange) => serve(deps, exchange, format));
  route(app, "POST /v1/messages/count_tokens", () => {
    throw new Refusal(404, "NotFound", "tokens are not counted ahead here", "read usage in the answer");
  });
  route(app, "GET /v1/responses/:id", () => {
    throw new Refusal(404, "NotFound", "answers are not kept here", "ask without previous_response_id");
  });
  listRoutes(app, deps);
}

/** Everything that one request says, before it is known who answers. */
interface Said {
  readonly deps: RouteDeps;
  readonly format: Format;
  readonly principal: Principal;
  readonly body: Unknowns;
  readonly stream: boolean;
  readonly request: string;
  readonly session?: string;
  /** Headers of the client's that mean something to the provider. */
  readonly extra: Pick<WireRequest, "headers">;
  /** Filled when the request is read. */
  readonly dropped: string[];
}

async function serve(deps: RouteDeps, exchange: Exchange, format: Format): Promise<void> {
  const body = bodyOf(exchange.request);
  const { model, stream } = body;
  if (typeof model !== "string" || model === "") throw unfit("model", "is needed", "name an agent, or PROVIDER/MODEL");
  if (stream !== undefined && stream !== null && typeof stream !== "boolean") throw unfit("stream", "must be true or false");
  const principal = principalOf(exchange);
  if (principal.kind === "viewer") throw new BeigeError("denied", "a viewer may not prompt agents or models");
  const charged = headerOf(exchange, "x-beige-agent");
  const target = targetOf(deps.directory, { principal, model, ...(charged !== undefined && { agent: charged }) });
  const named = headerOf(exchange, "x-beige-session") ?? format.session(body);
  const dropped: string[] = [];
  const said: Said = {
    deps,
    format,
    principal,
    body,
    stream: stream === true,
    request: requestOf(exchange),
    dropped,
    extra: extraOf(exchange, format),
    ...(named !== undefined && { session: sessionKey(principal, named) }),
  };
  await answer(deps, exchange, {
    format,
    stream: said.stream,
    model,
    usage: (body["stream_options"] as { readonly include_usage?: unknown } | undefined | null)?.include_usage === true,
    request: said.request,
    dropped: () => dropped,
    events: target.kind === "agent" && !brings(body) ? turnOf(said, target) : onRoad(said, target),
  });
}

/** The agent answers as it would to anybody: its own tools in its sandbox, its own session. */
function turnOf(said: Said, { agent }: Extract<Target, { kind: "agent" }>): (signal: AbortSignal) => AsyncIterable<AnswerEvent> {
  const { deps, format, principal, session } = said;
  const asked = format.read(said.body);
  const ignored = Object.keys(asked.options).filter((key) => key !== "maxTokens");
  said.dropped.push(
    ...asked.dropped,
    ...ignored,
    ...(session !== undefined && asked.context.systemPrompt !== undefined ? ["instructions"] : []),
  );
  const words = spoken(asked.context, session !== undefined);
  const key = session ?? sessionKey(principal, `once-${randomUUID()}`);
  countSession(deps, principal, key);
  const turn = { principal, agent: idOf(agent), ...words, session: key, request: said.request, commands: false };
  return (signal) => {
    const events = asAnswer(deps.turn(turn, signal), () => deps.clock.now());
    return session === undefined ? forgotten(deps, turn, events) : events;
  };
}

/** A session that nobody can name again leaves no file. What was done in it stays in the audit record. */
async function* forgotten(deps: RouteDeps, turn: SessionAsk, events: AsyncIterable<AnswerEvent>): AsyncGenerator<AnswerEvent> {
  try {
    yield* events;
  } finally {
    const { principal, agent, session } = turn;
    await deps.sessions?.remove({ principal, agent, session }).catch((error: unknown) => {
      deps.log.debug("one-off session stays", { session, error: String(error) });
    });
  }
}

/** One request to a model. The client runs the loop, if there is one. */
function onRoad(said: Said, target: Target): (signal: AbortSignal) => AsyncIterable<AnswerEvent> {
  const { deps, format, principal, session, request } = said;
  countSession(deps, principal, session);
  const own = target.kind === "agent" && typeof target.agent.spec.instructions === "string" ? target.agent.spec.instructions.trim() : "";
  const body = own === "" ? said.body : format.instructed(said.body, own);
  if (target.kind === "agent" && body["messages"] === undefined && body["input"] === undefined) throw unfit("messages", "are needed");
  const context = (): ChatContext => {
    const asked = format.read(body);
    said.dropped.push(...asked.dropped);
    return asked.context;
  };
  const asked: RoadRequest = {
    principal,
    request,
    context,
    options: { thinking: target.kind === "agent" ? target.agent.spec.model.thinking : "off", ...format.options(body) },
    wire: { api: format.api, body, stream: said.stream, ...said.extra },
    ...(target.agent !== undefined && { agent: idOf(target.agent) }),
    ...(target.kind === "model" && { model: target.model }),
    ...(session !== undefined && { session }),
  };
  return (signal) => roadOf(deps)(asked, signal);
}

/** What is in trial at the provider is asked for by a header. */
function extraOf(exchange: Exchange, format: Format): Pick<WireRequest, "headers"> {
  if (format.api !== "anthropic-messages") return {};
  const beta = headerOf(exchange, "anthropic-beta");
  if (beta === undefined) return {};
  if (!/^[\w.,: -]+$/.test(beta)) throw unfit("anthropic-beta", "must be names with commas between them");
  return { headers: { "anthropic-beta": beta } };
}

const HEADER_MAX = 512;

function headerOf(exchange: Exchange, name: string): string | undefined {
  const value = exchange.request.headers[name];
  if (value === undefined || value === "") return undefined;
  if (typeof value !== "string" || value.length > HEADER_MAX) throw unfit(name, `must be one header of at most ${HEADER_MAX} characters`);
  return value;
}
