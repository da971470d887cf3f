// Whether bytes that begin as a picture are a whole one: a broken one in a conversation would be refused at every request from then on. Pure.
import type { imageKind } from "./images.ts";

type Kind = NonNullable<ReturnType<typeof imageKind>>;
interface Size {
  readonly width: number;
  readonly height: number;
}

/** On either side, in pixels: no provider takes more. */
const SIDE_MAX = 8_000;
const NONE: Size = { width: 0, height: 0 };

/** Frame headers of JPEG are C0 to CF but for these. */
const NO_FRAME: ReadonlySet<number> = new Set([0xc4, 0xc8, 0xcc]);
const [SCAN, END] = [0xda, 0xd9];
/** Stuffed and filling bytes, and marks within a scan: nothing that has a length. */
const isBare = (marker: number): boolean => marker < 0x02 || marker === 0xff || (marker >= 0xd0 && marker <= 0xd8);

interface Part {
  readonly kind: number | string;
  readonly at: number;
}

/** Segments, each behind the one before: what is inside of one, as a small picture of the picture, is none. */
function* jpegParts(bytes: Buffer): Generator<Part> {
  let at = bytes.indexOf(0xff, 2);
  while (at >= 0 && at + 1 < bytes.length) {
    const marker = bytes[at + 1] ?? 0;
    if (isBare(marker)) {
      at = bytes.indexOf(0xff, marker === 0xff ? at + 1 : at + 2);
      continue;
    }
    yield { kind: marker, at };
    if (marker === END || at + 4 > bytes.length) return;
    at = bytes.indexOf(0xff, at + 2 + Math.max(2, bytes.readUInt16BE(at + 2)));
  }
}

function jpegSize(bytes: Buffer): Size {
  for (const { kind, at } of jpegParts(bytes)) {
    if (kind === SCAN || at + 9 > bytes.length) break;
    if (typeof kind === "number" && kind >= 0xc0 && kind <= 0xcf && !NO_FRAME.has(kind))
      return { height: bytes.readUInt16BE(at + 5), width: bytes.readUInt16BE(at + 7) };
  }
  return NONE;
}

/** Chunks that are there to their last byte. */
function* pngParts(bytes: Buffer): Generator<Part> {
  for (let at = 8; at + 12 <= bytes.length;) {
    const next = at + 12 + bytes.readUInt32BE(at);
    if (next > bytes.length) return;
    yield { kind: bytes.toString("latin1", at + 4, at + 8), at };
    at = next;
  }
}

/** The same; what the beginning says of the whole length must be there as well. */
function* webpParts(bytes: Buffer): Generator<Part> {
  const end = bytes.readUInt32LE(4) + 8;
  if (end > bytes.length) return;
  for (let at = 12; at + 8 <= end;) {
    const size = bytes.readUInt32LE(at + 4);
    if (at + 8 + size > end) return;
    yield { kind: bytes.toString("latin1", at, at + 4), at };
    at += 8 + size + (size % 2);
  }
}

/** Behind a table of colours, where the byte that tells of one says so. */
const behindColours = (at: number, told = 0): number => at + ((told & 0x80) === 0 ? 0 : 3 * 2 ** ((told & 7) + 1));

/** Blocks of blocks, up to the sign that ends them. */
function* gifParts(bytes: Buffer): Generator<Part> {
  let at = behindColours(13, bytes[10]);
  while (at < bytes.length) {
    const kind = bytes[at] ?? 0;
    yield { kind, at };
    if (kind !== 0x21 && kind !== 0x2c) return;
    at = kind === 0x21 ? at + 2 : behindColours(at + 10, bytes[at + 9]) + 1;
    for (let size = bytes[at]; size !== undefined && size > 0; size = bytes[at]) at += 1 + size;
    at += 1;
  }
}

function webpSize(bytes: Buffer): Size {
  switch (bytes.toString("latin1", 12, 16)) {
    case "VP8X":
      return { width: bytes.readUIntLE(24, 3) + 1, height: bytes.readUIntLE(27, 3) + 1 };
    case "VP8L": {
      const bits = bytes.readUInt32LE(21);
      return { width: (bits & 0x3fff) + 1, height: ((bits >> 14) & 0x3fff) + 1 };
    }
    case "VP8 ":
      return { width: bytes.readUInt16LE(26) & 0x3fff, height: bytes.readUInt16LE(28) & 0x3fff };
    default:
      return NONE;
  }
}

/** Shorter than the shortest of any kind. */
const HEAD_BYTES = 30;

const SIZE: Readonly<Record<Kind, (bytes: Buffer) => Size>> = {
  "image/png": (bytes) =>
    bytes.toString("latin1", 12, 16) === "IHDR" ? { width: bytes.readUInt32BE(16), height: bytes.readUInt32BE(20) } : NONE,
  "image/jpeg": jpegSize,
  "image/gif": (bytes) => ({ width: bytes.readUInt16LE(6), height: bytes.readUInt16LE(8) }),
  "image/webp": webpSize,
};

const has = (parts: Iterable<Part>, ...kinds: readonly Part["kind"][]): boolean => {
  for (const { kind } of parts) if (kinds.includes(kind)) return true;
  return false;
};

/** Programs leave bytes behind the end: it is there, that is enough. */
const ENDED: Readonly<Record<Kind, (bytes: Buffer) => boolean>> = {
  "image/png": (bytes) => has(pngParts(bytes), "IEND"),
  "image/jpeg": (bytes) => has(jpegParts(bytes), END),
  "image/gif": (bytes) => has(gifParts(bytes), 0x3b),
  "image/webp": (bytes) => has(webpParts(bytes), "VP8 ", "VP8L", "ANMF"),
};

/** Why no model could look at it; undefined when it can be sent. */
export function pictureFault(bytes: Buffer, kind: Kind): string | undefined {
  const { width, height } = bytes.length < HEAD_BYTES ? NONE : SIZE[kind](bytes);
  if (width === 0 || height === 0 || !ENDED[kind](bytes)) return `it begins as ${kind} and is not whole`;
  if (width > SIDE_MAX || height > SIDE_MAX) return `it has ${width} x ${height} pixels, and at most ${SIDE_MAX} on a side can be shown`;
  return undefined;
}
