// Sends events as one JSON object or text a line, no faster than the client reads; the chunked terminator says that the end was meant.
import type { ServerResponse } from "node:http";
import type { BeigeError } from "../core/errors.ts";
import type { Clock } from "../core/world.ts";
import { keepAlive } from "./alive.ts";
import type { RouteDeps } from "./deps.ts";
import { leaving, type Exchange } from "./exchange.ts";
import { jsonPieces } from "./pieces.ts";
import { isInternal, Refusal, shownError } from "./status.ts";

export interface Stream<T> {
  readonly events: (signal: AbortSignal) => AsyncIterable<T>;
  /** The object, or the text, of a line, or the bytes of whole lines; undefined leaves the event out. */
  readonly line: (event: T) => unknown;
  /** The last line when `events` throws after the head was sent. */
  readonly broken: (error: BeigeError) => unknown;
  readonly type: "application/json" | "application/x-ndjson" | "text/plain";
  /** Sends the head before the first event: for streams that may stay silent. */
  readonly eager: boolean;
  /** White space that is sent now and then while nothing happens, and the head before it: for streams that somebody waits at. */
  readonly alive?: "\n" | " ";
  readonly stop: AbortSignal;
}

/** Throws what `events` throws before its first event, so that it becomes an ordinary error answer. */
export async function send<T>(deps: RouteDeps, exchange: Exchange, stream: Stream<T>): Promise<void> {
  const { request, reply } = exchange;
  if (request.raw.httpVersionMajor === 1 && request.raw.httpVersionMinor === 0)
    throw new Refusal(505, "HTTPVersionNotSupported", "streams need HTTP/1.1: over HTTP/1.0 a cut stream looks like a finished one");
  const leave = leaving(reply, stream.stop);
  const response = reply.raw;
  const open = (): void => {
    if (reply.sent) return;
    reply.hijack();
    response.writeHead(200, { "content-type": stream.type, "cache-control": "no-store", "x-content-type-options": "nosniff" });
    response.flushHeaders();
  };
  const late = Promise.withResolvers<void>();
  const line = { begun: false };
  const beat = (): void => {
    if (line.begun || response.destroyed || response.writableNeedDrain) return;
    open();
    response.write(stream.alive ?? "");
    late.resolve();
  };
  const alive = stream.alive === undefined ? undefined : keepAlive(deps, beat);
  try {
    const iterator = stream.events(leave.signal)[Symbol.asyncIterator]();
    const first = iterator.next();
    if (stream.eager) await Promise.race([first, nextTurn()]);
    else await Promise.race([first, late.promise]);
    open();
    await pump(deps, response, stream, { first, iterator, line, said: alive?.said });
  } finally {
    alive?.stop();
    leave.done();
  }
}

const nextTurn = (): Promise<void> => new Promise((resolve) => void setImmediate(resolve));

async function pump<T>(
  deps: RouteDeps,
  response: ServerResponse,
  stream: Stream<T>,
  source: {
    readonly first: Promise<IteratorResult<T>>;
    readonly iterator: AsyncIterator<T>;
    readonly line: { begun: boolean };
    readonly said: (() => void) | undefined;
  },
): Promise<void> {
  try {
    for (let step = await source.first; step.done !== true; step = await source.iterator.next()) {
      const object = stream.line(step.value);
      source.line.begun = object !== undefined;
      if (object !== undefined && !(await write(deps, response, object))) {
        // Not awaited: a generator that sits in an await of its own returns only when that ends.
        void source.iterator.return?.()?.catch(() => undefined);
        return;
      }
      if (object !== undefined) source.said?.();
      source.line.begun = false;
    }
  } catch (error) {
    if (response.destroyed) return;
    if (isInternal(error)) deps.log.error("stream failed", { error: String(error) });
    if (!(await write(deps, response, stream.broken(shownError(error))))) return;
  }
  if (response.destroyed) return;
  response.setTimeout(deps.limits.stallMs);
  response.end();
}

/** What is handed to the socket at once of an object that is large, in characters, and then others get a turn. */
const STRETCH_CHARS = 128 * 1024;

/** False when the client is gone or was cut. */
async function write(deps: RouteDeps, response: ServerResponse, object: unknown): Promise<boolean> {
  if (Buffer.isBuffer(object)) return put(deps, response, object);
  if (typeof object === "string") return put(deps, response, `${object}\n`);
  let text = "";
  for (const piece of jsonPieces(object)) {
    text += piece;
    if (text.length < STRETCH_CHARS) continue;
    if (!(await put(deps, response, text))) return false;
    text = "";
    await nextTurn();
  }
  return put(deps, response, `${text}\n`);
}

async function put(deps: RouteDeps, response: ServerResponse, lines: string | Buffer): Promise<boolean> {
  if (response.destroyed) return false;
  return response.write(lines) || flushed(deps, response);
}

/** Waits until a full buffer is empty again. False when the client is gone or was cut. */
export async function flushed(deps: RouteDeps, response: ServerResponse): Promise<boolean> {
  const outcome = await drained(response, deps.limits.stallMs, deps.clock);
  if (outcome === "stalled") {
    deps.log.warn("slow reader cut", { afterMs: deps.limits.stallMs });
    response.destroy();
  }
  return outcome === "drained";
}

function drained(response: ServerResponse, stallMs: number, clock: Clock): Promise<"drained" | "gone" | "stalled"> {
  if (response.destroyed) return Promise.resolve("gone");
  return new Promise((resolve) => {
    const settle = (outcome: "drained" | "gone" | "stalled") => (): void => {
      timer.cancel();
      response.off("drain", onDrain);
      response.off("close", onClose);
      resolve(outcome);
    };
    const onDrain = settle("drained");
    const onClose = settle("gone");
    const timer = clock.after(stallMs, settle("stalled"));
    response.once("drain", onDrain);
    response.once("close", onClose);
  });
}
