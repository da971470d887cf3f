// What is known of one command between its frames, and who waits for that to change.
import type { ExecExit } from "../../src/core/sandbox.ts";
import type { Outgoing } from "./frames.ts";

export const WINDOW_BYTES = 1 << 20;
/** Acknowledged at the latest after so many bytes: the supervisor never waits for room while its reader keeps up. */
export const ACK_BYTES = 1 << 18;

export interface Piece {
  readonly stream: "stdout" | "stderr";
  readonly data: Uint8Array;
  /** Nobody looks at `data` any more. */
  readonly free?: () => void;
}

export type Send = (frame: Omit<Outgoing, "sess">) => void;

/** Where output goes before the supervisor is told that it is safe, so that the next gateway can have it all again. */
export interface Spill {
  append(pieces: readonly Piece[]): void;
  /** Standard input ended after so many bytes. */
  inputEnded(bytes: number): void;
}

export interface State {
  readonly queue: Piece[];
  /** What the supervisor keeps of it at most. */
  window: number;
  /** Bytes of output that came, that were taken by the reader, and that the supervisor knows to be safe. */
  got: number;
  taken: number;
  acked: number;
  /** Taken since the last acknowledgement: their number, and the pieces where they are to be spilled first, some of them no longer looked at. */
  pieces: number;
  readonly unsafe: { readonly piece: Piece; freed: boolean }[];
  /** Input: what is not known to be with the command, from `inDone` on. */
  readonly input: Buffer[];
  inSent: number;
  inDone: number;
  inEnded: boolean;
  killed: boolean;
  exit?: ExecExit;
  readonly wake: Set<() => void>;
}

export const stir = (state: State): void => {
  const waiting = [...state.wake];
  state.wake.clear();
  for (const wake of waiting) wake();
};
export const stirred = (state: State): Promise<void> => new Promise((resolve) => void state.wake.add(resolve));
