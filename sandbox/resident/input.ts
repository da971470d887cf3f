// The standard input of one command: sent by credit, kept until the command has it.
import { BeigeError } from "../../src/core/errors.ts";
import type { ExecHandle } from "../../src/core/sandbox.ts";
import { IN_MAX } from "./frames.ts";
import { stirred, type Send, type Spill, type State } from "./state.ts";

const STDIN_MAX = 65_536;

const gone = (): BeigeError => new BeigeError("unavailable", "the command is gone, its standard input takes nothing more");

export function createInput(state: State, send: Send, spill?: Spill): Pick<ExecHandle, "write" | "end"> {
  let turn: Promise<void> = Promise.resolve();
  const push = async (data: Uint8Array): Promise<void> => {
    for (let at = 0; at < data.length;) {
      while (state.inSent - state.inDone >= STDIN_MAX && state.exit === undefined && !state.killed) await stirred(state);
      if (state.exit !== undefined || state.killed || state.inEnded) throw gone();
      const part = Buffer.from(data.subarray(at, at + Math.min(IN_MAX, STDIN_MAX - (state.inSent - state.inDone))));
      send({ type: "I", off: state.inSent, data: part });
      state.input.push(part);
      state.inSent += part.length;
      at += part.length;
    }
  };
  const finish = (): void => {
    if (state.inEnded || state.exit !== undefined || state.killed) return;
    state.inEnded = true;
    spill?.inputEnded(state.inSent);
    send({ type: "Z", off: state.inSent });
  };
  const queued = (work: () => Promise<void> | void): Promise<void> => {
    const mine = turn.then(work);
    turn = mine.catch(() => undefined);
    return mine;
  };
  return { write: (data) => queued(() => push(data)), end: () => queued(finish) };
}

/** What the command has taken is not kept any longer. */
export function trimInput(state: State, done: number): void {
  while (state.input.length > 0 && state.inDone + (state.input[0]?.length ?? 0) <= done) state.inDone += state.input.shift()?.length ?? 0;
  const first = state.input[0];
  if (first === undefined || done <= state.inDone) return;
  state.input[0] = first.subarray(done - state.inDone);
  state.inDone = done;
}
