// A fetch that remembers what the SDK does not tell, and that bounds whatever a provider sends.
import { retryAfterMs } from "../../core/retry.ts";

const ERROR_BODY_MAX = 65_536;
/** One answer, and one line of it. */
const BODY_MAX = 256 * 1024 * 1024;
const LINE_MAX = 16 * 1024 * 1024;
const NEWLINE = 10;
const TAIL_MIN = 4096;

export interface Heard {
  /** Status of the last answer; absent while none came. */
  status?: number;
  retryAfterMs?: number;
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

/** Fails a stream that never ends, or a line that never does: the SDK would collect it all. */
function limited(tail: Tail): TransformStream<Uint8Array, Uint8Array> {
  let total = 0;
  let line = 0;
  return new TransformStream({
    transform(chunk, controller) {
      total += chunk.length;
      const at = chunk.lastIndexOf(NEWLINE);
      line = at === -1 ? line + chunk.length : chunk.length - at - 1;
      if (total > BODY_MAX || line > LINE_MAX) controller.error(new Error("the provider's answer is too long"));
      else {
        tail.add(chunk);
        controller.enqueue(chunk);
      }
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
    const wait = retryAfterMs(response.headers, body, Date.now());
    if (wait !== undefined) heard.retryAfterMs = wait;
    const type = response.headers.get("content-type") ?? "text/plain";
    return new Response(EMPTY.has(response.status) ? null : body, { status: response.status, headers: { "content-type": type } });
  };
}
