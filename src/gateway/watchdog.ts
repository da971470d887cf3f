// Notices a turn in which nothing works: no model is asked and no tool runs, and still it does not end.
import type { Clock } from "../core/world.ts";

export const QUIET_MS = 60_000;

export interface Watchdog {
  touch(): void;
  /** While held the turn waits for something that has its own limit. */
  busy(): Disposable;
  during<T>(work: () => Promise<T>): Promise<T>;
  stop(): void;
}

export function createWatchdog(clock: Clock, bark: () => void): Watchdog {
  let working = 0;
  let stopped = false;
  let timer: { cancel(): void } | undefined;
  const touch = (): void => {
    timer?.cancel();
    timer = working > 0 || stopped ? undefined : clock.after(QUIET_MS, bark);
  };
  const busy = (): Disposable => {
    let open = true;
    working += 1;
    touch();
    return {
      [Symbol.dispose]() {
        if (!open) return;
        open = false;
        working -= 1;
        touch();
      },
    };
  };
  touch();
  return {
    touch,
    busy,
    async during(work) {
      const held = busy();
      try {
        return await work();
      } finally {
        held[Symbol.dispose]();
      }
    },
    stop() {
      stopped = true;
      timer?.cancel();
      timer = undefined;
    },
  };
}
