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

/** Of a piece of `bytes` that its reader is done with. Acknowledged late: what a short command said can be had again by the next gateway. */
function taken({ state, send, spill }: Reading, bytes: number): void {
  state.taken += bytes;
  state.pieces += 1;
  if (state.killed || (state.taken - state.acked < Math.min(ACK_BYTES, state.window / 2) && state.pieces < PIECES_MAX)) return;
  spill?.append(state.unsafe.map(({ piece }) => piece));
  for (const { piece, freed } of state.unsafe) if (freed) piece.free?.();
  state.unsafe.length = state.pieces = 0;
  send({ type: "A", off: (state.acked = state.taken) });
}

/** What its reader gets of a piece: where it is to be spilled yet, it is not free before it was. */
function shown({ state, spill }: Reading, piece: Piece): Piece {
  if (spill === undefined) return piece;
  const one = { piece, freed: false };
  state.unsafe.push(one);
  return piece.free === undefined ? piece : { ...piece, free: () => void (one.freed = true) };
}

export async function* readOutput(reading: Reading): AsyncGenerator<Piece, void> {
  const { state } = reading;
  let { past } = reading;
  try {
    for (;;) {
      const piece = state.queue.shift();
      if (piece !== undefined) {
        const bytes = piece.data.length;
        const isPast = past > 0;
        yield isPast ? piece : shown(reading, piece);
        if (isPast) past -= 1;
        else taken(reading, bytes);
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
  if (skip >= frame.data.length) return frame.free?.();
  const data = frame.data.subarray(skip);
  if (state.got + data.length - state.acked > state.window) throw new Error("more output than its window");
  state.got += data.length;
  if (state.killed) {
    state.taken = state.got;
    return frame.free?.();
  }
  state.queue.push({ stream: frame.stream === 2 ? "stderr" : "stdout", data, ...(frame.free && { free: frame.free }) });
}
