// The output of one command: taken by offset, read with back-pressure, acknowledged once it is safe.
import type { Incoming } from "./frames.ts";
import { ACK_BYTES, stirred, type Piece, type Send, type Spill, type State } from "./state.ts";

/** The supervisor keeps so many changes between the two streams: far fewer may wait for their acknowledgement. */
const PIECES_MAX = 256;

interface Reading {
  readonly state: State;
  readonly send: Send;
  readonly stop: () => void;
  /** So many pieces of the queue are safe already. */
  readonly past: number;
  readonly spill: Spill | undefined;
}

/** Acknowledged late: what a short command said can be had again by the next gateway. */
function taken({ state, send, spill }: Reading, piece: Piece): void {
  state.taken += piece.data.length;
  state.pieces += 1;
  if (spill !== undefined) state.unsafe.push(piece);
  if (state.killed || (state.taken - state.acked < Math.min(ACK_BYTES, state.window / 2) && state.pieces < PIECES_MAX)) return;
  spill?.append(state.unsafe);
  state.unsafe.length = state.pieces = 0;
  send({ type: "A", off: (state.acked = state.taken) });
}

export async function* readOutput(reading: Reading): AsyncGenerator<Piece, void> {
  const { state } = reading;
  let { past } = reading;
  try {
    for (;;) {
      const piece = state.queue.shift();
      if (piece !== undefined) {
        yield piece;
        if (past > 0) past -= 1;
        else taken(reading, piece);
      } else if (state.exit !== undefined || state.killed) {
        return;
      } else {
        await stirred(state);
      }
    }
  } finally {
    reading.stop();
  }
}

/** Throws when bytes are missing before it, or when it is more than was asked for. */
export function takeOutput(state: State, frame: Incoming): void {
  const skip = state.got - frame.off;
  if (skip < 0) throw new Error("output is missing");
  if (skip >= frame.data.length) return;
  const data = frame.data.subarray(skip);
  if (state.got + data.length - state.acked > state.window) throw new Error("more output than its window");
  state.got += data.length;
  if (state.killed) state.taken = state.got;
  else state.queue.push({ stream: frame.stream === 2 ? "stderr" : "stdout", data });
}
