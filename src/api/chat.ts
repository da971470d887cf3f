// POST /api/chat/stream: one LLM request on the one road, for a client that runs the loop itself, as a stream of deltas.
import type { FastifyInstance } from "fastify";
import type { ChatEvent, ChatOptions } from "../core/chat.ts";
import { BeigeError } from "../core/errors.ts";
import { NO_USAGE } from "../core/usage.ts";
import type { ModelName, RoadEvent, RoadRequest } from "../core/road.ts";
import { agentNamed } from "./agents.ts";
import { roadOf } from "./compat/road.ts";
import { sessionKey } from "./compat/target.ts";
import { contextOf } from "./context.ts";
import type { RouteDeps } from "./deps.ts";
import { bodyOf, route, type Exchange } from "./exchange.ts";
import { only, optionalText, record, text, type Unknowns } from "./fields.ts";
import { countSession } from "./keys.ts";
import { principalOf, requestOf } from "./principal.ts";
import { badRequest } from "./status.ts";
import { send } from "./stream.ts";

/** The first names are those that other clients of this endpoint use. */
const FIELDS = ["provider", "modelId", "agentName", "model", "agent", "context", "options", "session"];

export function chatRoutes(app: FastifyInstance, deps: RouteDeps): void {
  route(app, "POST /api/chat/stream", (exchange) => {
    const asked = askedBy(deps, exchange);
    const road = roadOf(deps);
    return send<Line>(deps, exchange, {
      events: (signal) => lines(road(asked, signal)),
      line: (event) => event,
      broken: (error) => errorLine(deps, error),
      type: "application/x-ndjson",
      eager: false,
      alive: "\n",
      stop: deps.stopped,
    });
  });
}

type Line =
  | ChatEvent
  | { readonly type: "model_fallback"; readonly provider: string; readonly model: string }
  | { readonly type: "blocked"; readonly reason: string };

/** An answer by another model than the first is said at once; a refusal by the gateway before its terminal event. */
async function* lines(events: AsyncIterable<RoadEvent>): AsyncGenerator<Line> {
  for await (const event of events) {
    if (event.type === "wire") continue;
    if (event.type === "error" && event.failure?.code === "denied") yield { type: "blocked", reason: event.failure.message };
    yield event;
    if (event.type === "start" && event.fallback === true && event.provider !== undefined && event.model !== undefined)
      yield { type: "model_fallback", provider: event.provider, model: event.model };
  }
}

function askedBy(deps: RouteDeps, exchange: Exchange): RoadRequest {
  const principal = principalOf(exchange);
  const body = only(bodyOf(exchange.request), FIELDS);
  const name = optionalText(body, "agentName", 256) ?? optionalText(body, "agent", 256);
  const model = modelOf(body);
  if (name === undefined && principal.kind !== "operator")
    throw new BeigeError("denied", "only the operator asks models without an agent", { hint: "give agentName" });
  if (name === undefined && model === undefined) throw badRequest("agentName is needed, or provider and modelId");
  const named = optionalText(body, "session", 256);
  const session = named === undefined || principal.kind === "operator" ? named : sessionKey(principal, named);
  countSession(deps, principal, session);
  const agent = name === undefined ? undefined : agentNamed(deps, principal, name);
  const own = agent === undefined ? undefined : deps.directory.agent(agent.namespace, agent.name)?.spec.model.thinking;
  return {
    principal,
    request: requestOf(exchange),
    context: contextOf(body["context"]),
    options: { thinking: own ?? "off", ...optionsOf(body["options"]) },
    ...(agent !== undefined && { agent }),
    ...(model !== undefined && { model }),
    ...(session !== undefined && { session }),
  };
}

function modelOf(body: Unknowns): ModelName | undefined {
  if (body["model"] !== undefined) {
    const from = only(body["model"], ["provider", "id"], "model");
    return { provider: text(from, "provider", 256), id: text(from, "id", 256) };
  }
  const provider = optionalText(body, "provider", 256);
  const id = optionalText(body, "modelId", 256);
  if (provider === undefined && id === undefined) return undefined;
  return { provider: text(body, "provider", 256), id: text(body, "modelId", 256) };
}

const LEVELS: readonly string[] = ["off", "minimal", "low", "medium", "high"];

function optionsOf(raw: unknown): Partial<ChatOptions> {
  if (raw === undefined || raw === null) return {};
  const from = record(raw, "options");
  const thinking = optionalText(from, "thinking", 20) ?? optionalText(from, "reasoning", 20);
  if (thinking !== undefined && !LEVELS.includes(thinking)) throw badRequest(`options.thinking must be one of ${LEVELS.join(", ")}`);
  const { maxTokens, temperature } = from;
  if (maxTokens !== undefined && !(Number.isInteger(maxTokens) && (maxTokens as number) > 0))
    throw badRequest("options.maxTokens must be a whole number from 1 on");
  if (temperature !== undefined && !(typeof temperature === "number" && temperature >= 0))
    throw badRequest("options.temperature must be a number from 0 on");
  return {
    ...(thinking !== undefined && { thinking: thinking as ChatOptions["thinking"] }),
    ...(maxTokens !== undefined && { maxTokens: maxTokens as number }),
    ...(temperature !== undefined && { temperature }),
  };
}

function errorLine(deps: RouteDeps, error: BeigeError): Line {
  const { code, message, hint, retryAfterMs } = error;
  return {
    type: "error",
    message: {
      role: "assistant",
      content: [],
      api: "beige",
      provider: "beige",
      model: "none",
      usage: NO_USAGE,
      stopReason: "error",
      errorMessage: message,
      timestamp: deps.clock.now(),
    },
    failure: { code, message, ...(hint !== undefined && { hint }), ...(retryAfterMs !== undefined && { retryAfterMs }) },
  };
}
