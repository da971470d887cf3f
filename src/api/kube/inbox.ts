// Bytes that arrive before they are wanted: bounded, since whoever sends them is told to pause.

import type { Tap } from "./tap.ts";

const PAUSE_BYTES = 256 * 1024;

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
    this.#bytes += data.length;
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
        this.#bytes -= next.length;
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
