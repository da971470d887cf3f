// A clock that is stepped by hand, a seeded random and a silent log, for the tests of the engine.
import { setImmediate as breathe } from "node:timers/promises";
import type { Clock, Log, Random } from "../core/world.ts";

/** Lets everything that is ready run. */
export async function turns(count = 5): Promise<void> {
  for (let i = 0; i < count; i++) await breathe();
}

export interface ManualClock extends Clock {
  /** Moves time on, timer by timer. */
  advance(ms: number): Promise<void>;
}

interface Timer {
  readonly at: number;
  readonly order: number;
  readonly run: () => void;
}

export function manualClock(start = Date.UTC(2026, 0, 1)): ManualClock {
  let now = start;
  let order = 0;
  const timers = new Set<Timer>();
  const after = (ms: number, run: () => void) => {
    const timer = { at: now + Math.max(0, ms), order: order++, run };
    timers.add(timer);
    return { cancel: () => void timers.delete(timer) };
  };
  const next = (until: number): Timer | undefined =>
    [...timers].filter((t) => t.at <= until).toSorted((a, b) => a.at - b.at || a.order - b.order)[0];
  return {
    now: () => now,
    monotonic: () => now - start,
    after,
    sleep: (ms, signal) =>
      new Promise<void>((resolve, reject) => {
        const fail = (): void => reject(signal?.reason instanceof Error ? signal.reason : new Error("aborted"));
        if (signal?.aborted === true) return fail();
        const timer = after(ms, resolve);
        signal?.addEventListener("abort", () => {
          timer.cancel();
          fail();
        });
      }),
    async advance(ms) {
      const until = now + ms;
      await turns();
      for (let timer = next(until); timer !== undefined; timer = next(until)) {
        timers.delete(timer);
        now = Math.max(now, timer.at);
        timer.run();
        await turns();
      }
      now = until;
      await turns();
    },
  };
}

/** Park-Miller: the same numbers for the same seed. */
export function seededRandom(seed: number): Random {
  let state = (Math.abs(seed) % 2_147_483_646) + 1;
  const float = (): number => {
    state = (state * 48_271) % 2_147_483_647;
    return (state - 1) / 2_147_483_646;
  };
  const hex = (bytes: number): string => Array.from({ length: bytes * 2 }, () => Math.floor(float() * 16).toString(16)).join("");
  return { float, hex, uuid: () => `${hex(4)}-${hex(2)}-4${hex(2).slice(1)}-a${hex(2).slice(1)}-${hex(6)}` };
}

export const silentLog: Log = { debug: () => undefined, info: () => undefined, warn: () => undefined, error: () => undefined };
