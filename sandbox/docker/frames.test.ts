import fc from "fast-check";
import { expect, test } from "vitest";
import { createDemux, createGuestFrames, frameIn, type Piece } from "./frames.ts";

const dockerFrame = (stream: number, data: Uint8Array): Buffer => {
  const head = Buffer.alloc(8);
  head[0] = stream;
  head.writeUInt32BE(data.length, 4);
  return Buffer.concat([head, data]);
};
const guestFrame = (type: number, data: Uint8Array): Buffer => {
  const head = Buffer.alloc(5);
  head[0] = type;
  head.writeUInt32BE(data.length, 1);
  return Buffer.concat([head, data]);
};
/** Cuts at the given places. */
const cut = (bytes: Buffer, places: readonly number[]): Buffer[] => {
  const at = [0, ...places.map((place) => place % (bytes.length + 1)).toSorted((a, b) => a - b), bytes.length];
  return at.slice(1).map((end, i) => bytes.subarray(at[i], end));
};
const joined = (pieces: readonly Piece[], stream: Piece["stream"]): string =>
  Buffer.concat(pieces.filter((piece) => piece.stream === stream).map((piece) => piece.data)).toString("hex");

test("both layers are taken apart the same wherever the bytes are cut (P63)", () => {
  const part = fc.record({ type: fc.constantFrom(1, 2), data: fc.uint8Array({ maxLength: 200 }) });
  fc.assert(
    fc.property(fc.array(part), fc.array(fc.nat()), fc.array(fc.nat()), (parts, inner, outer) => {
      const exit = guestFrame(3, Buffer.from('{"kind":"code","code":0}'));
      const guest = Buffer.concat([
        guestFrame(4, Buffer.from([0, 4, 0, 0])),
        ...parts.map(({ type, data }) => guestFrame(type, data)),
        exit,
      ]);
      const wire = Buffer.concat(cut(guest, inner).flatMap((chunk) => [dockerFrame(1, chunk), dockerFrame(2, Buffer.from("e"))]));
      const demux = createDemux();
      const frames = createGuestFrames();
      const pieces = cut(wire, outer).flatMap((chunk) => demux(chunk));
      const got = pieces.filter(({ stream }) => stream === "stdout").flatMap(({ data }) => frames(data));
      const output = got.flatMap((frame) => (frame.type === "output" ? [frame.piece] : []));
      const wanted = (type: number): string =>
        Buffer.concat(parts.filter((one) => one.type === type).map(({ data }) => data)).toString("hex");
      expect([joined(output, "stdout"), joined(output, "stderr")]).toStrictEqual([wanted(1), wanted(2)]);
      expect(got[0]).toStrictEqual({ type: "credit", bytes: 262_144 });
      expect(got.at(-1)).toStrictEqual({ type: "exit", json: '{"kind":"code","code":0}' });
    }),
  );
});

test("bytes that are no frames are an error instead of output", () => {
  expect(() => createDemux()(Buffer.from("OCI runtime exec failed"))).toThrow("not a Docker stream");
  expect(() => createGuestFrames()(Buffer.from("hello world"))).toThrow("not the guest's frame");
  expect(() => createGuestFrames()(Buffer.from([3, 0, 1, 0, 0]))).toThrow("not the guest's frame");
});

test("an empty frame is nothing, not a stuck reader", () => {
  const frames = createGuestFrames();
  expect(frames(Buffer.concat([guestFrame(1, Buffer.alloc(0)), guestFrame(2, Buffer.from("x"))])).at(-1)).toMatchObject({ type: "output" });
  expect(frameIn(1)).toStrictEqual(Buffer.from([1, 0, 0, 0, 0]));
});
