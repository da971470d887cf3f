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

function jpegSize(bytes: Buffer): Size {
  for (let at = 2; at + 9 <= bytes.length && bytes[at] === 0xff;) {
    const marker = bytes[at + 1] ?? 0;
    if (marker === 0xff) {
      at += 1;
    } else if (marker >= 0xc0 && marker <= 0xcf && !NO_FRAME.has(marker)) {
      return { height: bytes.readUInt16BE(at + 5), width: bytes.readUInt16BE(at + 7) };
    } else at += 2 + Math.max(2, bytes.readUInt16BE(at + 2));
  }
  return NONE;
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

/** Programs leave bytes behind the end: it is there, that is enough. */
const ENDED: Readonly<Record<Kind, (bytes: Buffer) => boolean>> = {
  "image/png": (bytes) => bytes.lastIndexOf("IEND", undefined, "latin1") > 0,
  "image/jpeg": (bytes) => bytes.lastIndexOf(Buffer.from([0xff, 0xd9])) > 0,
  "image/gif": (bytes) => bytes.lastIndexOf(0x3b) > 12,
  "image/webp": (bytes) => bytes.readUInt32LE(4) + 8 <= bytes.length,
};

/** Why no model could look at it; undefined when it can be sent. */
export function pictureFault(bytes: Buffer, kind: Kind): string | undefined {
  const { width, height } = bytes.length < HEAD_BYTES ? NONE : SIZE[kind](bytes);
  if (width === 0 || height === 0 || !ENDED[kind](bytes)) return `it begins as ${kind} and is not whole`;
  if (width > SIDE_MAX || height > SIDE_MAX) return `it has ${width} x ${height} pixels, and at most ${SIDE_MAX} on a side can be shown`;
  return undefined;
}
