// The size of a client's terminal, as clients of Kubernetes tell it: at once when they have one, and again at every change.
import type { ExecTerminal } from "../../core/sandbox.ts";

/** Clients say their size as soon as they are connected; those that never do get the usual one after this long. */
export const SIZE_WAIT_MS = 250;
export const USUAL: ExecTerminal = { rows: 24, columns: 80 };
const SIDE_MAX = 10_000;
const FRAME_MAX_BYTES = 256;

/** Undefined for what is no size: a terminal goes on as it is then. */
export function sizeOf(data: Uint8Array): ExecTerminal | undefined {
  if (data.length > FRAME_MAX_BYTES) return undefined;
  try {
    const said = JSON.parse(Buffer.from(data).toString("utf8")) as { readonly Width?: unknown; readonly Height?: unknown } | null;
    const [columns, rows] = [side(said?.Width), side(said?.Height)];
    return columns === undefined || rows === undefined ? undefined : { rows, columns };
  } catch {
    return undefined;
  }
}

const side = (value: unknown): number | undefined =>
  typeof value === "number" && Number.isInteger(value) && value >= 1 && value <= SIDE_MAX ? value : undefined;

export interface Sizes {
  /** A frame of the channel. */
  take(data: Uint8Array): void;
  /** The first size that came; it may never come. */
  readonly first: Promise<ExecTerminal>;
  onSize(listener: (size: ExecTerminal) => void): void;
}

export function createSizes(): Sizes {
  let last: ExecTerminal | undefined;
  let listener: ((size: ExecTerminal) => void) | undefined;
  const first = Promise.withResolvers<ExecTerminal>();
  return {
    first: first.promise,
    take(data) {
      const size = sizeOf(data);
      if (size === undefined || (size.rows === last?.rows && size.columns === last.columns)) return;
      last = size;
      first.resolve(size);
      listener?.(size);
    },
    onSize(heard) {
      listener = heard;
      // What came while the command was being started.
      if (last !== undefined) heard(last);
    },
  };
}
