// Does one action: the audit row first, then the effect with a deadline, then the outcome row and the event.
import type { AuditCall, AuditOutcome } from "../core/audit.ts";
import { asBeigeError, BeigeError } from "../core/errors.ts";
import type { Action, AnyKind } from "../core/kind.ts";
import { nsName, refName, type Ref } from "../core/resource.ts";
import type { Clock, World } from "../core/world.ts";
import { reasonOf, type EventLog } from "./events.ts";

/** Longest time for one effect; then its signal is aborted. */
export const ACT_MS = 180_000;
/** How long an aborted effect may still take before it is given up. */
export const ACT_GRACE_MS = 30_000;

/** Runs with a limit. What ignores its signal is waited for `graceMs` more, so that effects of one key do not overlap. */
export async function limited<T>(
  clock: Clock,
  limit: { readonly ms: number; readonly graceMs: number; readonly what: string },
  run: (signal: AbortSignal) => Promise<T>,
  outer?: AbortSignal,
): Promise<T> {
  const own = new AbortController();
  let late: BeigeError | undefined;
  let grace: { cancel(): void } | undefined;
  const { promise: abandoned, reject: abandon } = Promise.withResolvers<never>();
  const giveUp = (reason: unknown): void => {
    grace ??= clock.after(limit.graceMs, () => abandon(late ?? new BeigeError("timeout", `${limit.what} did not end when it was stopped`)));
    own.abort(reason);
  };
  const timer = clock.after(limit.ms, () => {
    late = new BeigeError("timeout", `${limit.what} took longer than ${limit.ms / 1000} s`);
    giveUp(late);
  });
  // Not AbortSignal.any: the outer signal lives as long as the gateway and would keep every listener.
  const pass = (): void => giveUp(outer?.reason);
  outer?.addEventListener("abort", pass);
  if (outer?.aborted === true) pass();
  try {
    return await Promise.race([run(own.signal), abandoned]);
  } catch (error) {
    throw late ?? error;
  } finally {
    timer.cancel();
    grace?.cancel();
    outer?.removeEventListener("abort", pass);
  }
}

export interface ActDeps {
  readonly world: World;
  readonly events: EventLog;
}

/** Whose object it is done for. `uid` of an orphan is its key. */
export interface Target {
  readonly ref: Ref;
  readonly uid: string;
}

const auditCall = (ref: Ref, action: Action): AuditCall => ({
  agent: ref.kind === "Agent" ? nsName(ref.namespace, ref.name) : refName(ref),
  type: "control",
  tool: action.type,
  args: [action.summary],
  decision: "allowed",
  target: "engine",
  principal: "engine",
});

const outcomeOf = (error: BeigeError | undefined, durationMs: number): AuditOutcome => ({
  durationMs,
  exitCode: error === undefined ? 0 : 1,
  outputBytes: 0,
  outcome: error === undefined ? "ok" : error.code === "timeout" ? "timeout" : "failed",
  ...(error === undefined ? {} : { error: error.message }),
});

/** Throws BeigeError. Without its audit row nothing is done: that is `unavailable`. */
export async function act(deps: ActDeps, kind: AnyKind, target: Target, action: Action, signal: AbortSignal): Promise<void> {
  const { world, events } = deps;
  const call = world.random.uuid();
  const row = auditCall(target.ref, action);
  await world.control.begin(call, row);
  const started = world.clock.monotonic();
  let failed: BeigeError | undefined;
  try {
    const limit = { ms: ACT_MS, graceMs: ACT_GRACE_MS, what: action.summary };
    await limited(world.clock, limit, (inner) => kind.act(world, action, inner), signal);
  } catch (error) {
    failed = asBeigeError(error);
  }
  try {
    await world.control.end(call, row, outcomeOf(failed, Math.round(world.clock.monotonic() - started)));
  } catch (error) {
    // The effect is done; that its outcome is unknown is what the chain will say.
    world.log.error("the outcome of an action was not recorded", { action: action.summary, error: String(error) });
  }
  const { ref, uid } = target;
  if (failed !== undefined) {
    events.record({ ref, uid, type: "Warning", reason: "Failed", message: `${action.summary}: ${failed.message}` });
    throw failed;
  }
  if (action.quiet === true) return;
  events.record({ ref, uid, type: "Normal", reason: reasonOf(action), message: `${action.summary} (${action.why})` });
}
