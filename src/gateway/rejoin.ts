// Takes up again the command of a call that outlived its gateway: its real output and its real end, in the row that was begun for it.
import { UNKNOWN, type LeftCalls } from "../core/audit.ts";
import type { CallResult, RejoinCall, StartedCommand } from "../core/call.ts";
import type { Sandbox } from "../core/sandbox.ts";
import { messageOf } from "./deadline.ts";
import { collect } from "./exec.ts";
import { insideOf } from "./inside.ts";
import { conclude, type Performed, type PerformDeps } from "./perform.ts";
import type { RunningCalls } from "./running.ts";

export interface RejoinDeps extends PerformDeps {
  readonly sandbox: Pick<Sandbox, "exec" | "rejoin">;
  readonly left?: LeftCalls;
}

/** Longest output to a model, an even number of bytes. */
export const MODEL_BYTES_MAX = 64 * 1024;

async function goOn(deps: RejoinDeps, begun: Omit<Performed, "run">, command: StartedCommand, signal: AbortSignal) {
  const handle = await deps.sandbox.rejoin?.(command.container, command.call, signal).catch((thrown: unknown) => {
    deps.log.warn("a command could not be taken up again", { call: command.call, error: messageOf(thrown) });
    return undefined;
  });
  if (handle === undefined) {
    await deps.audit.end(begun.id, begun.row, UNKNOWN);
    return undefined;
  }
  const { call, container, timeoutMs } = command;
  const inside = insideOf(deps.sandbox, container);
  const run = () => collect(handle, { call, inside, timeoutMs, capBytes: MODEL_BYTES_MAX, clock: deps.clock });
  return conclude(deps, { ...begun, run }, signal);
}

export const createRejoin =
  (deps: RejoinDeps, running: Pick<RunningCalls, "enter">): RejoinCall =>
  async (agent, command, signal): Promise<CallResult | undefined> => {
    // Also so that no row has two ends.
    const row = deps.left?.take(command.call);
    if (row === undefined) return undefined;
    const job = running.enter(agent.uid, signal);
    try {
      return await goOn(deps, { id: command.call, name: row.agent, row }, command, job?.signal ?? signal);
    } finally {
      job?.leave();
    }
  };
