// One command of a resident supervisor: its output by offset, its input by credit, its exit. It outlives connections.
import type { ExecExit, ExecHandle, ExecTerminal } from "../../src/core/sandbox.ts";
import { parseExit } from "../exit.ts";
import { IN_MAX, type Incoming, type Known } from "./frames.ts";
import { createInput, trimInput } from "./input.ts";
import { readOutput, takeOutput } from "./output.ts";
import { stir, WINDOW_BYTES, type Piece, type Send, type Spill, type State } from "./state.ts";

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

export interface JobOptions {
  readonly cmd: number;
  /** Absent for one that runs already: `past` is the output that the gateway before this one kept. */
  readonly spec?: Buffer;
  readonly past?: readonly Piece[];
  readonly inputBytes?: number;
  readonly spill?: Spill;
  /** Whether there is a connection now is the sender's matter: what is lost is said again by `resume`. */
  readonly send: Send;
  /** `told`: the supervisor said the exit, so that it can forget the command. */
  readonly onEnd: (told: boolean) => void;
}

function begin({ past = [], inputBytes = 0 }: JobOptions): State {
  const bytes = past.reduce((sum, { data }) => sum + data.length, 0);
  const done = { inSent: inputBytes, inDone: inputBytes, inEnded: false, killed: false, wake: new Set<() => void>() };
  const none = { pieces: 0, unsafe: [], input: [], window: WINDOW_BYTES };
  // What was kept is safe, but its reader is new and takes it once more.
  return { queue: [...past], got: bytes, taken: bytes, acked: bytes, ...none, ...done };
}

function sendSpec(send: Send, spec: Buffer): void {
  for (let at = 0; at < spec.length; at += IN_MAX) send({ type: "E", off: at, data: spec.subarray(at, at + IN_MAX) });
}

function sendInput(state: State, send: Send, known: number): void {
  let off = state.inDone;
  for (const part of state.input) {
    if (off + part.length > known) send({ type: "I", off, data: part });
    off += part.length;
  }
  if (state.inEnded) send({ type: "Z", off: state.inSent });
}

const word = (value: number): Buffer => {
  const data = Buffer.alloc(4);
  data.writeUInt32LE(value);
  return data;
};

function controls(state: State, send: Send): Pick<ExecHandle, "kill" | "signal" | "resize"> {
  const runs = (): boolean => state.exit === undefined && !state.killed;
  return {
    kill() {
      if (!runs()) return;
      state.killed = true;
      state.queue.length = state.unsafe.length = 0;
      state.taken = state.acked = state.got;
      send({ type: "K" });
      send({ type: "A", off: state.got });
      stir(state);
    },
    signal: (number) => void (runs() && send({ type: "S", data: word(number) })),
    resize: ({ rows, columns }: ExecTerminal) =>
      void (runs() && send({ type: "W", data: word(((rows & 0xffff) | (columns << 16)) >>> 0) })),
  };
}

export function createJob(options: JobOptions): Job {
  const { cmd, spec, spill } = options;
  const state = begin(options);
  const started = Promise.withResolvers<void>();
  const exit = Promise.withResolvers<ExecExit>();
  const send: Send = (frame) => options.send({ ...frame, cmd });
  const settle = (end: ExecExit, told: boolean): void => {
    if (state.exit !== undefined) return;
    state.exit = state.killed ? { kind: "cancelled" } : end;
    exit.resolve(state.exit);
    started.resolve();
    options.onEnd(told);
    stir(state);
  };
  const control = controls(state, send);
  const output = readOutput({ state, send, stop: () => control.kill(), past: options.past?.length ?? 0, spill });
  return {
    cmd,
    started: started.promise,
    ended: () => state.exit !== undefined,
    waiting: () => state.queue.length > 0,
    handle: { output, exit: exit.promise, ...control, ...createInput(state, send, spill) },
    take(frame) {
      if (frame.type === "e") {
        if (frame.off > 0) state.window = Math.min(frame.off, WINDOW_BYTES);
        started.resolve();
      }
      if (frame.type === "o") takeOutput(state, frame);
      if (frame.type === "i") trimInput(state, frame.off);
      // Nobody reads what a command that is being ended still says; its ring must not stay full.
      if (frame.type === "o" && state.killed) send({ type: "A", off: (state.acked = state.got) });
      if (frame.type === "x") {
        if (frame.off !== state.got) throw new Error("output is missing");
        settle(parseExit(frame.data.toString("utf8")), true);
      }
      stir(state);
    },
    resume(known, last) {
      if (known === undefined && (cmd <= last || spec === undefined))
        return settle({ kind: "lost", reason: "the sandbox no longer knows the command" }, false);
      if (known === undefined && spec !== undefined) sendSpec(send, spec);
      else send({ type: "R", off: state.got });
      if (state.killed) send({ type: "K" });
      if (state.acked > (known?.acked ?? 0)) send({ type: "A", off: state.acked });
      sendInput(state, send, known?.stdin ?? 0);
    },
    lost(reason) {
      if (state.exit !== undefined) return;
      // Should it still run, it is to end, and its ring must not hold it up.
      send({ type: "K" });
      send({ type: "A", off: state.got });
      settle({ kind: "lost", reason }, false);
    },
  };
}
