// The calls that run now, by agent: counted, bounded, and ended together when their sandbox goes.
import { BeigeError } from "../core/errors.ts";
import type { Calls } from "../core/world.ts";

export interface Job {
  /** Aborted by the caller, or by `cut` with its reason. */
  readonly signal: AbortSignal;
  leave(): void;
}

export interface RunningCalls extends Calls {
  /** Undefined when too many of this agent run. */
  enter(uid: string, signal: AbortSignal): Job | undefined;
}

/** Calls of one agent that run at once; launchers inside commands count too. */
export const CALLS_MAX = 64;

export function createRunningCalls(): RunningCalls {
  const byAgent = new Map<string, Set<AbortController>>();
  return {
    enter: (uid, signal) => {
      const jobs = byAgent.get(uid) ?? new Set();
      if (jobs.size >= CALLS_MAX) return undefined;
      const cut = new AbortController();
      jobs.add(cut);
      byAgent.set(uid, jobs);
      const leave = (): void => {
        jobs.delete(cut);
        if (jobs.size === 0 && byAgent.get(uid) === jobs) byAgent.delete(uid);
      };
      return { signal: AbortSignal.any([signal, cut.signal]), leave };
    },
    running: (uid) => byAgent.get(uid)?.size ?? 0,
    cut: (uid, why) => {
      for (const job of byAgent.get(uid) ?? []) job.abort(new BeigeError("unavailable", why));
    },
  };
}
