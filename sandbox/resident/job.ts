// One command of a resident supervisor: its output by offset, its input by credit, its exit. It outlives connections.
import { BeigeError } from "../../src/core/errors.ts";
import type { ExecExit, ExecHandle } from "../../src/core/sandbox.ts";
import { parseExit } from "../exit.ts";
import { IN_MAX, type Incoming, type Known, type Outgoing } from "./frames.ts";

export const WINDOW_BYTES = 262_144;
/** Acknowledged late: what a short command said can be had again by the next gateway. */
const ACK_BYTES = WINDOW_BYTES / 2;
const STDIN_MAX = 65_536;

type Piece = { readonly stream: "stdout" | "stderr"; readonly data: Uint8Array };
export type Send = (frame: Omit<Outgoing, "sess">) => void;

export interface Job {
  readonly cmd: number;
  readonly handle: ExecHandle;
  /** The supervisor has it. */
  readonly started: Promise<void>;
  /** A frame for it. Throws when its bytes do not go on from those that are there. */
  take(frame: Incoming): void;
  /** The connection is new: says what the supervisor needs to go on, or that the command is lost. */
  resume(known: Known | undefined, last: number): void;
  lost(reason: string): void;
  readonly ended: () => boolean;
  /** Output waits for its reader: that the exit has not come is not the supervisor's silence. */
  readonly waiting: () => boolean;
}

interface State {
  readonly queue: Piece[];
  /** Bytes of output that came, that were taken by the reader, and that the supervisor knows to be safe. */
  got: number;
  taken: number;
  acked: number;
  /** Input: what is not known to be with the command, from `inDone` on. */
  input: Buffer[];
  inSent: number;
  inDone: number;
  inEnded: boolean;
  killed: boolean;
  exit?: ExecExit;
  readonly wake: Set<() => void>;
}

const stir = (state: State): void => {
  const waiting = [...state.wake];
  state.wake.clear();
  for (const wake of waiting) wake();
};
const stirred = (state: State): Promise<void> => new Promise((resolve) => void state.wake.add(resolve));

async function* readOutput(state: State, send: Send, kill: () => void): AsyncGenerator<Piece, void> {
  try {
    for (;;) {
      const piece = state.queue.shift();
      if (piece !== undefined) {
        yield piece;
        state.taken += piece.data.length;
        if (state.taken - state.acked >= ACK_BYTES) send({ type: "A", off: (state.acked = state.taken) });
      } else if (state.exit !== undefined || state.killed) {
        return;
      } else {
        await stirred(state);
      }
    }
  } finally {
    kill();
  }
}

const gone = (): BeigeError => new BeigeError("unavailable", "the command is gone, its standard input takes nothing more");

function createInput(state: State, send: Send): Pick<ExecHandle, "write" | "end"> {
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
function trimInput(state: State, done: number): void {
  while (state.input.length > 0 && state.inDone + (state.input[0]?.length ?? 0) <= done) state.inDone += state.input.shift()?.length ?? 0;
  const first = state.input[0];
  if (first === undefined || done <= state.inDone) return;
  state.input[0] = first.subarray(done - state.inDone);
  state.inDone = done;
}

function takeOutput(state: State, frame: Incoming): void {
  const skip = state.got - frame.off;
  if (skip < 0) throw new Error("output is missing");
  if (skip >= frame.data.length) return;
  const data = frame.data.subarray(skip);
  state.got += data.length;
  if (state.killed) state.taken = state.got;
  else state.queue.push({ stream: frame.stream === 2 ? "stderr" : "stdout", data });
}

export interface JobOptions {
  readonly cmd: number;
  readonly spec: Buffer;
  /** Whether there is a connection now is the sender's matter: what is lost is said again by `resume`. */
  readonly send: Send;
  readonly onEnd: () => void;
}

function sendSpec(send: Send, spec: Buffer): void {
  for (let at = 0; at < spec.length; at += IN_MAX) send({ type: "E", off: at, data: spec.subarray(at, at + IN_MAX) });
}

export function createJob({ cmd, spec, send: sendAny, onEnd }: JobOptions): Job {
  const state: State = {
    queue: [],
    got: 0,
    taken: 0,
    acked: 0,
    input: [],
    inSent: 0,
    inDone: 0,
    inEnded: false,
    killed: false,
    wake: new Set(),
  };
  const started = Promise.withResolvers<void>();
  const exit = Promise.withResolvers<ExecExit>();
  const send: Send = (frame) => sendAny({ ...frame, cmd });
  const settle = (end: ExecExit): void => {
    if (state.exit !== undefined) return;
    state.exit = state.killed ? { kind: "cancelled" } : end;
    exit.resolve(state.exit);
    started.resolve();
    onEnd();
    stir(state);
  };
  const kill = (): void => {
    if (state.exit !== undefined || state.killed) return;
    state.killed = true;
    state.queue.length = 0;
    state.taken = state.acked = state.got;
    send({ type: "K" });
    send({ type: "A", off: state.got });
    stir(state);
  };
  return {
    cmd,
    started: started.promise,
    ended: () => state.exit !== undefined,
    waiting: () => state.queue.length > 0,
    handle: { output: readOutput(state, send, kill), exit: exit.promise, kill, ...createInput(state, send) },
    take(frame) {
      if (frame.type === "e") started.resolve();
      if (frame.type === "o") takeOutput(state, frame);
      if (frame.type === "i") trimInput(state, frame.off);
      // Nobody reads what a command that is being ended still says; its ring must not stay full.
      if (frame.type === "o" && state.killed) send({ type: "A", off: state.got });
      if (frame.type === "x") {
        if (frame.off !== state.got) throw new Error("output is missing");
        settle(parseExit(frame.data.toString("utf8")));
        send({ type: "F" });
      }
      stir(state);
    },
    resume(known, last) {
      if (known === undefined && cmd <= last) return settle({ kind: "lost", reason: "the sandbox no longer knows the command" });
      if (known === undefined) sendSpec(send, spec);
      else send({ type: "R", off: state.got });
      if (state.killed) send({ type: "K" });
      let off = state.inDone;
      for (const part of state.input) {
        if (off + part.length > (known?.stdin ?? 0)) send({ type: "I", off, data: part });
        off += part.length;
      }
      if (state.inEnded) send({ type: "Z", off: state.inSent });
    },
    lost: (reason) => settle({ kind: "lost", reason }),
  };
}
