// The smallest whole pictures of each kind.
import { deflateSync } from "node:zlib";

const word = (value: number): Buffer => {
  const bytes = Buffer.alloc(4);
  bytes.writeUInt32BE(value);
  return bytes;
};
const chunk = (name: string, data: Buffer): Buffer => Buffer.concat([word(data.length), Buffer.from(name), data, word(0)]);

/** `filler` bytes more, as text that no reader shows. */
export const png = (width = 1, height = 1, filler = 0): Buffer =>
  Buffer.concat([
    Buffer.from("\x89PNG\r\n\x1a\n", "latin1"),
    chunk("IHDR", Buffer.concat([word(width), word(height), Buffer.from([8, 2, 0, 0, 0])])),
    ...(filler > 0 ? [chunk("tEXt", Buffer.alloc(filler, 0x61))] : []),
    chunk("IDAT", deflateSync(Buffer.alloc(4))),
    chunk("IEND", Buffer.alloc(0)),
  ]);
export const gif = (): Buffer => Buffer.from("R0lGODlhAQABAIAAAAAAAP///yH5BAEAAAAALAAAAAABAAEAAAIBRAA7", "base64");
export const jpeg = (): Buffer =>
  Buffer.from("ffd8ffe000104a46494600010100000100010000ffc0000b080002000301011100ffda0008010100003f0012ffd9", "hex");
export const webp = (): Buffer => Buffer.from("UklGRiIAAABXRUJQVlA4IBYAAAAwAQCdASoBAAEADsD+JaQAA3AAAAAA", "base64");
