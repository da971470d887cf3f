import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { createServer, type Server, type Socket } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, expect, test } from "vitest";
import { createClient, saidNo } from "./client.ts";

const open: { server: Server; sockets: Set<Socket>; home: string }[] = [];

/** A server that speaks raw bytes, once the request's head has come. */
async function raw(answer: (socket: Socket, request: string) => void): Promise<string> {
  const home = mkdtempSync(join(tmpdir(), "beige-client-"));
  const sockets = new Set<Socket>();
  const server = createServer((socket) => {
    sockets.add(socket);
    let text = "";
    socket.on("error", () => undefined);
    socket.on("data", (part) => {
      text += part.toString();
      const end = text.indexOf("\r\n\r\n");
      const length = Number(/content-length: (\d+)/.exec(text)?.[1] ?? 0);
      if (end >= 0 && text.length >= end + 4 + length) answer(socket, text);
    });
  });
  const path = join(home, "s.sock");
  await new Promise<void>((done) => server.listen(path, done));
  open.push({ server, sockets, home });
  return path;
}

afterEach(async () => {
  for (const { server, sockets, home } of open.splice(0)) {
    for (const socket of sockets) socket.destroy();
    await new Promise<void>((done) => server.close(() => done()));
    rmSync(home, { recursive: true, force: true });
  }
});

const OK = "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n";
const chunk = (text: string): string => `${Buffer.byteLength(text).toString(16)}\r\n${text}\r\n`;
const all = async <T>(items: AsyncIterable<T>): Promise<T[]> => {
  const found: T[] = [];
  for await (const item of items) found.push(item);
  return found;
};

test("lines arrive as they are sent, over chunk borders and multi-byte characters", async () => {
  const line = Buffer.from(`${JSON.stringify({ text: "grüße 🦊" })}\n`);
  const path = await raw((socket) => {
    socket.write(OK);
    for (const byte of line) socket.write(Buffer.concat([Buffer.from("1\r\n"), Buffer.from([byte]), Buffer.from("\r\n")]));
    socket.end(`${chunk('\n{"text":"last"}')}0\r\n\r\n`);
  });
  expect(await all(createClient(path).stream({ path: "/x" }))).toEqual([{ text: "grüße 🦊" }, { text: "last" }]);
});

test("a stream that is cut is an error, after what came before it", async () => {
  const path = await raw((socket) => socket.end(`${OK}${chunk('{"a":1}\n')}`));
  const got: unknown[] = [];
  const reading = (async () => {
    for await (const line of createClient(path).stream({ path: "/x" })) got.push(line);
  })();
  await expect(reading).rejects.toMatchObject({ code: "unavailable", message: expect.stringContaining("middle of its answer") as string });
  expect(got).toEqual([{ a: 1 }]);
});

test("a short length is an error, not a short answer", async () => {
  const path = await raw((socket) => socket.end("HTTP/1.1 200 OK\r\ncontent-length: 100\r\n\r\n{}"));
  await expect(createClient(path).get({ path: "/x" })).rejects.toMatchObject({ code: "unavailable" });
});

test("silence ends with a deadline", async () => {
  const path = await raw(() => undefined);
  const started = performance.now();
  await expect(createClient(path).get({ path: "/x", idleMs: 100 })).rejects.toMatchObject({ code: "timeout" });
  expect(performance.now() - started).toBeLessThan(3000);
});

test("an abort ends the wait and the connection", async () => {
  let closed = false;
  const path = await raw((socket) => {
    socket.write(`${OK}${chunk('{"a":1}\n')}`);
    socket.on("close", () => (closed = true));
  });
  const controller = new AbortController();
  const lines = createClient(path, controller.signal).stream({ path: "/x", idleMs: 0 });
  expect((await lines.next()).value).toEqual({ a: 1 });
  controller.abort("SIGINT");
  await expect(lines.next()).rejects.toMatchObject({ message: "interrupted" });
  await expect.poll(() => closed).toBe(true);
});

test("leaving a stream early closes its connection", async () => {
  let closed = false;
  const path = await raw((socket) => {
    socket.write(`${OK}${chunk('{"a":1}\n')}`);
    socket.on("close", () => (closed = true));
  });
  for await (const _ of createClient(path).stream({ path: "/x" })) break;
  await expect.poll(() => closed).toBe(true);
});

test("a line without end is cut off at 32 MiB", async () => {
  const block = Buffer.alloc(1024 * 1024, 97);
  const path = await raw((socket) => {
    socket.write(OK);
    for (let i = 0; i < 40; i++) socket.write(Buffer.concat([Buffer.from("100000\r\n"), block, Buffer.from("\r\n")]));
  });
  await expect(all(createClient(path).stream({ path: "/x" }))).rejects.toMatchObject({
    message: expect.stringContaining("32 MiB") as string,
  });
});

test("a 300 KB answer arrives whole", async () => {
  const value = { text: "x".repeat(300_000) };
  const body = JSON.stringify(value);
  const path = await raw((socket) => socket.end(`HTTP/1.1 200 OK\r\ncontent-length: ${body.length}\r\n\r\n${body}`));
  expect(await createClient(path).get({ path: "/x" })).toEqual(value);
});

test("no gateway, a stale socket file and a path that is too long each say what to do", async () => {
  const home = mkdtempSync(join(tmpdir(), "beige-client-"));
  const stale = join(home, "file.sock");
  writeFileSync(stale, "");
  await expect(createClient(join(home, "none.sock")).get({ path: "/x" })).rejects.toMatchObject({
    code: "unavailable",
    hint: "beige gateway start",
  });
  await expect(createClient(stale).get({ path: "/x" })).rejects.toMatchObject({ code: "unavailable", hint: "beige gateway start" });
  await expect(createClient(join(home, "x".repeat(120))).get({ path: "/x" })).rejects.toMatchObject({
    hint: expect.stringContaining("BEIGE_HOME") as string,
  });
  rmSync(home, { recursive: true });
});

test("a request path cannot smuggle a second request", async () => {
  const path = await raw((socket) => socket.end(`${OK}0\r\n\r\n`));
  await expect(createClient(path).get({ path: "/x HTTP/1.1\r\nhost: y" })).rejects.toThrow(/line break/);
});

test("a request larger than the gateway takes is refused before it is sent", async () => {
  const path = await raw((socket) => socket.end(`${OK}0\r\n\r\n`));
  await expect(createClient(path).get({ path: "/x", body: "x".repeat(9_000_000) })).rejects.toMatchObject({ code: "invalid" });
});

test("what the gateway says no with keeps its code, hint and problems", () => {
  const ours = saidNo(
    409,
    JSON.stringify({
      kind: "Status",
      reason: "Conflict",
      message: "m",
      code: 409,
      error: { code: "conflict", message: "owned", hint: "--force-conflicts" },
    }),
  );
  expect(ours).toMatchObject({ code: "conflict", message: "owned", hint: "--force-conflicts" });
  const status = saidNo(
    422,
    JSON.stringify({ kind: "Status", reason: "Invalid", message: "m", details: { causes: [{ message: "bad", field: "spec.x" }] } }),
  );
  expect(status).toMatchObject({ code: "invalid", problems: [{ message: "bad", path: "spec.x" }] });
  expect(saidNo(401, "no token")).toMatchObject({ code: "denied", message: "no token" });
  expect(saidNo(500, "")).toMatchObject({ code: "internal" });
  expect(saidNo(503, "[1,")).toMatchObject({ code: "unavailable" });
  expect(saidNo(400, "null")).toMatchObject({ code: "invalid" });
});
