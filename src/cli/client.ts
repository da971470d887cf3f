// The client of the gateway: HTTP/1.1 over its unix socket or a port of loopback, one connection a request. node:http would cost more than the rest of the program.
import { createConnection, type Socket } from "node:net";
import { BeigeError, ERRORS, type ErrorCode, type Problem } from "../core/errors.ts";
import { createWire, type Head } from "../core/wire.ts";

const CONNECT_MS = 5_000;
const HEAD_MS = 60_000;
const TEXT_MAX_BYTES = 256 * 1024 * 1024;
const LINE_MAX_BYTES = 32 * 1024 * 1024;
/** What the gateway takes at most. */
const BODY_MAX_BYTES = 8 * 1024 * 1024;

export interface Ask {
  readonly method?: "GET" | "POST" | "PUT" | "PATCH" | "DELETE";
  readonly path: string;
  readonly body?: unknown;
  /** Of the body; JSON, and a merge patch for PATCH, when absent. */
  readonly type?: string;
  readonly accept?: string;
  /** Longest silence before the first byte and between any two, in milliseconds; 0 is no limit. */
  readonly idleMs?: number;
  readonly signal?: AbortSignal;
}

export interface Answer {
  readonly status: number;
  text(): Promise<string>;
  json<T>(): Promise<T>;
  /** NDJSON, one value a line. Throws when the stream is cut. */
  lines<T>(): AsyncGenerator<T>;
  /** Gives up the connection. */
  close(): void;
}

/** Where a gateway is: the path of its unix socket, or a port with a token. */
export type Place = string | { readonly host: string; readonly port: number; readonly token: string };

const nameOf = (place: Place): string => (typeof place === "string" ? place : `http://${hostHeader(place)}`);
const hostHeader = ({ host, port }: Exclude<Place, string>): string => `${host.includes(":") ? `[${host}]` : host}:${port}`;

export interface Client {
  /** For messages. */
  readonly socket: string;
  /** Any answer, also those that say no. Throws `unavailable` when there is no gateway. */
  ask(ask: Ask): Promise<Answer>;
  /** The parsed answer; throws what the gateway said when it said no. */
  get<T>(ask: Ask): Promise<T>;
  /** The lines of an answer; throws what the gateway said when it said no. */
  stream<T>(ask: Ask): AsyncGenerator<T>;
}

function connectError(error: NodeJS.ErrnoException, socket: string): BeigeError {
  if (error.code === "ENOENT" || error.code === "ECONNREFUSED" || error.code === "ENOTDIR") {
    return new BeigeError("unavailable", `no gateway answers at ${socket}`, { hint: "beige gateway start", cause: error });
  }
  if (error.code === "EACCES" || error.code === "EPERM") {
    return new BeigeError("unavailable", `cannot reach the gateway at ${socket}: permission denied`, {
      hint: "run beige as the user who started the gateway, or name another home with --home",
      cause: error,
    });
  }
  return new BeigeError("unavailable", `cannot reach the gateway at ${socket}: ${error.message}`, { cause: error });
}

function connect(place: Place, signal: AbortSignal | undefined): Promise<Socket> {
  const socket = nameOf(place);
  return new Promise((done, fail) => {
    if (typeof place === "string" && Buffer.byteLength(socket) > 107) {
      fail(
        new BeigeError("unavailable", `the socket path ${socket} is longer than 107 bytes`, {
          hint: "export BEIGE_HOME=/a/shorter/folder",
        }),
      );
      return;
    }
    const opened = createConnection(typeof place === "string" ? { path: place } : { host: place.host, port: place.port });
    const stop = (): void => void opened.destroy(new Error("interrupted"));
    signal?.addEventListener("abort", stop, { once: true });
    opened.setTimeout(CONNECT_MS, () => opened.destroy(new Error("no answer within 5 s")));
    opened.once("error", (error) => {
      signal?.removeEventListener("abort", stop);
      fail(connectError(error, socket));
    });
    opened.once("connect", () => {
      opened.removeAllListeners("error");
      opened.setTimeout(0);
      opened.removeAllListeners("timeout");
      signal?.removeEventListener("abort", stop);
      done(opened);
    });
  });
}

/** Whether somebody listens; throws as any request would. Costs a tenth of a request. */
export const reach = async (place: Place, signal?: AbortSignal): Promise<void> => void (await connect(place, signal)).destroy();

function requestText(ask: Ask, place: Place): Buffer {
  if (/[\r\n\0 ]/.test(ask.path)) throw new BeigeError("internal", "a request path holds a space or a line break");
  const body = ask.body === undefined ? undefined : Buffer.from(JSON.stringify(ask.body));
  if (body && body.length > BODY_MAX_BYTES) {
    throw new BeigeError("invalid", `the request is ${(body.length / 1048576).toFixed(1)} MiB; the gateway takes 8 MiB`, {
      hint: "apply fewer or smaller manifests at once",
    });
  }
  const type = ask.type ?? `application/${ask.method === "PATCH" ? "merge-patch+" : ""}json`;
  const head = [
    `${ask.method ?? (body ? "POST" : "GET")} ${ask.path} HTTP/1.1`,
    ...(typeof place === "string" ? ["host: localhost"] : [`host: ${hostHeader(place)}`, `authorization: Bearer ${place.token}`]),
    "connection: close",
    "user-agent: beige",
    `accept: ${ask.accept ?? "application/json"}`,
    ...(body ? [`content-type: ${type}`, `content-length: ${body.length}`] : []),
  ];
  return Buffer.concat([Buffer.from(`${head.join("\r\n")}\r\n\r\n`), body ?? Buffer.alloc(0)]);
}

/** The answer's bytes; the first item is its head. */
async function* receive(socket: Socket, ask: Ask, place: Place): AsyncGenerator<Head | Buffer> {
  const wire = createWire({ name: "the gateway", hint: "beige gateway restart" });
  const stop = (): void => void socket.destroy(new Error("interrupted"));
  ask.signal?.addEventListener("abort", stop, { once: true });
  const idleMs = ask.idleMs ?? HEAD_MS;
  let silent = false;
  socket.setTimeout(idleMs, () => {
    silent = true;
    socket.destroy(new Error("silent"));
  });
  try {
    if (ask.signal?.aborted === true) throw new Error("interrupted");
    socket.write(requestText(ask, place));
    let headed = false;
    for await (const bytes of socket) {
      const parts = wire.push(bytes as Buffer);
      const head = wire.head();
      if (head && !headed) {
        headed = true;
        yield head;
      }
      yield* parts;
      if (wire.done()) return;
    }
    throw new Error("cut");
  } catch (error) {
    if (error instanceof BeigeError) throw error;
    if (ask.signal?.aborted === true) throw new BeigeError("timeout", "interrupted", { cause: error });
    if (silent)
      throw new BeigeError("timeout", `the gateway sent nothing for ${Math.round(idleMs / 1000)} s`, { hint: "beige gateway status" });
    const hint = "beige gateway status; beige gateway logs says why";
    throw new BeigeError("unavailable", "the gateway went away in the middle of its answer", { hint, cause: error });
  } finally {
    ask.signal?.removeEventListener("abort", stop);
    socket.destroy();
  }
}

async function* splitLines(bytes: AsyncIterable<Buffer>): AsyncGenerator<string> {
  let parts: Buffer[] = [];
  let held = 0;
  for await (const part of bytes) {
    let start = 0;
    for (let end = part.indexOf(10, start); end >= 0; end = part.indexOf(10, start)) {
      parts.push(part.subarray(start, end));
      yield Buffer.concat(parts).toString();
      parts = [];
      held = 0;
      start = end + 1;
    }
    if (start < part.length) parts.push(part.subarray(start));
    held += part.length - start;
    if (held > LINE_MAX_BYTES) throw new BeigeError("unavailable", "the gateway sent a line longer than 32 MiB");
  }
  if (held > 0) yield Buffer.concat(parts).toString();
}

function parse(text: string): unknown {
  try {
    return JSON.parse(text) as unknown;
  } catch (error) {
    throw new BeigeError("unavailable", "the gateway answered something that is not JSON", { hint: "beige gateway restart", cause: error });
  }
}

interface Said {
  readonly kind?: string;
  readonly reason?: string;
  readonly message?: string;
  readonly error?: string | Said;
  readonly code?: unknown;
  readonly hint?: string;
  readonly retryAfterMs?: number;
  readonly problems?: readonly Problem[];
  readonly details?: { readonly hint?: string; readonly causes?: readonly { readonly message?: string; readonly field?: string }[] };
}

const codeOf = (status: number, said: Said): ErrorCode => {
  if (typeof said.code === "string" && said.code in ERRORS) return said.code as ErrorCode;
  const codes = Object.keys(ERRORS) as ErrorCode[];
  const byReason = codes.find((code) => ERRORS[code].reason === said.reason);
  if (byReason) return byReason;
  if (status === 400 || status === 413 || status === 415) return "invalid";
  return status === 401 ? "denied" : (codes.find((code) => ERRORS[code].http === status) ?? "internal");
};

/** What the gateway said no with: our own error object, or a Kubernetes Status. */
export function saidNo(status: number, text: string): BeigeError {
  let body: Said = {};
  try {
    const read = JSON.parse(text) as unknown;
    if (typeof read === "object" && read !== null) body = read;
  } catch {
    // Plain text is the message.
  }
  const said: Said = typeof body.error === "object" && body.error !== null ? body.error : body;
  const message = said.message ?? (typeof body.error === "string" ? body.error : text.slice(0, 500).trim());
  const causes = (said.details?.causes ?? []).map((cause) => ({
    message: cause.message ?? "",
    ...(cause.field !== undefined && { path: cause.field }),
  }));
  const hint = said.hint ?? said.details?.hint;
  return new BeigeError(codeOf(status, said), message || `the gateway answered ${status}`, {
    ...(hint !== undefined && { hint }),
    ...(said.retryAfterMs !== undefined && { retryAfterMs: said.retryAfterMs }),
    problems: said.problems ?? causes,
  });
}

async function* bodyOf(rest: AsyncGenerator<Head | Buffer>): AsyncGenerator<Buffer> {
  for await (const part of rest) if (part instanceof Buffer) yield part;
}

async function readAll(rest: AsyncGenerator<Head | Buffer>): Promise<string> {
  const parts: Buffer[] = [];
  let size = 0;
  for await (const part of bodyOf(rest)) {
    size += part.length;
    if (size > TEXT_MAX_BYTES) throw new BeigeError("unavailable", "the gateway's answer is longer than 256 MiB");
    parts.push(part);
  }
  return Buffer.concat(parts).toString();
}

/** Texts of RFC 7234 warnings, at most 20. */
const warningsIn = (header: string | undefined): readonly string[] =>
  [...(header ?? "").matchAll(/\b299 \S+ "((?:[^"\\]|\\.)*)"/g)].slice(0, 20).map(([, text = ""]) => text.replaceAll(/\\(.)/g, "$1"));

/** `warn` is told what the gateway says beside its answers. */
export function createClient(place: Place, signal?: AbortSignal, warn?: (text: string) => void): Client {
  async function ask(wanted: Ask): Promise<Answer> {
    const given = wanted.signal ?? signal;
    const opened = await connect(place, given);
    const rest = receive(opened, given ? { ...wanted, signal: given } : wanted, place);
    const head = await rest.next();
    if (head.done === true || !("status" in head.value)) throw new BeigeError("unavailable", "the gateway's answer has no head");
    const { status, headers } = head.value;
    if (warn !== undefined && wanted.method !== undefined) warningsIn(headers.get("warning")).forEach(warn);
    const text = (): Promise<string> => readAll(rest);
    return {
      status,
      text,
      json: async <T>() => parse(await text()) as T,
      async *lines<T>() {
        for await (const line of splitLines(bodyOf(rest))) if (line.trim() !== "") yield parse(line) as T;
      },
      close: () => void opened.destroy(),
    };
  }
  const good = async (wanted: Ask): Promise<Answer> => {
    const answer = await ask(wanted);
    if (answer.status >= 400) throw saidNo(answer.status, await answer.text());
    return answer;
  };
  return {
    socket: nameOf(place),
    ask,
    get: async <T>(wanted: Ask) => (await good(wanted)).json<T>(),
    async *stream<T>(wanted: Ask) {
      const answer = await good(wanted);
      try {
        yield* answer.lines<T>();
      } finally {
        answer.close();
      }
    },
  };
}
