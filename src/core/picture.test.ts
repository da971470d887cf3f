import fc from "fast-check";
import { expect, test } from "vitest";
import { gif, jpeg, png, webp } from "../../test/fakes/pictures.ts";
import { imageKind } from "./images.ts";
import { pictureFault } from "./picture.ts";

const word16 = (value: number): Buffer => Buffer.from([value >> 8, value & 0xff]);
const segment = (marker: number, data: Buffer): Buffer => Buffer.concat([Buffer.from([0xff, marker]), word16(data.length + 2), data]);
/** As a camera makes it: with a small whole picture in it, before the large one. */
const withThumbnail = Buffer.concat([
  jpeg().subarray(0, 2),
  segment(0xe1, Buffer.concat([Buffer.from("Exif\0\0"), jpeg()])),
  jpeg().subarray(2),
]);
const restarting = Buffer.concat([jpeg().subarray(0, -2), Buffer.from("ff00ffd012ffff00ffd7", "hex"), Buffer.from("ffd9", "hex")]);
const withComment = (text: string): Buffer => {
  const bytes = gif();
  const comment = Buffer.from([0x21, 0xfe, text.length, ...Buffer.from(text), 0]);
  return Buffer.concat([bytes.subarray(0, 19), comment, bytes.subarray(19)]);
};
const chunk = (name: string, data: Buffer): Buffer => {
  const length = Buffer.alloc(4);
  length.writeUInt32BE(data.length);
  return Buffer.concat([length, Buffer.from(name), data, Buffer.alloc(4)]);
};
const telling = (text: string): Buffer => Buffer.concat([png().subarray(0, 33), chunk("tEXt", Buffer.from(text)), png().subarray(33)]);
const WHOLE: readonly (readonly [string, Buffer])[] = [
  ["png", png(3, 4)],
  ["png that speaks of IEND", telling("\0\0\0\0IEND\0\0\0\0")],
  ["gif", gif()],
  ["gif with a semicolon in its comment", withComment("a;b;")],
  ["jpeg", jpeg()],
  ["jpeg with a thumbnail", withThumbnail],
  ["jpeg with marks in its scan", restarting],
  ["webp", webp()],
];
const fault = (bytes: Buffer): string | undefined => {
  const kind = imageKind(bytes);
  return kind === undefined ? "no picture" : pictureFault(bytes, kind);
};

test.each(WHOLE)("%s: whole it can be shown, also with bytes behind it, and no part of it can", (_, bytes) => {
  expect(fault(bytes)).toBeUndefined();
  expect(fault(Buffer.concat([bytes, Buffer.from("left by a program")]))).toBeUndefined();
  for (let end = 0; end < bytes.length; end += 1) expect([end, fault(bytes.subarray(0, end)) === undefined]).toEqual([end, false]);
});

test("a head that promises more pixels than anybody takes is refused by its words alone", () => {
  for (const [width, height] of [
    [2 ** 31 - 1, 1],
    [1, 8_001],
    [0, 1],
  ] as const)
    expect(fault(png(width, height))).toBeDefined();
});

test("whatever follows a beginning, it is judged in time and never throws", () => {
  const heads = WHOLE.map(([, bytes]) => bytes);
  fc.assert(
    fc.property(fc.constantFrom(...heads), fc.nat(60), fc.uint8Array({ maxLength: 400 }), (bytes, at, noise) => {
      fault(Buffer.concat([bytes.subarray(0, at), Buffer.from(noise), bytes.subarray(at)]));
    }),
    { numRuns: 2_000 },
  );
  for (const head of heads)
    for (const filler of [0x00, 0xff, 0x21, 0xd9, 0x2c]) {
      const started = performance.now();
      fault(Buffer.concat([head.subarray(0, head.length - 3), Buffer.alloc(5 * 1024 * 1024, filler)]));
      expect(performance.now() - started).toBeLessThan(1_500);
    }
});
