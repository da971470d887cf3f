import { Duplex } from "node:stream";
import { expect, test } from "vitest";
import { systemClock } from "../../src/adapters/clock.ts";
import { openCommand } from "./command.ts";
import type { Clock } from "../../src/core/world.ts";

/** A stream whose far end the test plays. */
interface Wire {
  readonly stream: Duplex;
  readonly sent: Buffer[];
  readonly say: (type: number, data: Uint8Array) => void;
  readonly hangUp: () => void;
}

function wire(): Wire {
  const sent: Buffer[] = [];
  const stream = new Duplex({
    read: () => undefined,
    write: (chunk: Buffer, _encoding, done) => {
      sent.push(chunk);
      done();
    },
  });
  return {
    stream,
    sent,
    say: (type, data) => {
      const head = Buffer.alloc(13);
      head[0] = 1;
      head.writeUInt32BE(5 + data.length, 4);
      head[8] = type;
      head.writeUInt32BE(data.length, 9);
      stream.push(Buffer.concat([head, data]));
    },
    hangUp: () => void stream.push(null),
  };
}
const CREDIT = Buffer.from([0, 0, 0, 8]);
const exitFrame = (value: unknown): Buffer => Buffer.from(JSON.stringify(value));
const open = (stream: Duplex, more: { timeoutMs?: number; clock?: Clock; signal?: AbortSignal } = {}) =>
  openCommand({ stream, timeoutMs: 10_000, clock: systemClock, why: () => Promise.resolve("gone"), ...more });

test("input waits for credit and is never sent beyond it", async () => {
  const { stream, sent, say } = wire();
  const { handle, started } = open(stream);
  say(4, CREDIT);
  await started;
  const written = handle.write(Buffer.from("0123456789ab"));
  await new Promise((resolve) => setTimeout(resolve, 20));
  expect(Buffer.concat(sent).subarray(5).toString()).toBe("01234567");
  say(4, CREDIT);
  await written;
  await handle.end();
  await handle.end();
  expect(sent.map((frame) => [frame[0], frame.length])).toStrictEqual([
    [0, 13],
    [0, 9],
    [1, 5],
  ]);
  await expect(handle.write(Buffer.from("x"))).rejects.toMatchObject({ code: "unavailable" });
});

test("a stream that ends before the exit is lost with the reason, and whoever writes is refused", async () => {
  const { stream, say, hangUp } = wire();
  const { handle, started } = open(stream);
  say(4, CREDIT);
  await started;
  const blocked = handle.write(Buffer.alloc(100));
  const refused = expect(blocked).rejects.toMatchObject({ code: "unavailable" });
  say(1, Buffer.from("part"));
  hangUp();
  const output: string[] = [];
  for await (const { data } of handle.output) output.push(Buffer.from(data).toString());
  expect(output).toStrictEqual(["part"]);
  expect(await handle.exit).toStrictEqual({ kind: "lost", reason: "gone" });
  await refused;
});

test("a stream that never speaks rejects the start with what the engine wrote instead", async () => {
  const { stream } = wire();
  const { handle, started } = open(stream);
  stream.push("OCI runtime exec failed: no such file");
  await expect(started).rejects.toThrow("OCI runtime exec failed: no such file");
  expect(await handle.exit).toMatchObject({ kind: "lost" });
});

test("a kill asks first and cuts the connection when nothing comes, and the exit is cancelled either way", async () => {
  for (const answers of [true, false]) {
    const { stream, sent, say } = wire();
    const { handle, started } = open(stream);
    say(4, CREDIT);
    await started;
    say(1, Buffer.alloc(1000));
    handle.kill();
    handle.kill();
    expect(sent.map((frame) => frame[0])).toStrictEqual([2]);
    if (answers) say(3, exitFrame({ kind: "code", code: 0 }));
    expect(await handle.exit).toStrictEqual({ kind: "cancelled" });
    expect(stream.destroyed).toBe(true);
  }
});

test("an exit that cannot be read is lost, never a success", async () => {
  for (const json of ["", "{", "null", '{"kind":"code"}', '{"kind":"fine"}', '"x"']) {
    const { stream, say } = wire();
    const { handle } = open(stream);
    say(4, CREDIT);
    say(3, Buffer.from(json));
    expect([json, await handle.exit]).toMatchObject([json, { kind: "lost" }]);
  }
});

test("a guest that is silent past the limit is lost, but not while its reader holds it back", async () => {
  const timers: (() => void)[] = [];
  const clock: Clock = { ...systemClock, after: (_ms, run) => (timers.push(run), { cancel() {} }) };
  const { stream, say } = wire();
  const { handle, started } = open(stream, { clock, timeoutMs: 5 });
  say(4, CREDIT);
  await started;
  say(1, Buffer.alloc(300_000));
  await new Promise((resolve) => setTimeout(resolve, 5));
  timers[0]?.();
  for await (const { data } of handle.output) {
    expect(data.length).toBe(300_000);
    timers.at(-1)?.();
    break;
  }
  expect((await handle.exit).kind).toMatch(/lost|cancelled/);
});
