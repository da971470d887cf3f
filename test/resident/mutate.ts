// Streams of frames that are almost right: cut, mixed, repeated, with fields that lie, under checksums that are mended or are not.
import { crc32 } from "node:zlib";

const HEAD = 32;
const ZERO = Buffer.alloc(4);
/** Values at which lengths, offsets and counters break. */
const EDGES = [0, 1, 2, 31, 32, 0x7f, 0xff, 0x3fff, 0x4000, 0x4001, 0xffff, 0x1_0000, 0x10_0000, 0x7fff_ffff, 0x8000_0000, 0xffff_ffff];

export interface Dice {
  /** A whole number from 0 to below `n`. */
  (n: number): number;
}

/** The same numbers for the same seed. */
export function dice(seed: number): Dice {
  let state = seed >>> 0;
  return (n) => {
    state = (state + 0x6d2b79f5) >>> 0;
    let t = Math.imul(state ^ (state >>> 15), state | 1);
    t ^= t + Math.imul(t ^ (t >>> 7), t | 61);
    return Math.floor((((t ^ (t >>> 14)) >>> 0) / 0x1_0000_0000) * n);
  };
}

/** Frames of a recorded stream, each with its payload; whatever is no frame is left out. */
export function framesOf(bytes: Buffer): Buffer[] {
  const found: Buffer[] = [];
  for (let at = bytes.indexOf("BEG1"); at >= 0 && at + HEAD <= bytes.length; at = bytes.indexOf("BEG1", at)) {
    const end = at + HEAD + bytes.readUInt32LE(at + 12);
    if (end > bytes.length) break;
    found.push(bytes.subarray(at, end));
    at = end;
  }
  return found;
}

/** Which part the checksum covers: all of a frame to the supervisor, the head alone of one from it. */
export type Covers = "all" | "head";

export function mend(frame: Buffer, covers: Covers): Buffer {
  if (frame.length < HEAD) return frame;
  const head = crc32(ZERO, crc32(frame.subarray(0, 28)));
  frame.writeUInt32LE(covers === "all" ? crc32(frame.subarray(HEAD), head) : head, 28);
  return frame;
}

function field(frame: Buffer, roll: Dice): void {
  const edge = EDGES[roll(EDGES.length)] ?? 0;
  const kind = roll(6);
  if (kind === 0) frame[4] = roll(2) === 0 ? roll(256) : "HEIZARSWKFPDheioxqpfw".charCodeAt(roll(21));
  else if (kind === 1) frame[5] = roll(256);
  else if (kind === 2) frame.writeUInt32LE(roll(2) === 0 ? edge : roll(8), 8);
  else if (kind === 3) frame.writeUInt32LE(roll(4) === 0 ? edge : Math.max(0, frame.length - HEAD - roll(9)), 12);
  else if (kind === 4) frame.writeBigUInt64LE(roll(8) === 0 ? 0xffff_ffff_ffff_fff0n : BigInt(roll(2) === 0 ? edge : roll(400)), 16);
  else if (frame.length > HEAD + 4) frame.writeUInt32LE(edge, HEAD + roll(frame.length - HEAD - 3));
}

function bend(frame: Buffer, roll: Dice, covers: Covers): Buffer {
  let copy = Buffer.from(frame);
  const kind = roll(5);
  if (kind === 0) copy[roll(copy.length)] = roll(256);
  else if (kind === 1) copy = copy.subarray(0, roll(copy.length + 1));
  else if (kind === 2) copy = Buffer.concat([copy.subarray(0, HEAD), Buffer.alloc(roll(3) === 0 ? 16_384 : roll(300), roll(256))]);
  else for (let i = 0; i <= roll(3); i++) field(copy, roll);
  if (kind === 2) copy.writeUInt32LE(copy.length - HEAD, 12);
  return roll(4) === 0 ? copy : mend(copy, covers);
}

/** Another stream like these frames. */
export function mutate(frames: readonly Buffer[], roll: Dice, covers: Covers): Buffer {
  const out: Buffer[] = [];
  for (let i = 0; i < frames.length; i++) {
    const frame = frames[roll(12) === 0 ? roll(frames.length) : i] ?? Buffer.alloc(0);
    const fate = roll(10);
    if (fate === 0) continue;
    if (fate === 1) out.push(frame, frame);
    else if (fate < 5) out.push(bend(frame, roll, covers));
    else out.push(frame);
    if (roll(15) === 0) out.push(Buffer.alloc(roll(60), roll(256)));
  }
  return Buffer.concat(out);
}

export function* cutUp(bytes: Buffer, roll: Dice): Generator<Buffer> {
  for (let at = 0; at < bytes.length;) {
    const size = 1 + roll(roll(3) === 0 ? 40 : 4000);
    yield bytes.subarray(at, at + size);
    at += size;
  }
}
