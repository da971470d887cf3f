// Gives an answer to a client of a compatible format: whole or as a stream; a provider's own bytes go through as they are.
import { randomUUID } from "node:crypto";
import type { ServerResponse } from "node:http";
import type { ChatEvent } from "../../core/chat.ts";
import { BeigeError } from "../../core/errors.ts";
import { keepAlive } from "../alive.ts";
import type { RouteDeps } from "../deps.ts";
import { leaving, type Exchange } from "../exchange.ts";
import { flushed } from "../stream.ts";
import { isInternal } from "../status.ts";
import { createBlocks } from "./blocks.ts";
import { faultOf, RoadFault } from "./faults.ts";
import type { Format, Head } from "./format.ts";
import type { AnswerEvent } from "./turn.ts";

export interface Answer {
  readonly format: Format;
  readonly stream: boolean;
  /** As the client named it. */
  readonly model: string;
  /** A last chunk with the usage was asked for. */
  readonly usage: boolean;
  /** Of this request, from the edge to the audit row. */
  readonly request: string;
  /** Fields that were left out; complete when the first event is there. */
  readonly dropped: () => readonly string[];
  events(signal: AbortSignal): AsyncIterable<AnswerEvent>;
}

/** Throws what comes before the first byte of the answer. */
export async function answer(deps: RouteDeps, exchange: Exchange, wanted: Answer): Promise<void> {
  const leave = leaving(exchange.reply, deps.stopped);
  try {
    await (wanted.stream ? streamed : whole)({ deps, exchange, wanted, events: wanted.events(leave.signal) });
  } finally {
    leave.done();
  }
}

interface Giving {
  readonly deps: RouteDeps;
  readonly exchange: Exchange;
  readonly wanted: Answer;
  readonly events: AsyncIterable<AnswerEvent>;
}

type Start = Extract<ChatEvent, { type: "start" }>;

const unended = (): BeigeError => new BeigeError("internal", "the answer ended without its end");
const faultIn = (event: Extract<ChatEvent, { type: "error" }>): RoadFault =>
  new RoadFault(event.failure ?? { message: event.message.errorMessage ?? "no answer" });

async function whole({ deps, exchange, wanted, events }: Giving): Promise<void> {
  let start: Start | undefined;
  let bytes: Uint8Array | undefined;
  for await (const event of events) {
    if (event.type === "start") start = event;
    else if (event.type === "wire") bytes = bytes === undefined ? event.bytes : Buffer.concat([bytes, event.bytes]);
    else if (event.type === "error") throw faultIn(event);
    else if (event.type === "done") {
      const body = bytes ?? Buffer.from(JSON.stringify(wanted.format.whole(event.message, headOf(deps, wanted))));
      exchange.reply.hijack();
      const response = exchange.reply.raw;
      response.setTimeout(deps.limits.stallMs);
      response.writeHead(200, { ...headers(deps, wanted, start), "content-type": "application/json", "content-length": body.length });
      response.end(body);
      return;
    }
  }
  throw unended();
}

async function streamed(giving: Giving): Promise<void> {
  const { deps, exchange, wanted, events } = giving;
  const { raw } = exchange.request;
  if (raw.httpVersionMajor === 1 && raw.httpVersionMinor === 0)
    throw new BeigeError("invalid", "streams need HTTP/1.1: over HTTP/1.0 a cut stream looks like a finished one");
  const sse = opener(giving);
  let last: Uint8Array | undefined;
  const alive = keepAlive(deps, () => {
    if (!betweenEvents(last) || exchange.reply.raw.destroyed || exchange.reply.raw.writableNeedDrain) return;
    (sse.response ?? sse.open()).write(": waiting\n\n");
  });
  try {
    for await (const event of events) {
      if (event.type === "wire") {
        // The hot path: no parsing, no copy, no wait unless the client is slower.
        const response = sse.response ?? sse.open();
        last = event.bytes;
        alive.said();
        if (!response.write(event.bytes) && !(await flushed(deps, response))) return;
        continue;
      }
      if (event.type === "error") throw faultIn(event);
      const text = sse.text(event);
      if (text !== "") alive.said();
      if (text !== "" && !(sse.response ?? sse.open()).write(text) && !(await flushed(deps, exchange.reply.raw))) return;
      if (event.type !== "done") continue;
      (sse.response ?? sse.open()).end();
      return;
    }
    throw unended();
  } catch (error) {
    if (sse.response === undefined) throw error;
    if (isInternal(error)) deps.log.error("answer failed", { request: wanted.request, error: String(error) });
    cut(sse.response, wanted.format.faultEvent(faultOf(error)));
  } finally {
    alive.stop();
  }
}

/** Whether a provider's own bytes end with a whole event: nothing may be put into the middle of one. */
const betweenEvents = (bytes: Uint8Array | undefined): boolean =>
  bytes === undefined || (bytes.at(-1) === 10 && (bytes.at(-2) === 10 || (bytes.at(-2) === 13 && bytes.at(-3) === 10)));

/** The error is told, and the connection is closed without the end of a body: nobody takes the answer for a whole one. */
function cut(response: ServerResponse, text: string): void {
  if (response.destroyed) return;
  // The blank line ends whatever line of the provider's was cut.
  response.write(`\n\n${text}`);
  const { socket } = response;
  if (socket === null) response.destroy();
  else socket.destroySoon();
}

/** Writes our own events in the client's format; a stream of the provider's own has none of them. */
function opener({ deps, exchange, wanted }: Giving) {
  const blocks = createBlocks();
  let writer: ReturnType<Format["writer"]> | undefined;
  let start: Start | undefined;
  const begun = (): string => {
    if (writer !== undefined) return "";
    writer = wanted.format.writer(headOf(deps, wanted));
    return writer.begin();
  };
  const sse = {
    response: undefined as ServerResponse | undefined,
    open(): ServerResponse {
      exchange.reply.hijack();
      const { raw } = exchange.reply;
      raw.writeHead(200, { ...headers(deps, wanted, start), "content-type": "text/event-stream; charset=utf-8" });
      raw.socket?.setNoDelay(true);
      sse.response = raw;
      return raw;
    },
    text(event: Exclude<AnswerEvent, { type: "wire" }>): string {
      if (event.type === "start") {
        start = event;
        return "";
      }
      if (event.type === "working") return `${begun()}: working\n\n`;
      if (event.type === "done" && start?.wire === true) return "";
      const pieces = blocks.push(event);
      if (pieces.length === 0 && event.type !== "done") return "";
      const text = begun() + pieces.map((piece) => writer?.piece(piece) ?? "").join("");
      return event.type === "done" ? text + (writer?.end(event.message) ?? "") : text;
    },
  };
  return sse;
}

const headOf = (deps: RouteDeps, wanted: Answer): Head => ({
  id: randomUUID().replaceAll("-", ""),
  model: wanted.model,
  now: deps.clock.now(),
  usage: wanted.usage,
});

const printable = (text: string): string => text.replaceAll(/[^ -~]|["\\]/g, "?");

function headers(deps: RouteDeps, wanted: Answer, start: Start | undefined): Record<string, string | number> {
  const dropped = wanted.dropped();
  const answers: Record<string, string> =
    start?.provider === undefined ? {} : { "x-beige-model": printable(`${start.provider}/${start.model ?? ""}`) };
  return {
    "cache-control": "no-store",
    "x-content-type-options": "nosniff",
    ...(wanted.format.api === "anthropic-messages" && { "request-id": wanted.request }),
    ...answers,
    ...(dropped.length > 0 && { warning: `299 beige "left out: ${printable(dropped.join(", "))}"` }),
    ...(deps.closing.aborted && { connection: "close" }),
  };
}
