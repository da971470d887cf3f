// Asks the engine for what it shows, over connections that are kept for a moment: a client for everything costs more than the answer itself.
import { createConnection, type Socket } from "node:net";
import { createWire, type Wire } from "../../src/core/wire.ts";

/** Connections at once; more questions wait for one. */
const LINES_MAX = 8;
/** A connection that nobody needed for so long is closed. */
const IDLE_MS = 5000;
const BODY_MAX_BYTES = 64 * 1024 * 1024;
/** Each takes memory of its own, however short. */
const PARTS_MAX = 100_000;
const SENDER = { name: "the docker engine", hint: "see what is behind its socket: docker info" };

export interface Look {
  /** The body of an answer of 200; throws an error with `statusCode` for any other answer, and one without where there is none. */
  get(path: string, signal: AbortSignal): Promise<Buffer>;
  close(): void;
}

interface Question {
  readonly path: string;
  readonly done: (body: Buffer) => void;
  readonly fail: (error: Error) => void;
}

interface Line {
  readonly socket: Socket;
  question?: Question | undefined;
  wire: Wire;
  parts: Buffer[];
  bytes: number;
  /** Whole answers so far. */
  answers: number;
}

/** The engine says why in a `message`; what answers without one is something between, which does not know what there is. */
function refusal(statusCode: number, body: Buffer): Error {
  const text = body.toString();
  let json: unknown;
  try {
    json = JSON.parse(text);
  } catch {
    // Then the text itself is what it says.
  }
  if (typeof (json as { message?: unknown } | null | undefined)?.message !== "string")
    return new Error(`an answer ${statusCode} that is not docker's: ${text.slice(0, 400)}`);
  return Object.assign(new Error(text.slice(0, 400)), { statusCode, json });
}

/** Bytes of an answer; true when it is whole. */
function take(line: Line, bytes: Buffer): boolean {
  for (const part of line.wire.push(bytes)) {
    line.parts.push(part);
    line.bytes += part.length;
  }
  if (line.bytes > BODY_MAX_BYTES || line.parts.length > PARTS_MAX) throw new Error("the answer is too long");
  return line.wire.done();
}

/** What the whole answer means to who asked. */
function settle({ wire, parts }: Line, { done, fail }: Question): void {
  const body = parts.length === 1 && parts[0] !== undefined ? parts[0] : Buffer.concat(parts);
  const status = wire.head()?.status ?? 0;
  if (status === 200) done(body);
  else fail(refusal(status, body));
}

export function createLook(socketPath: string): Look {
  const lines = new Set<Line>();
  const waiting: Question[] = [];

  function leave(line: Line, error: Error): void {
    if (!lines.delete(line)) return;
    line.socket.destroy();
    const { question } = line;
    // A kept connection may have ended while nobody looked: the question never arrived, and a new connection takes it.
    if (question !== undefined && line.answers > 0 && line.bytes === 0 && line.wire.head() === undefined) waiting.unshift(question);
    else question?.fail(error);
    pump();
  }

  function send(line: Line, question: Question): void {
    Object.assign(line, { question, wire: createWire(SENDER), parts: [], bytes: 0 });
    line.socket.ref();
    line.socket.write(`GET ${question.path} HTTP/1.1\r\nhost: docker\r\n\r\n`);
  }

  function receive(line: Line, bytes: Buffer): void {
    const { question, wire } = line;
    try {
      if (question === undefined) throw new Error("the engine speaks unasked");
      if (!take(line, bytes)) return;
    } catch (error) {
      leave(line, error instanceof Error ? error : new Error(String(error)));
      return;
    }
    line.question = undefined;
    line.answers += 1;
    settle(line, question);
    if (wire.surplus() > 0 || /close/i.test(wire.head()?.headers.get("connection") ?? "")) leave(line, new Error("closed"));
    else line.socket.unref();
    pump();
  }

  function open(): Line {
    const socket = createConnection({ path: socketPath });
    const line: Line = { socket, wire: createWire(SENDER), parts: [], bytes: 0, answers: 0 };
    lines.add(line);
    socket.on("data", (bytes: Buffer) => receive(line, bytes));
    socket.on("error", (error) => leave(line, error));
    socket.on("close", () => leave(line, new Error("socket hang up")));
    socket.setTimeout(IDLE_MS, () => {
      if (line.question === undefined) leave(line, new Error("idle"));
    });
    return line;
  }

  function pump(): void {
    while (waiting.length > 0) {
      const line = lines.values().find((each) => each.question === undefined) ?? (lines.size < LINES_MAX ? open() : undefined);
      const next = line === undefined ? undefined : waiting.shift();
      if (line === undefined || next === undefined) return;
      send(line, next);
    }
  }

  /** Nobody wants the answer any more: it is not waited for on a connection that others need. */
  function drop(question: Question): void {
    const at = waiting.indexOf(question);
    if (at >= 0) waiting.splice(at, 1);
    question.fail(new Error("aborted"));
    for (const line of lines) {
      if (line.question !== question) continue;
      line.question = undefined;
      leave(line, new Error("aborted"));
    }
  }

  return {
    async get(path, signal) {
      signal.throwIfAborted();
      const { promise, resolve: done, reject: fail } = Promise.withResolvers<Buffer>();
      const question: Question = { path, done, fail };
      const abort = (): void => drop(question);
      signal.addEventListener("abort", abort, { once: true });
      waiting.push(question);
      pump();
      try {
        return await promise;
      } finally {
        signal.removeEventListener("abort", abort);
      }
    },
    close() {
      for (const line of lines) leave(line, new Error("closed"));
    },
  };
}
