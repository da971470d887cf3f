// POST /api/agents/NAME/prompt: one message to an agent, answered as a stream of events, or whole for older clients.
import type { FastifyInstance } from "fastify";
import type { Principal } from "../core/call.ts";
import type { ImagePart } from "../core/chat.ts";
import { BeigeError } from "../core/errors.ts";
import { IMAGES_MAX } from "../core/images.ts";
import type { TurnEvent, TurnRequest } from "../core/turn.ts";
import { agentNamed } from "./agents.ts";
import type { RouteDeps } from "./deps.ts";
import { bodyOf, byOf, leaving, paramsOf, route, type Exchange } from "./exchange.ts";
import { flag, only, optionalText, text } from "./fields.ts";
import { countSession, sessionOf } from "./keys.ts";
import { requestOf } from "./principal.ts";
import { badRequest } from "./status.ts";
import { send } from "./stream.ts";

const LONG = 8 * 1024 * 1024;

export function promptRoutes(app: FastifyInstance, deps: RouteDeps): void {
  route(app, "POST /api/agents/:name/prompt", (exchange) => {
    const { request } = exchange;
    const whole = Object.hasOwn(bodyOf(request), "message");
    const { principal } = byOf(request.raw);
    const agent = agentNamed(deps, principal, paramsOf(request).name);
    const said = counted(deps, principal, whole ? seedRequest(request.body) : streamRequest(request.body));
    const turn = { ...said, principal, agent, request: requestOf(exchange) };
    return whole ? collect(deps, exchange, turn) : stream(deps, exchange, turn);
  });
}

/** A caller's sessions are its own, and count. */
function counted(deps: RouteDeps, principal: Principal, said: Said): Said {
  if (principal.kind !== "caller") return said;
  const session = sessionOf(principal, said.session ?? "default");
  // A fresh one has no name yet: each is one more.
  countSession(deps, principal, said.fresh === true ? `${session} ${deps.clock.monotonic()}` : session);
  return { ...said, session };
}

type Said = Pick<TurnRequest, "text" | "images" | "session" | "fresh" | "commands">;

function streamRequest(raw: unknown): Said {
  const body = only(raw, ["text", "images", "session", "fresh", "commands"]);
  const session = optionalText(body, "session", 256);
  const [fresh, commands] = [flag(body, "fresh", false), flag(body, "commands", true)];
  const images = imagesOf(body["images"]);
  return {
    text: text(body, "text", LONG),
    fresh,
    commands,
    ...(session !== undefined && { session }),
    ...(images.length > 0 && { images }),
  };
}

function imagesOf(raw: unknown): readonly ImagePart[] {
  if (raw === undefined || raw === null) return [];
  if (!Array.isArray(raw) || raw.length > IMAGES_MAX) throw badRequest(`images must be a list of at most ${IMAGES_MAX}`);
  return (raw as readonly unknown[]).map((each, at) => {
    const from = only(each, ["type", "mimeType", "data"], `images[${at}]`);
    return { type: "image", mimeType: text(from, "mimeType", 64), data: text(from, "data", LONG) };
  });
}

function seedRequest(raw: unknown): Said {
  const body = only(raw, ["message", "sessionKey"]);
  const session = optionalText(body, "sessionKey", 256);
  return { text: text(body, "message", LONG), ...(session !== undefined && { session }) };
}

const stream = (deps: RouteDeps, exchange: Exchange, turn: TurnRequest): Promise<void> =>
  send<TurnEvent>(deps, exchange, {
    events: (signal) => deps.turn(turn, signal),
    line: (event) => event,
    broken: (error): TurnEvent => ({
      type: "error",
      code: error.code,
      message: error.message,
      ...(error.hint !== undefined && { hint: error.hint }),
    }),
    type: "application/x-ndjson",
    eager: false,
    alive: "\n",
    stop: deps.stopped,
  });

async function collect(deps: RouteDeps, { reply }: Exchange, turn: TurnRequest): Promise<object> {
  const leave = leaving(reply, deps.stopped);
  try {
    for await (const event of deps.turn(turn, leave.signal)) {
      if (event.type === "done") return { response: event.text };
      if (event.type === "error")
        throw new BeigeError(event.code, event.message, {
          ...(event.hint !== undefined && { hint: event.hint }),
          ...(event.retryAfterMs !== undefined && { retryAfterMs: event.retryAfterMs }),
        });
    }
    throw new BeigeError("internal", "the turn ended without an answer");
  } finally {
    leave.done();
  }
}
