// Asks the engine one thing: with a deadline, and with failures in the words of the error table.
import { BeigeError } from "../../src/core/errors.ts";
import { engineError, statusOf } from "./failure.ts";
import type { Engine } from "./words.ts";

const REQUEST_MS = 30_000;
/** A look takes milliseconds: an engine that has not answered one after this hangs, and a look at an object must end with that word. */
export const LOOK_MS = 10_000;

export interface AskOptions {
  readonly signal?: AbortSignal | undefined;
  readonly limitMs?: number;
}

/** `doing` completes "docker could not ...". Rejects with the signal's reason when the caller aborts. */
export async function ask<T>(
  engine: Engine,
  doing: string,
  run: (signal: AbortSignal) => Promise<T>,
  { signal, limitMs = REQUEST_MS }: AskOptions = {},
): Promise<T> {
  signal?.throwIfAborted();
  const scope = new AbortController();
  const cut = Promise.withResolvers<never>();
  cut.promise.catch(() => undefined);
  // An engine that takes the connection and says nothing must not hold the caller: the race ends it even when the request does not.
  const abort = (): void => {
    scope.abort();
    cut.reject(new Error("aborted"));
  };
  signal?.addEventListener("abort", abort, { once: true });
  const timer = engine.clock.after(limitMs, abort);
  try {
    return await Promise.race([run(scope.signal), cut.promise]);
  } catch (error) {
    signal?.throwIfAborted();
    if (scope.signal.aborted) throw new BeigeError("unavailable", `the docker engine did not ${doing} within ${limitMs / 1000} s`);
    throw engineError(error, doing, engine.socketPath);
  } finally {
    timer.cancel();
    signal?.removeEventListener("abort", abort);
  }
}

/** Lets answers with the listed statuses pass: they say that it is already so. */
export const passing =
  (...statuses: readonly number[]) =>
  (error: unknown): undefined => {
    if (!statuses.includes(statusOf(error) ?? 0)) throw error;
  };
