// Cuts a stream of server-sent events into runs of whole events, wherever the network cut its bytes.

const NEWLINE = 10;
const RETURN = 13;
const BLANK = Buffer.from("\n\n");
const BLANK_CRLF = Buffer.from("\n\r\n");
const FIRST_BYTES = 4096;
const KEPT_BYTES = 65_536;

export interface Splitter {
  /** Whole events, blank line included, as far as they came; the rest is kept. */
  add(chunk: Buffer): Buffer | undefined;
  /** What is kept: the beginning of an event. */
  readonly rest: () => Buffer;
  readonly held: () => number;
}

export function createSplitter(): Splitter {
  let store = Buffer.alloc(0);
  let used = 0;
  let crlf = false;
  // Doubles, so that many tiny pieces cost no more than few large ones.
  const keep = (bytes: Buffer): void => {
    if (used + bytes.length > store.length) {
      const larger = Buffer.allocUnsafe(Math.max(FIRST_BYTES, 2 * store.length, used + bytes.length));
      store.copy(larger, 0, 0, used);
      store = larger;
    }
    bytes.copy(store, used);
    used += bytes.length;
  };
  const back = (from: number): number => store[used - from] ?? 0;
  /** A blank line that lies on the seam: how much of the chunk belongs to it. */
  const seam = (chunk: Buffer): number => {
    if (used === 0) return 0;
    if (chunk[0] === NEWLINE && (back(1) === NEWLINE || (used > 1 && back(1) === RETURN && back(2) === NEWLINE))) return 1;
    return back(1) === NEWLINE && chunk[0] === RETURN && chunk[1] === NEWLINE ? 2 : 0;
  };
  const endIn = (chunk: Buffer): number => {
    crlf ||= chunk.includes(RETURN);
    const plain = chunk.lastIndexOf(BLANK) + BLANK.length;
    const windows = crlf ? chunk.lastIndexOf(BLANK_CRLF) + BLANK_CRLF.length : 0;
    const inside = Math.max(plain > 1 ? plain : 0, windows > 2 ? windows : 0);
    return inside === 0 ? seam(chunk) : inside;
  };
  return {
    add(chunk) {
      const end = endIn(chunk);
      if (end === 0) {
        keep(chunk);
        return undefined;
      }
      const whole = end === chunk.length ? chunk : chunk.subarray(0, end);
      const events = used === 0 ? whole : Buffer.concat([store.subarray(0, used), whole]);
      used = 0;
      if (store.length > KEPT_BYTES) store = Buffer.alloc(0);
      if (end < chunk.length) keep(chunk.subarray(end));
      return events;
    },
    rest: () => Buffer.from(store.subarray(0, used)),
    held: () => used,
  };
}
