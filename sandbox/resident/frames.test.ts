// Frames: whatever cuts the stream and whatever comes before the hello, the same frames are found; nothing else is taken for one.
import { randomBytes } from "node:crypto";
import { readFileSync } from "node:fs";
import { crc32 } from "node:zlib";
import fc from "fast-check";
import { expect, test } from "vitest";
import { createReader, encode, encodeSpec, HEAD, helloBody, IN_MAX, OUT_MAX, PAD, readHello, SPEC_MAX, type Incoming } from "./frames.ts";

const nonce = randomBytes(16);

/** As the supervisor writes one: only the header is checked. */
function said(type: string, more: { cmd?: number; off?: number; sess?: number; data?: Buffer } = {}): Buffer {
  const { cmd = 0, off = 0, sess = 1, data = Buffer.alloc(0) } = more;
  const head = encode({ type: "P", sess, cmd, off });
  head[4] = type.charCodeAt(0);
  head.writeUInt32LE(data.length, 12);
  head.writeUInt32LE(0, 28);
  head.writeUInt32LE(crc32(head), 28);
  return Buffer.concat([head, data]);
}
const hello = said("h", { data: Buffer.concat([nonce, randomBytes(16), Buffer.alloc(8)]) });

const cuts = fc.array(fc.integer({ min: 1, max: 200 }), { minLength: 1, maxLength: 20 });
function* parts(bytes: Buffer, sizes: readonly number[]): Generator<Buffer> {
  for (let at = 0, i = 0; at < bytes.length; i++) {
    const size = sizes[i % sizes.length] ?? 1;
    yield bytes.subarray(at, at + size);
    at += size;
  }
}

/** Output may come in parts: each goes on where the one before ended. */
function joined(frames: readonly Incoming[]): readonly Pick<Incoming, "type" | "cmd" | "off" | "data">[] {
  const whole: { type: string; cmd: number; off: number; data: Buffer }[] = [];
  for (const { type, cmd, off, data } of frames) {
    const last = whole.at(-1);
    if (type === "o" && last?.cmd === cmd && last.off + last.data.length === off) last.data = Buffer.concat([last.data, data]);
    else whole.push({ type, cmd, off, data: Buffer.from(data) });
  }
  return whole;
}

test("cut anywhere, after any bytes of an older connection, the same frames come out", () => {
  const data = fc.uint8Array({ maxLength: 300 }).map((bytes) => Buffer.from(bytes));
  // Neighbours are of different commands, so that the parts of a frame can be told from the next one.
  const type = fc.constantFrom("o", "x", "p");
  const frame = fc.record({ type, off: fc.nat(), data }, { noNullPrototype: true });
  const numbered = fc.array(frame, { maxLength: 8 }).map((all) => all.map((one, i) => ({ ...one, cmd: i + 1 })));
  const junk = fc.array(fc.oneof(fc.uint8Array({ maxLength: 60 }), fc.constant(Buffer.from("BEG1")), fc.constant(hello.subarray(0, 40))));
  fc.assert(
    fc.property(junk, numbered, cuts, (before, frames, sizes) => {
      const older = said("o", { data: Buffer.concat(before) });
      const bytes = Buffer.concat([...before, older, hello, ...frames.map((one) => said(one.type, one))]);
      const read = createReader(nonce);
      const [first, ...found] = joined([...parts(bytes, sizes)].flatMap((part) => [...read(part)]));
      expect(first?.type).toBe("h");
      expect(found).toStrictEqual(frames.map((one) => ({ type: one.type, cmd: one.cmd, off: one.off, data: one.data })));
    }),
  );
});

test("output that is lent stays whole until all of its chunk was given back, and what waits for its rest is never lent", () => {
  const frame = fc.record({ type: fc.constantFrom("o", "x"), size: fc.integer({ min: 1, max: 40_000 }) }, { noNullPrototype: true });
  const sizes = fc.array(fc.integer({ min: 1, max: 70_000 }), { minLength: 1, maxLength: 6 });
  fc.assert(
    fc.property(fc.array(frame, { minLength: 1, maxLength: 8 }), sizes, fc.boolean(), (frames, cutAt, freeing) => {
      const bytes = frames.map(({ type, size }, i) => said(type, { cmd: i + 1, data: Buffer.alloc(size, i + 1) }));
      const read = createReader(nonce);
      read(hello);
      const found: Incoming[] = [];
      for (const part of parts(Buffer.concat(bytes), cutAt)) {
        const chunk = new Uint8Array(part);
        for (const one of read(chunk)) {
          expect(one.data.equals(Buffer.alloc(one.data.length, one.cmd))).toBe(true);
          if (one.free !== undefined) expect([one.type, chunk.length >= 16_384]).toStrictEqual(["o", true]);
          found.push({ ...one, data: Buffer.from(one.data) });
          if (freeing) one.free?.();
        }
      }
      expect(joined(found).map(({ data }) => data.length)).toStrictEqual(frames.map(({ size }) => size));
    }),
  );
  const chunk = new Uint8Array(said("o", { data: Buffer.alloc(40_000) }));
  const read = createReader(nonce);
  read(hello);
  read(chunk)[0]?.free?.();
  expect(chunk.length).toBe(0);
});

test("once open, a byte that is no frame's is an error and never a frame", () => {
  fc.assert(
    fc.property(fc.uint8Array({ minLength: HEAD, maxLength: 200 }), (bytes) => {
      const read = createReader(nonce);
      read(hello);
      expect(() => read(bytes)).toThrow("broken");
    }),
  );
});

test("any bytes at all either are read or refused, before and after the hello, in bounded memory", () => {
  fc.assert(
    fc.property(fc.array(fc.uint8Array({ maxLength: 400 }), { maxLength: 10 }), fc.boolean(), (chunks, opened) => {
      const read = createReader(nonce);
      if (opened) read(hello);
      try {
        for (const chunk of chunks) for (const frame of read(chunk)) expect(frame.data.length).toBeLessThanOrEqual(OUT_MAX);
      } catch (error) {
        expect(String(error)).toContain("broken");
      }
    }),
  );
});

test("a hello that does not hold what it says is refused", () => {
  fc.assert(
    fc.property(fc.uint8Array({ maxLength: 200 }), (bytes) => {
      const data = Buffer.from(bytes);
      const sound = data.length >= 40 && data.length === 40 + data.readUInt32LE(36) * 36;
      if (sound) expect(readHello(data).known.length).toBe((data.length - 40) / 36);
      else expect(() => readHello(data)).toThrow("broken");
    }),
  );
});

test("the constants of both sides are those of the written protocol", () => {
  const protocol = JSON.parse(readFileSync(new URL("../../schemas/protocol.json", import.meta.url), "utf8")) as {
    readonly header: { readonly bytes: number };
    readonly limits: Readonly<Record<string, number>>;
    readonly toSupervisor: readonly { readonly type: string }[];
    readonly fromSupervisor: readonly { readonly type: string }[];
  };
  const sources = ["wire.h", "wire.c", "jobs.h", "jobs.c", "serve.c"].map((name) =>
    readFileSync(new URL(`../guest/${name}`, import.meta.url), "utf8"),
  );
  const c = sources.join("\n");
  const defined = (name: string): number => Number(new RegExp(`#define ${name} (\\d+)`).exec(c)?.[1]);
  const { limits, header } = protocol;
  expect({
    head: defined("WIRE_HEAD"),
    payloadIn: defined("WIRE_IN_MAX"),
    payloadOut: defined("WIRE_OUT_MAX"),
    specBytes: defined("SPEC_MAX"),
    commands: defined("JOBS_MAX"),
    ringsTogether: defined("RINGS_MAX"),
    segments: defined("SEGMENTS"),
    windowDefault: defined("WINDOW_DEFAULT"),
    windowMax: defined("WINDOW_MAX"),
    stdinUnacked: defined("STDIN_MAX"),
    partialFrameMs: defined("WIRE_CUT_MS"),
    keeperLateMs: defined("LATE_MS"),
  }).toStrictEqual({
    head: header.bytes,
    ...Object.fromEntries(Object.entries(limits).filter(([key]) => !["helloRepeatMs", "killWithinMs"].includes(key))),
  });
  expect([HEAD, IN_MAX, OUT_MAX, SPEC_MAX, PAD.length]).toStrictEqual([
    header.bytes,
    limits["payloadIn"],
    limits["payloadOut"],
    limits["specBytes"],
    16_416,
  ]);
  for (const { type } of protocol.toSupervisor) expect(c).toContain(`'${type}'`);
  for (const { type } of protocol.fromSupervisor) expect(c).toMatch(new RegExp(`wire_put\\('${type}'|type = '${type}'`));
});

test("a spec says its own length, and its words are NUL-terminated", () => {
  const spec = encodeSpec({
    cwd: "/w",
    command: ["a", "b"],
    env: ["X=1"],
    timeoutMs: 5e9,
    windowBytes: 7,
    terminal: { rows: 2, columns: 3 },
  });
  expect(spec.readUInt32LE(0)).toBe(spec.length);
  expect([4, 8].map((at) => spec.readUInt32LE(at))).toStrictEqual([0xffff_ffff, 7]);
  expect([12, 14, 16, 18, 20, 22].map((at) => spec.readUInt16LE(at))).toStrictEqual([1, 2, 3, 2, 1, 0]);
  expect(spec.toString("utf8", 24)).toBe("/w\0a\0b\0X=1\0");
  expect(helloBody(3, 4, nonce).length).toBe(44);
});
