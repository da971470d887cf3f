// How much is read from one agent's clients in a while: a flood waits in its own pipes, and not in front of everybody else's calls.
import type { Clock } from "../core/world.ts";

/** 20 MiB a second, in short steps. */
const STEP_MS = 50;
const STEP_BYTES = 1024 * 1024;

/** As much of a socket as is needed to make it wait. */
export interface Source {
  pause(): unknown;
  resume(): unknown;
}

export interface Pace {
  /** Counts what was read; a source that reads too much goes on in the next step. */
  take(bytes: number, source: Source): void;
}

export function createPace(clock: Pick<Clock, "after">): Pace {
  const waiting = new Set<Source>();
  let spent = 0;
  let counting = false;
  const step = (): void => {
    counting = waiting.size > 0;
    spent = 0;
    if (counting) clock.after(STEP_MS, step);
    const resumed = [...waiting];
    waiting.clear();
    for (const source of resumed) source.resume();
  };
  return {
    take: (bytes, source) => {
      if (!counting) clock.after(STEP_MS, step);
      counting = true;
      spent += bytes;
      if (spent <= STEP_BYTES) return;
      source.pause();
      waiting.add(source);
    },
  };
}
