// A fetch that remembers what the SDK does not tell, and that bounds whatever a provider sends.
import { refusalOf } from "../failure.ts";
import { createSplitter } from "../relay/events.ts";
import type { ChatFailure } from "../../core/chat.ts";

const ERROR_BODY_MAX = 65_536;
/** One answer, and one line of it. */
const BODY_MAX = 256 * 1024 * 1024;
const LINE_MAX = 16 * 1024 * 1024;
const TAIL_MIN = 4096;

export interface Heard {
  /** Status of the last answer; absent while none came. */
  status?: number;
  /** Set when that status was a refusal. */
  refusal?: ChatFailure;
  /** Newest bytes of a stream: a failure in it is told there in the provider's words. */
  readonly tail: Tail;
}

export interface Tail {
  add(chunk: Uint8Array): void;
  text(): string;
}

/** Keeps what was sent last; whole chunks, so that nothing is copied while all goes well. */
export function createTail(): Tail {
  const chunks: Uint8Array[] = [];
  let size = 0;
  return {
    add(chunk) {
      chunks.push(chunk);
      size += chunk.length;
      while (chunks.length > 1 && size - (chunks[0]?.length ?? 0) >= TAIL_MIN) size -= chunks.shift()?.length ?? 0;
    },
    text: () => Buffer.concat(chunks).subarray(-TAIL_MIN).toString(),
  };
}

async function boundedText(response: Response): Promise<string> {
  if (response.body === null) return "";
  const parts: Uint8Array[] = [];
  let size = 0;
  for await (const chunk of response.body as AsyncIterable<Uint8Array>) {
    parts.push(chunk.subarray(0, ERROR_BODY_MAX - size));
    size += chunk.length;
    if (size >= ERROR_BODY_MAX) break;
  }
  return new TextDecoder().decode(Buffer.concat(parts));
}

/** Whether the data of an event may be JSON, seen by its ends. */
function looksWhole(event: string): boolean {
  const lines = event.split(/\r?\n/).filter((line) => line.startsWith("data:"));
  const data = lines.map((line) => line.slice("data:".length).trim()).join("\n");
  return data === "" || (/^[{[]/.test(data) && /[}\]]$/.test(data));
}

/** The beginning of an event that was cut; what is no event at all is for the SDK to judge. */
function isHalf(rest: string): boolean {
  const lines = rest.split(/\r?\n/).filter((line) => !line.startsWith("event:"));
  const data = lines.filter((line) => line.startsWith("data:")).map((line) => line.slice("data:".length));
  if (data.length === 0) return rest.startsWith("event:");
  try {
    return data.join("\n").trim() !== "[DONE]" && JSON.parse(data.join("\n")) === undefined;
  } catch {
    return true;
  }
}

/**
 * Hands on whole events. Fails a stream that never ends, or a line that never does: the SDK would collect it all.
 * Ends one at its first broken event, which is a failure that keeps what came before: the SDK would print that event.
 */
function limited(tail: Tail): TransformStream<Uint8Array, Uint8Array> {
  const splitter = createSplitter();
  let total = 0;
  return new TransformStream({
    transform(chunk, controller) {
      total += chunk.length;
      tail.add(chunk);
      const events = splitter.add(Buffer.from(chunk.buffer, chunk.byteOffset, chunk.length));
      if (total > BODY_MAX || splitter.held() > LINE_MAX) return controller.error(new Error("the provider's answer is too long"));
      if (events === undefined) return;
      const each = events.toString().split(/(?<=\n\r?\n)/);
      const broken = each.findIndex((event) => !looksWhole(event));
      if (broken === -1) return controller.enqueue(events);
      if (broken > 0) controller.enqueue(Buffer.from(each.slice(0, broken).join("")));
      controller.terminate();
    },
    flush(controller) {
      const rest = splitter.rest();
      if (rest.length > 0 && !isHalf(rest.toString())) controller.enqueue(rest);
    },
  });
}

const EMPTY: ReadonlySet<number> = new Set([101, 204, 205, 304]);

export function watchedFetch(heard: Heard): typeof fetch {
  return async (input, init) => {
    // A redirect would carry the key to a host that it is not bound to.
    const response = await fetch(input, { ...init, redirect: "manual" });
    heard.status = response.status;
    if (response.ok && response.body !== null) {
      return new Response(response.body.pipeThrough(limited(heard.tail)), { status: response.status, headers: response.headers });
    }
    const body = await boundedText(response);
    heard.refusal = refusalOf({ status: response.status, headers: response.headers, body }, Date.now());
    const type = response.headers.get("content-type") ?? "text/plain";
    return new Response(EMPTY.has(response.status) ? null : body, { status: response.status, headers: { "content-type": type } });
  };
}
