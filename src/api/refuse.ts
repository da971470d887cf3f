// Answers that are given before any route: to requests that the gate turns away, and to bytes that are no request.
import { STATUS_CODES, type IncomingMessage, type ServerResponse } from "node:http";
import type { Duplex } from "node:stream";
import type { Clock } from "../core/world.ts";
import { faultAnswer } from "./compat/faults.ts";
import { failure, Refusal, retryAfterSeconds } from "./status.ts";

const SWALLOW_MS = 1_000;

/**
 * Reads and drops the rest of a request's body, for a while: whoever is still writing when the connection closes
 * gets a broken pipe, and never reads why.
 */
export function swallow(request: IncomingMessage, clock: Clock): Promise<void> {
  request.resume();
  if (request.complete || request.destroyed) return Promise.resolve();
  return new Promise((resolve) => {
    const done = (): void => {
      timer.cancel();
      request.off("end", done);
      request.off("close", done);
      resolve();
    };
    const timer = clock.after(SWALLOW_MS, done);
    request.once("end", done);
    request.once("close", done);
  });
}

export async function turnAway(
  request: IncomingMessage,
  response: ServerResponse,
  options: { readonly error: Refusal; readonly clock: Clock },
): Promise<void> {
  const status = failure(options.error);
  // Clients of other APIs are told in their own words.
  const body = JSON.stringify(faultAnswer(request.url ?? "", options.error)?.body ?? status);
  await swallow(request, options.clock);
  if (response.destroyed) return;
  response.writeHead(status.code, {
    "content-type": "application/json",
    "content-length": Buffer.byteLength(body),
    "cache-control": "no-store",
    "x-content-type-options": "nosniff",
    ...(status.error?.retryAfterMs !== undefined && { "retry-after": String(retryAfterSeconds(status.error.retryAfterMs)) }),
    ...(status.code === 401 && { "www-authenticate": "Bearer" }),
    ...(status.code === 503 && { connection: "close" }),
  });
  response.end(body);
}

/** The same for a request that wants to leave HTTP: there is only its socket. */
export function turnAwayUpgrade(socket: Duplex, error: unknown): void {
  const status = failure(error);
  say(socket, { http: status.code, phrase: STATUS_CODES[status.code] ?? "Error", body: JSON.stringify(status) });
}

function say(socket: Duplex, answer: { readonly http: number; readonly phrase: string; readonly body: string }): void {
  const head = [
    `HTTP/1.1 ${answer.http} ${answer.phrase}`,
    "Connection: close",
    "Content-Type: application/json",
    `Content-Length: ${Buffer.byteLength(answer.body)}`,
  ];
  socket.end(`${head.join("\r\n")}\r\n\r\n${answer.body}`, () => socket.destroy());
}

/** Bytes that are not HTTP, or come too slowly. */
export function onClientError(error: Error & { readonly code?: string }, socket: Duplex): void {
  if (!socket.writable || error.code === "ECONNRESET") {
    socket.destroy();
    return;
  }
  const { http, phrase, message } = clientFault(error.code);
  say(socket, { http, phrase, body: JSON.stringify(failure(new Refusal(http, phrase.replaceAll(" ", ""), message))) });
}

function clientFault(code: string | undefined): { readonly http: number; readonly phrase: string; readonly message: string } {
  if (code === "HPE_HEADER_OVERFLOW")
    return { http: 431, phrase: "Request Header Fields Too Large", message: "the request's headers are too large" };
  if (code === "ERR_HTTP_REQUEST_TIMEOUT") return { http: 408, phrase: "Request Timeout", message: "the request came too slowly" };
  return { http: 400, phrase: "Bad Request", message: "this is not an HTTP request" };
}
