// Runs what a call is for, and writes down how it ended.
import type { Audit, AuditCall } from "../core/audit.ts";
import type { CallResult } from "../core/call.ts";
import { asBeigeError, type BeigeError } from "../core/errors.ts";
import type { Clock, Log } from "../core/world.ts";
import { messageOf } from "./deadline.ts";
import type { HookRunner } from "./hooks.ts";
import { failure, type ToolOutcome } from "./inside.ts";

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

/** For a call whose first row is on the disk. */
export async function conclude(deps: PerformDeps, done: Performed, signal: AbortSignal): Promise<CallResult> {
  const { id, row, name, run } = done;
  const from = deps.clock.monotonic();
  const ended = await Promise.resolve()
    .then(run)
    .then(
      (outcome): ReturnType<typeof outcomeOfError> => ({ outcome: cutOutcome(outcome, signal) }),
      (thrown: unknown) => outcomeOfError(thrown, signal),
    );
  const { output, exitCode, error, outcome, truncated } = ended.outcome;
  const durationMs = Math.round(deps.clock.monotonic() - from);
  const said = error === undefined ? {} : { error };
  const kept = { durationMs, exitCode, outputBytes: output.length, ...said, ...(outcome === "denied" ? {} : { outcome }) };
  await deps.audit.end(id, row, kept).catch((thrown: unknown) => {
    deps.log.error("outcome of a call was not written", { call: id, error: messageOf(thrown) });
  });
  if (outcome === "oom") deps.onMemory?.(name);
  const session = row.session === undefined ? {} : { session: row.session };
  void deps.hooks.observeCall({ agent: name, tool: row.tool, args: row.args, callId: id, exitCode, durationMs, ...session });
  if (ended.thrown !== undefined) throw ended.thrown;
  return { call: id, success: exitCode === 0, output, exitCode, outcome, ...said, ...(truncated === true ? { truncated } : {}) };
}

export async function perform(deps: PerformDeps, done: Performed, signal: AbortSignal): Promise<CallResult> {
  await deps.audit.begin(done.id, done.row);
  return conclude(deps, done, signal);
}
