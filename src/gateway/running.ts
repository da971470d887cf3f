// The calls that run now, by agent: counted, bounded, held while their sandbox is exchanged, and ended together when it goes.
import { BeigeError } from "../core/errors.ts";
import type { Calls, Clock } from "../core/world.ts";

export interface Job {
  /** Aborted by the caller, or by `cut` with its reason. */
  readonly signal: AbortSignal;
  /** Aborted by `cut` alone: for what goes on behind its caller. */
  readonly cut: AbortSignal;
  leave(): void;
}

export interface RunningCalls extends Calls {
  /** Undefined when too many of this agent run. */
  enter(uid: string, signal: AbortSignal): Job | undefined;
  /**
   * Undefined when new calls of this agent are not held; else resolves when they are not any more. Rejects with `unavailable`
   * when that takes too long or too many wait, and with the signal's reason when it is aborted.
   */
  wait(uid: string, signal: AbortSignal): Promise<void> | undefined;
  /** Whoever needs the sandbox says so, and says when it does no more. */
  want(uid: string): { release(): void };
}

export interface RunningDeps {
  readonly clock: Pick<Clock, "after">;
  /** The last running call of an agent ended. */
  readonly onIdle: (uid: string) => void;
}

/** Calls of one agent that run at once; launchers inside commands count too. */
export const CALLS_MAX = 64;
/** Calls of one agent that wait for its new sandbox, and how long each does. */
export const WAITING_MAX = 32;
export const WAIT_MS = 90_000;
/** What is said to a caller about when to come again. */
const RETRY_MS = 5_000;

interface Gate {
  readonly waiting: Set<() => void>;
  readonly limit: { cancel(): void };
}

const refused = (why: string): BeigeError =>
  new BeigeError("unavailable", `the sandbox is being replaced, and ${why}`, { retryAfterMs: RETRY_MS, hint: "retry in a few seconds" });

/** Gates are in memory only: a gateway that dies leaves none closed, and each opens by itself when its time is over. */
function createGates(clock: RunningDeps["clock"]) {
  const gates = new Map<string, Gate>();
  function open(uid: string): void {
    const gate = gates.get(uid);
    gates.delete(uid);
    gate?.limit.cancel();
    for (const pass of gate?.waiting ?? []) pass();
  }
  function close(uid: string, limitMs: number): void {
    const before = gates.get(uid);
    before?.limit.cancel();
    gates.set(uid, { waiting: before?.waiting ?? new Set(), limit: clock.after(limitMs, () => open(uid)) });
  }
  function wait(uid: string, signal: AbortSignal): Promise<void> | undefined {
    const waiting = gates.get(uid)?.waiting;
    if (waiting === undefined) return undefined;
    if (waiting.size >= WAITING_MAX) return Promise.reject(refused(`${waiting.size} calls wait for the new one already`));
    const { promise, resolve, reject } = Promise.withResolvers<void>();
    const abort = (): void => reject(signal.reason);
    const late = clock.after(WAIT_MS, () => reject(refused(`took no calls for ${WAIT_MS / 1000} s`)));
    waiting.add(resolve);
    signal.addEventListener("abort", abort);
    if (signal.aborted) abort();
    return promise.finally(() => {
      waiting.delete(resolve);
      late.cancel();
      signal.removeEventListener("abort", abort);
    });
  }
  return { open, close, wait, closed: (uid: string) => gates.has(uid) };
}

function createWishes() {
  const wishes = new Map<string, number>();
  return {
    wanted: (uid: string): boolean => wishes.has(uid),
    want(uid: string): { release(): void } {
      wishes.set(uid, (wishes.get(uid) ?? 0) + 1);
      let held = true;
      const release = (): void => {
        if (!held) return;
        held = false;
        const left = (wishes.get(uid) ?? 1) - 1;
        if (left > 0) wishes.set(uid, left);
        else wishes.delete(uid);
      };
      return { release };
    },
  };
}

export function createRunningCalls(deps: RunningDeps): RunningCalls {
  const byAgent = new Map<string, Set<AbortController>>();
  const gates = createGates(deps.clock);
  return {
    enter: (uid, signal) => {
      const jobs = byAgent.get(uid) ?? new Set();
      if (jobs.size >= CALLS_MAX) return undefined;
      const cut = new AbortController();
      jobs.add(cut);
      byAgent.set(uid, jobs);
      const leave = (): void => {
        if (!jobs.delete(cut) || jobs.size > 0) return;
        if (byAgent.get(uid) === jobs) byAgent.delete(uid);
        deps.onIdle(uid);
      };
      return { signal: AbortSignal.any([signal, cut.signal]), cut: cut.signal, leave };
    },
    ...createWishes(),
    wait: gates.wait,
    hold: gates.close,
    held: gates.closed,
    admit: gates.open,
    running: (uid) => byAgent.get(uid)?.size ?? 0,
    cut: (uid, why) => {
      for (const job of byAgent.get(uid) ?? []) job.abort(new BeigeError("unavailable", why));
    },
  };
}
