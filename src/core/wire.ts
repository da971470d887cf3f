// HTTP/1.1 answers, byte by byte: a head, then a body whose end must be seen, so that a killed stream never looks finished.
import { BeigeError } from "./errors.ts";

const HEAD_MAX_BYTES = 64 * 1024;
const LINE_MAX_BYTES = 4096;

export interface Head {
  readonly status: number;
  /** Names in lower case. */
  readonly headers: ReadonlyMap<string, string>;
}

export interface Wire {
  /** Takes what arrived; answers the body bytes in it. Throws on anything that is not HTTP. */
  push(bytes: Buffer): readonly Buffer[];
  readonly head: () => Head | undefined;
  /** Whether the last byte of the body has been seen. */
  readonly done: () => boolean;
  /** Bytes that came after it. */
  readonly surplus: () => number;
}

/** Whose answers these are, for what is said of broken ones. */
export interface Sender {
  /** Such as "the gateway". */
  readonly name: string;
  readonly hint: string;
}

const broken = (what: string): Error => new Error(what);

function parseHead(text: string): Head {
  const [first = "", ...lines] = text.split("\r\n");
  const status = /^HTTP\/1\.[01] ([1-5]\d\d)(?: |$)/.exec(first)?.[1];
  if (status === undefined) throw broken("no HTTP status line");
  const headers = new Map<string, string>();
  for (const line of lines) {
    const colon = line.indexOf(":");
    if (colon < 1) throw broken("a header without a name");
    const name = line.slice(0, colon).toLowerCase();
    const value = line.slice(colon + 1).trim();
    if (name === "content-length" && (headers.get(name) ?? value) !== value) throw broken("it says two lengths");
    // The one header that comes several times and is read.
    headers.set(name, name === "warning" && headers.has(name) ? `${headers.get(name)}, ${value}` : value);
  }
  return { status: Number(status), headers };
}

type State =
  | { readonly at: "head" }
  | { readonly at: "bytes"; left: number; readonly next: "done" | "after" }
  | { readonly at: "after" | "size" | "trailer" | "done" };

function bodyState(head: Head): State {
  if (head.status === 204 || head.status === 304) return { at: "done" };
  if (/(^|[ ,])chunked$/i.test(head.headers.get("transfer-encoding") ?? "")) return { at: "size" };
  const length = head.headers.get("content-length");
  if (length === undefined || !/^\d{1,15}$/.test(length)) throw broken("it does not say where it ends");
  return Number(length) === 0 ? { at: "done" } : { at: "bytes", left: Number(length), next: "done" };
}

interface Reading {
  rest: Buffer;
  state: State;
  head: Head | undefined;
}

/** Cuts off one line; undefined while it is not whole. */
function cutLine(reading: Reading): string | undefined {
  const end = reading.rest.indexOf("\r\n");
  if (end > LINE_MAX_BYTES || (end < 0 && reading.rest.length > LINE_MAX_BYTES)) throw broken("a chunk's size line is too long");
  if (end < 0) return undefined;
  const text = reading.rest.toString("latin1", 0, end);
  reading.rest = reading.rest.subarray(end + 2);
  return text;
}

function readHead(reading: Reading): boolean {
  const { rest } = reading;
  const end = rest.indexOf("\r\n\r\n");
  if (end > HEAD_MAX_BYTES || (end < 0 && rest.length > HEAD_MAX_BYTES)) throw broken("its head is longer than 64 KiB");
  if (end < 0) return false;
  const head = parseHead(rest.toString("latin1", 0, end));
  reading.rest = rest.subarray(end + 4);
  // An interim answer is followed by the real one.
  if (head.status < 200) return true;
  reading.head = head;
  reading.state = bodyState(head);
  return true;
}

function afterLine(at: "after" | "size" | "trailer", text: string): State {
  if (at === "after") {
    if (text !== "") throw broken("a chunk is longer than it says");
    return { at: "size" };
  }
  if (at === "trailer") return { at: text === "" ? "done" : "trailer" };
  const size = /^([0-9a-fA-F]{1,12})(?:;.*)?$/.exec(text)?.[1];
  if (size === undefined) throw broken("a chunk without a size");
  const left = Number.parseInt(size, 16);
  return left === 0 ? { at: "trailer" } : { at: "bytes", left, next: "after" };
}

/** One step; false when more bytes are needed. */
function step(reading: Reading, body: Buffer[]): boolean {
  const { state } = reading;
  if (state.at === "done") return false;
  if (state.at === "head") return readHead(reading);
  if (state.at !== "bytes") {
    const text = cutLine(reading);
    if (text !== undefined) reading.state = afterLine(state.at, text);
    return text !== undefined;
  }
  if (reading.rest.length === 0) return false;
  const part = reading.rest.subarray(0, state.left);
  reading.rest = reading.rest.subarray(part.length);
  body.push(part);
  state.left -= part.length;
  if (state.left === 0) reading.state = { at: state.next };
  return true;
}

export function createWire({ name, hint }: Sender): Wire {
  const reading: Reading = { rest: Buffer.alloc(0), state: { at: "head" }, head: undefined };
  return {
    push(bytes) {
      reading.rest = reading.rest.length === 0 ? bytes : Buffer.concat([reading.rest, bytes]);
      const body: Buffer[] = [];
      try {
        while (step(reading, body));
      } catch (error) {
        const what = error instanceof Error ? error.message : String(error);
        throw new BeigeError("unavailable", `${name}'s answer is broken: ${what}`, { hint });
      }
      return body;
    },
    head: () => reading.head,
    done: () => reading.state.at === "done",
    surplus: () => reading.rest.length,
  };
}
