// Hides a secret in an answer that repeats it: the bytes keep their number, so that lengths stay true.
import { Transform } from "node:stream";

const STAR = 42;
/** Shorter values would hide half of any text. */
const LEAST = 8;

export const maskText = (text: string, value: string): string =>
  value.length < LEAST ? text : text.replaceAll(value, "*".repeat(value.length));

/** How many bytes at the end could be the beginning of the value. */
function tail(data: Buffer, value: Buffer): number {
  for (let size = Math.min(value.length - 1, data.length); size > 0; size--)
    if (data.subarray(data.length - size).equals(value.subarray(0, size))) return size;
  return 0;
}

/** Holds nothing back but what may be the value's beginning. */
export function maskStream(secret: string): Transform {
  const value = Buffer.from(secret);
  let held: Buffer = Buffer.alloc(0);
  return new Transform({
    transform(chunk: Buffer, _encoding, done) {
      const data = Buffer.concat([held, chunk]);
      if (value.length < LEAST) return done(null, data);
      for (let at = data.indexOf(value); at >= 0; at = data.indexOf(value, at + value.length)) data.fill(STAR, at, at + value.length);
      const keep = tail(data, value);
      held = data.subarray(data.length - keep);
      done(null, data.subarray(0, data.length - keep));
    },
    flush(done) {
      done(null, held);
    },
  });
}
