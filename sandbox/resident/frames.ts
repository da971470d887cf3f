// Frames of the supervisor's protocol (schemas/protocol.json): made for it, and found again in what comes from it.
import { crc32 } from "node:zlib";

export const HEAD = 32;
/** Longest payload toward the supervisor, and from it. */
export const IN_MAX = 16_384;
export const OUT_MAX = 65_536;
/** What a cut frame of an older client could still swallow. */
export const PAD = Buffer.alloc(HEAD + IN_MAX);
const MAGIC = Buffer.from("BEG1", "latin1");
const NONE = Buffer.alloc(0);
const ZERO = Buffer.alloc(4);

export type ToType = "H" | "E" | "I" | "Z" | "A" | "R" | "S" | "W" | "K" | "F" | "P" | "D";

export interface Outgoing {
  readonly type: ToType;
  readonly sess: number;
  readonly cmd?: number;
  readonly off?: number;
  readonly data?: Uint8Array;
}

export function encode({ type, sess, cmd = 0, off = 0, data = NONE }: Outgoing): Buffer {
  const frame = Buffer.alloc(HEAD + data.length);
  MAGIC.copy(frame);
  frame[4] = type.charCodeAt(0);
  frame.writeUInt32LE(cmd, 8);
  frame.writeUInt32LE(data.length, 12);
  frame.writeBigUInt64LE(BigInt(off), 16);
  frame.writeUInt32LE(sess, 24);
  frame.set(data, HEAD);
  frame.writeUInt32LE(crc32(frame), 28);
  return frame;
}

/** One frame from the supervisor. `data` is a view of what was read. */
export interface Incoming {
  readonly type: string;
  readonly stream: number;
  readonly cmd: number;
  readonly off: number;
  readonly sess: number;
  readonly data: Buffer;
  /** Of output whose memory can be had back at once: nobody may look at `data` any more. */
  readonly free?: () => void;
}

const sound = (head: Buffer): boolean =>
  head.subarray(0, 4).equals(MAGIC) &&
  head.readUInt32LE(12) <= OUT_MAX &&
  crc32(ZERO, crc32(head.subarray(0, 28))) === head.readUInt32LE(28);

const frameAt = (bytes: Buffer): Incoming => ({
  type: String.fromCharCode(bytes[4] ?? 0),
  stream: bytes[5] ?? 0,
  cmd: bytes.readUInt32LE(8),
  off: Number(bytes.readBigUInt64LE(16)),
  sess: bytes.readUInt32LE(24),
  data: bytes.subarray(HEAD, HEAD + bytes.readUInt32LE(12)),
});

const isOutput = (head: Buffer): boolean => head[4] === 0x6f;

/** Memory of less is not worth the trouble. */
const LENT_MIN = 16_384;

/** Lends each frame of output its part of `chunk`, which is let go of when all have been given back: sooner than its collector would. */
function lend(frames: Incoming[], chunk: Uint8Array): readonly Incoming[] {
  const { buffer } = chunk;
  if (!(buffer instanceof ArrayBuffer) || chunk.length < LENT_MIN || chunk.length !== buffer.byteLength) return frames;
  const lent = new Set<Incoming>();
  for (const [at, frame] of frames.entries()) {
    if (frame.data.buffer !== buffer) continue;
    // All others are small, and are looked at after output that nobody wants was given back at once.
    if (frame.type !== "o") frames[at] = { ...frame, data: Buffer.from(frame.data) };
    else {
      lent.add(frame);
      frames[at] = { ...frame, free: () => void (lent.delete(frame) && lent.size === 0 && buffer.transfer(0)) };
    }
  }
  return frames;
}

/**
 * Takes bytes as they come and answers frames: output in the parts in which it came, uncopied, all others whole. Everything before the
 * hello or refusal that repeats `nonce` belongs to an older connection and is thrown away; after it every byte is a frame's, or this throws.
 */
export function createReader(nonce: Buffer): (chunk: Uint8Array) => readonly Incoming[] {
  let kept: Buffer = NONE;
  let open = false;
  /** The frame of output that is under way, what of it has come, and what has not. */
  let output: Incoming | undefined;
  let left = 0;
  const isOurHello = (): boolean => sound(kept) && (kept[4] === 0x68 || kept[4] === 0x66) && kept.subarray(HEAD, HEAD + 16).equals(nonce);
  const seek = (): boolean => {
    for (;;) {
      const at = kept.indexOf(MAGIC);
      // A magic may be cut at the end of what came.
      if (at < 0) kept = kept.subarray(Math.max(0, kept.length - 3));
      else if (at > 0) kept = kept.subarray(at);
      if (at < 0 || kept.length < HEAD + 16) return false;
      if (isOurHello()) return true;
      kept = kept.subarray(4);
    }
  };
  const part = (of: Incoming): Incoming => {
    const data = kept.subarray(0, left);
    kept = kept.subarray(data.length);
    left -= data.length;
    output = left > 0 ? { ...of, off: of.off + data.length } : undefined;
    return { ...of, data };
  };
  const next = (): Incoming | undefined => {
    if (output !== undefined) return kept.length === 0 ? undefined : part(output);
    if (kept.length < HEAD) return undefined;
    if (!sound(kept)) throw new Error("the supervisor's frames are broken");
    const frame = frameAt(kept);
    const size = kept.readUInt32LE(12);
    if (isOutput(kept) && size > 0) {
      kept = kept.subarray(HEAD);
      output = { ...frame, data: NONE };
      left = size;
      return next();
    }
    if (frame.data.length < size) return undefined;
    kept = kept.subarray(HEAD + size);
    return frame;
  };
  const add = (chunk: Uint8Array): void => {
    const came = Buffer.from(chunk.buffer, chunk.byteOffset, chunk.byteLength);
    const lacks = HEAD - kept.length;
    if (kept.length === 0) kept = came;
    else if (!open || lacks <= 0 || came.length <= lacks) kept = Buffer.concat([kept, came]);
    else {
      // Only the head of a frame is put together; what follows it need not be copied where it is output.
      const head = Buffer.concat([kept, came.subarray(0, lacks)]);
      if (!isOutput(head) || head.readUInt32LE(12) === 0) kept = Buffer.concat([kept, came]);
      else {
        if (!sound(head)) throw new Error("the supervisor's frames are broken");
        left = head.readUInt32LE(12);
        output = frameAt(head);
        kept = came.subarray(lacks);
      }
    }
  };
  return (chunk) => {
    add(chunk);
    if (!open && !(open = seek())) return [];
    const frames: Incoming[] = [];
    for (let frame = next(); frame !== undefined; frame = next()) frames.push(frame);
    // What waits for its rest must not be a part of what is lent.
    if (kept.length > 0) kept = Buffer.from(kept);
    return lend(frames, chunk);
  };
}

/** The only frame that may come from somebody who is not known yet, whole. */
export const WHO = HEAD + 16;

/** The secret that it shows; undefined for any other bytes. */
export function readWho(bytes: Buffer): Buffer | undefined {
  if (bytes.length !== WHO || !sound(bytes) || bytes[4] !== 0x77 || bytes.readUInt32LE(12) !== WHO - HEAD) return undefined;
  return bytes.subarray(HEAD);
}

export interface Known {
  readonly cmd: number;
  readonly dead: boolean;
  readonly acked: number;
  readonly total: number;
  readonly stdin: number;
}

export interface Hello {
  /** Hex: changes when the sandbox was started anew. */
  readonly boot: string;
  readonly last: number;
  readonly known: readonly Known[];
}

const ROW = 36;

/** Throws when it does not hold what it says. */
export function readHello(data: Buffer): Hello {
  const count = data.length >= 40 ? data.readUInt32LE(36) : -1;
  if (count < 0 || data.length !== 40 + count * ROW) throw new Error("the supervisor's hello is broken");
  const row = (at: number): Known => ({
    cmd: data.readUInt32LE(at),
    dead: data[at + 4] === 1,
    acked: Number(data.readBigUInt64LE(at + 12)),
    total: Number(data.readBigUInt64LE(at + 20)),
    stdin: Number(data.readBigUInt64LE(at + 28)),
  });
  return {
    boot: data.toString("hex", 16, 32),
    last: data.readUInt32LE(32),
    known: Array.from({ length: count }, (_, i) => row(40 + i * ROW)),
  };
}

export function helloBody(epoch: number, sess: number, nonce: Buffer): Buffer {
  const body = Buffer.alloc(44);
  body.writeBigUInt64LE(BigInt(epoch), 0);
  body.writeUInt32LE(sess, 8);
  nonce.copy(body, 12);
  return body;
}

const SPEC_HEAD = 24;
export const SPEC_MAX = 1_048_576;

export interface Spec {
  readonly cwd: string;
  readonly command: readonly string[];
  readonly env: readonly string[];
  readonly timeoutMs: number;
  readonly windowBytes: number;
  readonly terminal?: { readonly rows: number; readonly columns: number } | undefined;
}

const TERMINAL = 1;

/** The words of a command; none may hold a NUL. */
export function encodeSpec(spec: Spec): Buffer {
  const words = Buffer.from([spec.cwd, ...spec.command, ...spec.env].map((word) => `${word}\0`).join(""));
  const head = Buffer.alloc(SPEC_HEAD);
  head.writeUInt32LE(SPEC_HEAD + words.length, 0);
  head.writeUInt32LE(Math.min(0xffff_ffff, spec.timeoutMs), 4);
  head.writeUInt32LE(spec.windowBytes, 8);
  if (spec.terminal !== undefined) {
    head.writeUInt16LE(TERMINAL, 12);
    head.writeUInt16LE(spec.terminal.rows & 0xffff, 14);
    head.writeUInt16LE(spec.terminal.columns & 0xffff, 16);
  }
  head.writeUInt16LE(spec.command.length, 18);
  head.writeUInt16LE(spec.env.length, 20);
  return Buffer.concat([head, words]);
}
