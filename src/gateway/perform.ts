// Runs what a call is for, and writes down how it ended.
import type { Audit, AuditCall } from "../core/audit.ts";
import type { CallResult } from "../core/call.ts";
import { asBeigeError, type BeigeError } from "../core/errors.ts";
import type { Clock, Log } from "../core/world.ts";
import { messageOf } from "./deadline.ts";
import type { HookRunner } from "./hooks.ts";
import { bytesOf, failure, type ToolOutcome } from "./inside.ts";

export interface PerformDeps {
  readonly audit: Pick<Audit, "begin" | "end">;
  readonly hooks: Pick<HookRunner, "observeCall">;
  readonly clock: Clock;
  readonly log: Log;
  /** A command of the agent of that name ran out of memory. */
  readonly onMemory?: (agent: string) => void;
}

export interface Performed {
  readonly id: string;
  /** Of the agent. */
  readonly name: string;
  readonly row: AuditCall;
  readonly run: () => Promise<ToolOutcome>;
  /** How long it had run already. */
  readonly elapsedMs?: number;
}

const NOTHING = new Uint8Array();

/** What was thrown, as the outcome of a call: only what is no fault of the tool is thrown on, after the outcome row. */
function outcomeOfError(thrown: unknown, signal: AbortSignal): { readonly outcome: ToolOutcome; readonly thrown?: BeigeError } {
  if (signal.aborted) {
    return { outcome: { output: NOTHING, exitCode: 130, outcome: "cancelled", error: messageOf(signal.reason) } };
  }
  const error = asBeigeError(thrown);
  if (error.code === "invalid") return { outcome: failure(error.message, 2) };
  return { outcome: failure(error.message, 69), thrown: error };
}

/** A command that was cut says why it was, in whoever's words cut it. */
const cutOutcome = (outcome: ToolOutcome, signal: AbortSignal): ToolOutcome =>
  outcome.outcome === "cancelled" && signal.aborted ? { ...outcome, error: messageOf(signal.reason) } : outcome;

/** The last row of a call, and those who watch hear of it. */
async function settle(deps: PerformDeps, done: Performed, outcome: ToolOutcome, from: number): Promise<void> {
  const { id, row, name } = done;
  const { exitCode, error } = outcome;
  const durationMs = Math.round(deps.clock.monotonic() - from) + (done.elapsedMs ?? 0);
  const said = error === undefined ? {} : { error };
  const ended = outcome.outcome === "denied" ? {} : { outcome: outcome.outcome };
  const apart = outcome.background === true ? { background: true as const } : {};
  await deps.audit.end(id, row, { durationMs, exitCode, outputBytes: bytesOf(outcome), ...said, ...ended, ...apart }).catch((thrown) => {
    deps.log.error("outcome of a call was not written", { call: id, error: messageOf(thrown) });
  });
  if (outcome.outcome === "oom") deps.onMemory?.(name);
  const session = row.session === undefined ? {} : { session: row.session };
  void deps.hooks.observeCall({ agent: name, tool: row.tool, args: row.args, callId: id, exitCode, durationMs, ...session });
}

/** For a call whose first row is on the disk. What goes on behind its answer has its last row when it ends. */
export async function conclude(deps: PerformDeps, done: Performed, signal: AbortSignal): Promise<CallResult> {
  const { id, run } = done;
  const from = deps.clock.monotonic();
  const ended = await Promise.resolve()
    .then(run)
    .then(
      (outcome): ReturnType<typeof outcomeOfError> => ({ outcome: cutOutcome(outcome, signal) }),
      (thrown: unknown) => outcomeOfError(thrown, signal),
    );
  const { output, exitCode, error, outcome, truncated, images, later } = ended.outcome;
  if (later === undefined) await settle(deps, done, ended.outcome, from);
  else void later.then((last) => settle(deps, done, last, from));
  if (ended.thrown !== undefined) throw ended.thrown;
  return {
    call: id,
    success: exitCode === 0,
    output,
    exitCode,
    outcome,
    ...(error === undefined ? {} : { error }),
    ...(truncated === true ? { truncated } : {}),
    ...(images === undefined ? {} : { images }),
  };
}

export async function perform(deps: PerformDeps, done: Performed, signal: AbortSignal): Promise<CallResult> {
  await deps.audit.begin(done.id, done.row);
  return conclude(deps, done, signal);
}
