// Passes one HTTP request on to a checked host and its answer back: framed anew, so that both ends agree where it ends.
import { request as httpRequest, STATUS_CODES, type Agent as HttpAgent, type IncomingMessage, type ServerResponse } from "node:http";
import type { Socket } from "node:net";
import { pipeline, type Readable } from "node:stream";
import type { Injection } from "../../core/egress.ts";
import { maskStream, maskText } from "./mask.ts";

/** Of one connection, not of the message. */
const HOP: readonly string[] = [
  "connection",
  "expect",
  "host",
  "http2-settings",
  "keep-alive",
  "te",
  "trailer",
  "transfer-encoding",
  "upgrade",
];

/** Names and values in turn, without what was between the sandbox and us. */
function passed(raw: readonly string[], connection: string | undefined, drop: readonly string[]): string[] {
  const named = (connection ?? "")
    .toLowerCase()
    .split(",")
    .map((word) => word.trim());
  const out: string[] = [];
  for (let i = 0; i + 1 < raw.length; i += 2) {
    const [name, value] = [raw[i] ?? "", raw[i + 1] ?? ""];
    const lower = name.toLowerCase();
    if (HOP.includes(lower) || lower.startsWith("proxy-") || named.includes(lower) || drop.includes(lower)) continue;
    out.push(name, value);
  }
  return out;
}

export interface Onward {
  /** As it goes on: an origin's path. */
  readonly path: string;
  /** What the Host header says. */
  readonly host: string;
  /** Where the request goes: a connection of its own, or one of the agent's. */
  readonly by: { readonly socket: Socket } | { readonly agent: HttpAgent };
  readonly injection?: { readonly rule: Injection; readonly value: string };
}

/** The request's headers; a secret takes the place of whatever the sandbox wrote there. */
function headersOf(request: IncomingMessage, { host, injection }: Onward): string[] {
  // A compressed answer could hide what it repeats.
  const drop = ["content-length", ...(injection === undefined ? [] : [injection.rule.header, "accept-encoding"])];
  const { headers } = request;
  const length = headers["content-length"];
  const framed =
    headers["transfer-encoding"] !== undefined ? ["Transfer-Encoding", "chunked"] : length === undefined ? [] : ["Content-Length", length];
  const added =
    injection === undefined ? [] : ["Accept-Encoding", "identity", injection.rule.header, `${injection.rule.prefix}${injection.value}`];
  return ["Host", host, ...passed(request.rawHeaders, headers.connection, drop), ...framed, ...added];
}

/** A short text instead of an answer. */
export function say(response: ServerResponse, status: number, text: string): void {
  if (response.headersSent) {
    response.destroy();
    return;
  }
  response.writeHead(status, {
    "content-type": "text/plain; charset=utf-8",
    "content-length": Buffer.byteLength(text),
    "x-beige-egress": "1",
  });
  response.end(text);
}

/** Resolves when the answer is through; with what went wrong otherwise. */
export function forward(request: IncomingMessage, response: ServerResponse, onward: Onward): Promise<string | undefined> {
  return new Promise((done) => {
    const { by, path, injection } = onward;
    const route = "agent" in by ? { agent: by.agent } : { createConnection: () => by.socket };
    const failed = (error: Error): void => {
      say(response, 502, `beige: ${onward.host}: ${error.message}\n`);
      done(error.message);
    };
    let sent: ReturnType<typeof httpRequest>;
    try {
      const headers = headersOf(request, onward);
      sent = httpRequest({ ...route, method: request.method ?? "GET", path, headers, setHost: false, maxHeaderSize: 64 * 1024 });
    } catch (error) {
      // Node's words about a header name it and never show its value.
      if ("socket" in by) by.socket.destroy();
      return failed(error instanceof Error ? error : new Error(String(error)));
    }
    response.once("close", () => {
      if (!response.writableFinished) sent.destroy();
    });
    sent.once("error", failed);
    sent.once("response", (answer) => {
      const hide = injection === undefined ? (text: string) => text : (text: string) => maskText(text, injection.value);
      const status = answer.statusCode ?? 502;
      const headers = passed(answer.rawHeaders, answer.headers.connection, []).map((word, i) => (i % 2 === 1 ? hide(word) : word));
      response.sendDate = false;
      try {
        response.writeHead(status, hide(answer.statusMessage ?? STATUS_CODES[status] ?? ""), headers);
      } catch (error) {
        answer.destroy();
        return failed(error instanceof Error ? error : new Error(String(error)));
      }
      const parts: [Readable, ...NodeJS.ReadWriteStream[]] = injection === undefined ? [answer] : [answer, maskStream(injection.value)];
      pipeline([...parts, response], (error) => done(error?.message));
    });
    request.pipe(sent);
  });
}
