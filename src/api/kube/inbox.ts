// Bytes that arrive before they are wanted: bounded, since whoever sends them is told to pause.

import type { Tap } from "./tap.ts";

const PAUSE_BYTES = 256 * 1024;
/** What a piece takes besides its bytes: many small ones are much. */
const PIECE_BYTES = 256;

const costOf = ({ length }: Uint8Array): number => length + PIECE_BYTES;

export class Inbox {
  readonly #tap: Tap;
  #held: Uint8Array[] = [];
  #bytes = 0;
  #ended = false;
  #paused = false;
  #wake: () => void = () => undefined;

  constructor(tap: Tap) {
    this.#tap = tap;
  }

  push(data: Uint8Array): void {
    if (this.#ended) return;
    this.#held.push(data);
    this.#bytes += costOf(data);
    if (this.#bytes > PAUSE_BYTES && !this.#paused) {
      this.#paused = true;
      this.#tap.pause();
    }
    this.#wake();
  }

  /** Nothing more comes; what is held is still given out. */
  end(): void {
    this.#ended = true;
    this.#wake();
  }

  /** For one reader. */
  async *chunks(): AsyncIterable<Uint8Array> {
    for (;;) {
      const next = this.#held.shift();
      if (next !== undefined) {
        this.#bytes -= costOf(next);
        yield next;
        continue;
      }
      if (this.#ended) return;
      if (this.#paused) {
        this.#paused = false;
        this.#tap.resume();
      }
      await new Promise<void>((resolve) => {
        this.#wake = resolve;
        if (this.#ended || this.#held.length > 0) resolve();
      });
    }
  }
}
