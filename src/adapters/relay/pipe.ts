// Hands what a provider sends to a reader who asks for it, and holds the provider back while the reader is slow.
import type { RelayEvent } from "../../core/road.ts";

/** Bytes that may wait for the reader before the provider is held back. */
const FULL_BYTES = 262_144;

export interface Tap {
  readonly pause: () => void;
  readonly resume: () => void;
  /** The reader has left before the end. */
  readonly leave: () => void;
}

export interface Pipe {
  readonly events: AsyncIterableIterator<RelayEvent>;
  push(bytes: Uint8Array, shows: boolean): void;
  /** The last event; only the first one counts. */
  end(event: RelayEvent): void;
}

type Next = IteratorResult<RelayEvent>;
const OVER: Next = { done: true, value: undefined };

export function createPipe(tap: Tap): Pipe {
  let waiting: Uint8Array[] = [];
  let size = 0;
  let shown = false;
  let full = false;
  let last: RelayEvent | undefined;
  let over = false;
  let reader: ((next: Next) => void) | undefined;

  /** Everything that waits goes as one. */
  const taken = (): RelayEvent => {
    const bytes = waiting.length === 1 && waiting[0] !== undefined ? waiting[0] : Buffer.concat(waiting);
    const event: RelayEvent = { type: "wire", bytes, shows: shown };
    [waiting, size, shown] = [[], 0, false];
    if (full) tap.resume();
    full = false;
    return event;
  };
  const ended = (): Next => {
    if (last === undefined || over) return OVER;
    over = true;
    return { done: false, value: last };
  };
  const hand = (next: Next): boolean => {
    if (reader === undefined) return false;
    const give = reader;
    reader = undefined;
    give(next);
    return true;
  };

  return {
    push(bytes, shows) {
      if (last !== undefined || hand({ done: false, value: { type: "wire", bytes, shows } })) return;
      waiting.push(bytes);
      size += bytes.length;
      shown ||= shows;
      if (size <= FULL_BYTES || full) return;
      full = true;
      tap.pause();
    },
    end(event) {
      if (last !== undefined) return;
      last = event;
      if (reader !== undefined) hand(ended());
    },
    events: {
      next: () => {
        if (over) return Promise.resolve(OVER);
        if (waiting.length > 0) return Promise.resolve({ done: false, value: taken() });
        if (last !== undefined) return Promise.resolve(ended());
        return new Promise((resolve) => (reader = resolve));
      },
      return: () => {
        over = true;
        waiting = [];
        hand(OVER);
        tap.leave();
        return Promise.resolve(OVER);
      },
      [Symbol.asyncIterator]() {
        return this;
      },
    },
  };
}
