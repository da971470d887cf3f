// What passes and status tell of a set of objects, until each is Ready, failed or gone: progress for whoever waits.
import type { ApplyEvent, Verb } from "../core/control.ts";
import { refKey, type Ref } from "../core/resource.ts";
import type { Clock } from "../core/world.ts";
import type { Report } from "./controller.ts";
import { underWay } from "./status.ts";

export type Progress = Extract<ApplyEvent, { type: "progress" }>;
export type State = Progress["state"];

export interface Followed {
  readonly ref: Ref;
  readonly verb: Verb;
  readonly uid: string;
  /** Reports of older generations say nothing. */
  readonly generation: number;
}

/** What a report means to a waiter. */
export function stateOf(
  report: Report,
  failed: (ref: Ref) => boolean,
): { readonly state: State; readonly reason: string; readonly message: string } {
  if (report.state === "gone") return { state: "gone", reason: "Deleted", message: "" };
  if (report.state === "working") return { state: "working", reason: "Working", message: report.doing ?? "" };
  if (report.error !== undefined) {
    const { message } = report.error;
    return report.verdict?.next === "settled"
      ? { state: "failed", reason: "Refused", message }
      : { state: "waiting", reason: "Retrying", message };
  }
  const { plan } = report;
  if (plan === undefined) return { state: "working", reason: "Working", message: "" };
  const why = { reason: plan.reason, message: plan.message };
  if (plan.actions.length > 0) return { state: "working", ...why };
  if (plan.held !== undefined && plan.ready === true) return { state: "ready", reason: plan.reason, message: plan.held.until };
  if (plan.ready === true || plan.suspended === true) return { state: "ready", ...why };
  if (plan.wait?.on?.some(failed) === true) return { state: "failed", ...why };
  return { state: underWay(plan) ? "waiting" : "failed", ...why };
}

export interface Following {
  /** Ends when all are at rest, when the time is over, or when aborted; at most the last state of each object is kept for a slow reader. */
  events(signal: AbortSignal): AsyncIterable<Progress>;
  /** Of each that is followed; of one that nothing was heard of yet, that. */
  states(): ReadonlyMap<string, Progress>;
  close(): void;
}

const AT_REST: ReadonlySet<State> = new Set(["ready", "failed", "gone"]);

export interface FollowDeps {
  readonly clock: Clock;
  /** Reports of every pass. */
  /** Of objects that are not followed: whether nothing is on its way that would make them Ready. */
  readonly stuck: (ref: Ref) => boolean;
  readonly subscribe: (listener: (report: Report) => void) => { unsubscribe(): void };
}

/** Starts at once, so that nothing between the commit and the reading is missed. */
export function follow(deps: FollowDeps, followed: readonly Followed[], timeoutMs: number): Following {
  const { clock } = deps;
  const started = clock.monotonic();
  const wanted = new Map(followed.map((f) => [refKey(f.ref), f]));
  const states = new Map<string, Progress>();
  /** Last reports of those whose plan waits for others. */
  const waiting = new Map<string, Report>();
  const unread = new Map<string, Progress>();
  let over = followed.length === 0;
  let wake: () => void = () => undefined;

  const failed = (ref: Ref): boolean => (wanted.has(refKey(ref)) ? states.get(refKey(ref))?.state === "failed" : deps.stuck(ref));

  function enter(key: string, { ref, verb }: Followed, report: Report): void {
    const told = stateOf(report, failed);
    const before = states.get(key);
    if (before?.state === told.state && before.message === told.message && before.reason === told.reason) return;
    const progress: Progress = { type: "progress", ref, verb, ...told, elapsedMs: Math.round(clock.monotonic() - started) };
    states.set(key, progress);
    unread.delete(key);
    unread.set(key, progress);
  }

  function hear(report: Report): void {
    const key = refKey(report.ref);
    const about = wanted.get(key);
    if (about === undefined || report.uid !== about.uid || report.generation < about.generation) return;
    if ((report.plan?.wait?.on?.length ?? 0) > 0) waiting.set(key, report);
    else waiting.delete(key);
    enter(key, about, report);
    // Whoever waits for one that has failed has failed too.
    for (const [other, last] of waiting) {
      const of = wanted.get(other);
      if (of !== undefined) enter(other, of, last);
    }
    wake();
  }

  const unheard = ({ ref, verb }: Followed): Progress => {
    const message = "no look at it has ended yet";
    return {
      type: "progress",
      ref,
      verb,
      state: "waiting",
      reason: "Waiting",
      message,
      elapsedMs: Math.round(clock.monotonic() - started),
    };
  };
  const subscription = deps.subscribe(hear);
  const timer = clock.after(timeoutMs, () => {
    over = true;
    wake();
  });
  const atRest = (): boolean => states.size === wanted.size && states.values().every((s) => AT_REST.has(s.state));

  async function* events(signal: AbortSignal): AsyncGenerator<Progress> {
    const abort = (): void => wake();
    signal.addEventListener("abort", abort);
    try {
      for (;;) {
        for (const [key, progress] of unread) {
          unread.delete(key);
          yield progress;
        }
        if (unread.size > 0) continue;
        if (over || signal.aborted || atRest()) return;
        await new Promise<void>((resolve) => {
          wake = resolve;
        });
      }
    } finally {
      signal.removeEventListener("abort", abort);
    }
  }
  return {
    events,
    states: () => new Map(followed.map((about) => [refKey(about.ref), states.get(refKey(about.ref)) ?? unheard(about)])),
    close() {
      subscription.unsubscribe();
      timer.cancel();
    },
  };
}
