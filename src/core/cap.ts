// Cuts text that is kept for people: what is left out is replaced by its size and hash.
import { createHash } from "node:crypto";

export const sha256 = (data: string | Uint8Array): string => createHash("sha256").update(data).digest("hex");

/** Longest text of all arguments of one audit row, in bytes. */
export const ARGS_BYTES_MAX = 4096;
/** What the note about a cut may take. */
const NOTE_BYTES = 112;
/** Arguments beyond this number are counted into the hash. */
const ARGS_MAX = 64;

/** At most `bytes` bytes of UTF-8, whole characters only. */
function head(text: string, bytes: number): string {
  const raw = Buffer.from(text);
  if (raw.length <= bytes) return text;
  let end = Math.max(0, bytes);
  while (end > 0 && ((raw[end] ?? 0) & 0xc0) === 0x80) end -= 1;
  return raw.subarray(0, end).toString();
}

/** Text of at most `bytes` bytes; a cut one ends with the hash and size of what was cut off. */
export function capText(text: string, bytes: number): string {
  const size = Buffer.byteLength(text);
  if (size <= bytes) return text;
  const kept = head(text, bytes - NOTE_BYTES);
  const rest = text.slice(kept.length);
  return `${kept}[cut: ${Buffer.byteLength(rest)} bytes, sha256 ${sha256(rest)}]`;
}

/** All arguments within ARGS_BYTES_MAX; capping twice changes nothing. */
export function capArgs(args: readonly string[]): readonly string[] {
  if (args.length <= ARGS_MAX && args.reduce((sum, arg) => sum + Buffer.byteLength(arg), 0) <= ARGS_BYTES_MAX) return args;
  const kept: string[] = [];
  let left = ARGS_BYTES_MAX - NOTE_BYTES;
  for (const [index, arg] of args.entries()) {
    const size = Buffer.byteLength(arg);
    if (kept.length < ARGS_MAX - 1 && size <= left) {
      kept.push(arg);
      left -= size;
      continue;
    }
    const part = left > NOTE_BYTES ? head(arg, left) : "";
    const rest = JSON.stringify([arg.slice(part.length), ...args.slice(index + 1)]);
    return [...kept, `${part}[cut: ${Buffer.byteLength(rest)} bytes, sha256 ${sha256(rest)}]`];
  }
  return kept;
}
