// One running command: frames over the engine's hijacked stream, both ways with back-pressure.
import type { Duplex } from "node:stream";
import { BeigeError } from "../../src/core/errors.ts";
import type { ExecExit, ExecHandle } from "../../src/core/sandbox.ts";
import type { Clock } from "../../src/core/world.ts";
import { parseExit } from "../exit.ts";
import { createDemux, createGuestFrames, frameIn, type Piece } from "./frames.ts";

/** Output that waits for its reader: the stream is paused over the first and goes on under the second. */
const WAITING_MAX = 262_144;
const WAITING_LOW = 65_536;
const FRAME_MAX = 65_536;
/** What the supervisor gets to end the tree before the connection is cut, which ends it too. */
const CANCEL_MS = 700;
/** Past the limit the guest has to answer within this. */
const LATE_MS = 5000;
const DIAGNOSTIC_MAX = 2048;

export interface CommandOptions {
  readonly stream: Duplex;
  readonly timeoutMs: number;
  readonly clock: Clock;
  /** Says why the stream may have ended early: what the engine knows of the exec and its container. Bounded in time; never rejects. */
  readonly why: () => Promise<string>;
  readonly signal?: AbortSignal;
}

interface State {
  readonly queue: Piece[];
  waiting: number;
  credit: number;
  /** No more output will be handed out. */
  closed: boolean;
  killed: boolean;
  exited: boolean;
  inputEnded: boolean;
  diagnostic: string;
  readonly wake: Set<() => void>;
}

function stir(state: State): void {
  const waiting = [...state.wake];
  state.wake.clear();
  for (const wake of waiting) wake();
}
const stirred = (state: State): Promise<void> =>
  new Promise((resolve) => {
    state.wake.add(resolve);
  });

/** Sends input in frames, never more than the guest has room for, one call after the other. */
function createInput(stream: Duplex, state: State): Pick<ExecHandle, "write" | "end"> {
  let turn: Promise<void> = Promise.resolve();
  const gone = (): BeigeError => new BeigeError("unavailable", "the command is gone, its standard input takes nothing more");
  const push = (frame: Buffer): Promise<void> =>
    new Promise((resolve, reject) => {
      stream.write(frame, (error) => {
        if (error) reject(gone());
        else resolve();
      });
    });
  const send = async (data: Uint8Array): Promise<void> => {
    for (let at = 0; at < data.length;) {
      while (state.credit === 0 && !state.exited && !state.killed) await stirred(state);
      if (state.exited || state.killed || state.inputEnded || stream.destroyed) throw gone();
      const part = data.subarray(at, at + Math.min(FRAME_MAX, state.credit));
      state.credit -= part.length;
      at += part.length;
      await push(frameIn(0, part));
    }
  };
  const finish = async (): Promise<void> => {
    if (state.inputEnded || state.exited || state.killed || stream.destroyed) return;
    state.inputEnded = true;
    await push(frameIn(1)).catch(() => undefined);
  };
  const queued = (work: () => Promise<void>): Promise<void> => {
    const mine = turn.then(work);
    turn = mine.catch(() => undefined);
    return mine;
  };
  return { write: (data) => queued(() => send(data)), end: () => queued(finish) };
}

async function* readOutput(stream: Duplex, state: State, kill: () => void): AsyncGenerator<Piece, void> {
  try {
    for (;;) {
      const piece = state.queue.shift();
      if (piece !== undefined) {
        state.waiting -= piece.data.length;
        if (state.waiting < WAITING_LOW) stream.resume();
        yield piece;
      } else if (state.closed) {
        return;
      } else {
        await stirred(state);
      }
    }
  } finally {
    kill();
  }
}

const freshState = (): State => ({
  queue: [],
  waiting: 0,
  credit: 0,
  closed: false,
  killed: false,
  exited: false,
  inputEnded: false,
  diagnostic: "",
  wake: new Set(),
});

/** Resolves once the guest has spoken; rejects when the stream ends before that, with what came instead. */
export function openCommand(options: CommandOptions): { readonly handle: ExecHandle; readonly started: Promise<void> } {
  const { stream, clock, signal } = options;
  const state = freshState();
  const started = Promise.withResolvers<void>();
  const exit = Promise.withResolvers<ExecExit>();
  started.promise.catch(() => undefined);
  const timers = new Set<{ cancel(): void }>();
  const settle = (end: ExecExit): void => {
    if (state.exited) return;
    state.exited = true;
    state.closed = true;
    for (const timer of timers) timer.cancel();
    signal?.removeEventListener("abort", kill);
    exit.resolve(state.killed ? { kind: "cancelled" } : end);
    stream.destroy();
    stir(state);
  };
  const kill = (): void => {
    if (state.exited || state.killed) return;
    state.killed = true;
    state.closed = true;
    state.queue.length = 0;
    state.waiting = 0;
    stream.write(frameIn(2), () => undefined);
    stream.resume();
    timers.add(clock.after(CANCEL_MS, () => stream.destroy()));
    stir(state);
  };
  const late = (): void => {
    // A slow reader holds back the exit too; that is not the guest's silence.
    if (stream.isPaused()) timers.add(clock.after(LATE_MS, late));
    else settle({ kind: "lost", reason: "the sandbox did not answer after the command's limit" });
  };
  timers.add(clock.after(options.timeoutMs + LATE_MS, late));
  follow(options, state, {
    started: started.resolve,
    settle,
    ended: (why) => {
      started.reject(new BeigeError("unavailable", `the command did not start: ${state.diagnostic.trim() || why}`));
      settle({ kind: "lost", reason: why });
    },
  });
  if (signal?.aborted) kill();
  else signal?.addEventListener("abort", kill, { once: true });
  const handle: ExecHandle = { output: readOutput(stream, state, kill), exit: exit.promise, kill, ...createInput(stream, state) };
  return { handle, started: started.promise };
}

interface Reports {
  started(): void;
  settle(exit: ExecExit): void;
  ended(why: string): void;
}

/** Feeds the state from the stream until it ends. */
function follow(options: CommandOptions, state: State, report: Reports): void {
  const { stream } = options;
  const demux = createDemux();
  const frames = createGuestFrames();
  const take = (data: Uint8Array): void => {
    for (const frame of frames(data)) {
      if (frame.type === "exit") {
        report.settle(parseExit(frame.json));
      } else if (frame.type === "credit") {
        state.credit += frame.bytes;
        report.started();
      } else if (!state.killed && !state.exited) {
        state.queue.push(frame.piece);
        state.waiting += frame.piece.data.length;
      }
    }
  };
  const note = (data: Uint8Array): void => {
    state.diagnostic = (state.diagnostic + Buffer.from(data).toString("utf8")).slice(0, DIAGNOSTIC_MAX);
  };
  stream.on("data", (chunk: Buffer) => {
    try {
      for (const piece of demux(chunk)) {
        if (piece.stream === "stderr") note(piece.data);
        else take(piece.data);
      }
    } catch {
      // Not the guest: an engine that could not start it writes its reason as plain text.
      note(chunk);
      stream.destroy();
    }
    if (state.waiting > WAITING_MAX && !state.killed) stream.pause();
    stir(state);
  });
  let over = false;
  const end = (): void => {
    if (over || state.exited) return;
    over = true;
    void options.why().then((why) => report.ended(why));
  };
  stream.on("end", end).on("close", end).on("error", end);
}
