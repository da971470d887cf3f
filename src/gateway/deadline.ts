// Limits a wait: whatever does not settle in time is a `timeout`, whoever aborts is heard.
import { BeigeError } from "../core/errors.ts";
import type { Clock } from "../core/world.ts";

export interface Limit {
  readonly ms: number;
  /** Subject of the message: "hook preToolCall of plugin x". */
  readonly what: string;
}

/** The work itself goes on where nobody can stop it; its late answer is dropped. */
export function limited<T>(clock: Pick<Clock, "after">, limit: Limit, work: () => Promise<T>, signal?: AbortSignal): Promise<T> {
  return new Promise((done, fail) => {
    const timer = clock.after(limit.ms, () =>
      end(() => fail(new BeigeError("timeout", `${limit.what} did not answer within ${limit.ms} ms`))),
    );
    const stop = (): void => end(() => fail(signal?.reason as Error));
    const end = (settle: () => void): void => {
      timer.cancel();
      signal?.removeEventListener("abort", stop);
      settle();
    };
    if (signal?.aborted === true) return stop();
    signal?.addEventListener("abort", stop, { once: true });
    Promise.resolve()
      .then(work)
      .then(
        (value) => end(() => done(value)),
        (error: unknown) => end(() => fail(error)),
      );
  });
}

export const messageOf = (error: unknown): string => (error instanceof Error ? error.message : String(error));
