// The real clock. Timers of any length are safe: Node's own wrap beyond 2^31 ms and fire at once.
import { performance } from "node:perf_hooks";
import type { Clock } from "../core/world.ts";

const LONGEST_MS = 2 ** 31 - 1;

function start(ms: number, run: () => void, keepAlive: boolean): { cancel(): void } {
  const end = performance.now() + ms;
  let timer: NodeJS.Timeout;
  const arm = (leftMs: number): void => {
    const part = Math.min(Math.max(0, leftMs), LONGEST_MS);
    timer = setTimeout(() => (leftMs > LONGEST_MS ? arm(end - performance.now()) : run()), part);
    if (!keepAlive) timer.unref();
  };
  arm(Number.isNaN(ms) ? 0 : ms);
  return { cancel: () => clearTimeout(timer) };
}

export const systemClock: Clock = {
  now: () => Date.now(),
  monotonic: () => performance.now(),
  sleep: (ms, signal) =>
    new Promise<void>((done, fail) => {
      if (signal?.aborted) return fail(signal.reason as Error);
      const stop = (): void => {
        timer.cancel();
        fail(signal?.reason as Error);
      };
      const timer = start(
        ms,
        () => {
          signal?.removeEventListener("abort", stop);
          done();
        },
        true,
      );
      signal?.addEventListener("abort", stop, { once: true });
    }),
  after: (ms, run) => start(ms, run, false),
};
