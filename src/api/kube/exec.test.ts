import fc from "fast-check";
import { execFileSync } from "node:child_process";
import { afterEach, expect, test, vi } from "vitest";
import { WebSocket } from "ws";
import type { CallRequest, CallResult } from "../../core/call.ts";
import { rig, type Rig } from "../rig.ts";
import { quote, statusOf } from "./exec.ts";

let at: Rig | undefined;
afterEach(async () => at?.end());

const POD = "/api/v1/namespaces/default/pods/travel/exec";
const done = (over: Partial<CallResult> = {}): CallResult => {
  return { call: "c", success: true, output: new Uint8Array(), exitCode: 0, outcome: "ok", ...over };
};

async function open(call: (request: CallRequest, signal: AbortSignal) => Promise<CallResult>): Promise<Rig> {
  at = await rig({ call });
  at.control.put("Agent", "travel");
  return at;
}

interface Dialled {
  readonly frames: Buffer[];
  readonly ws: WebSocket;
  /** HTTP status of a refusal, or the close code. */
  readonly ended: Promise<number>;
}

function dial(query: string, options: { headers?: Record<string, string>; protocols?: string[]; path?: string } = {}): Dialled {
  if (at === undefined) throw new Error("no gateway");
  const { protocols = ["v5.channel.k8s.io"], headers = {}, path = POD } = options;
  const ws = new WebSocket(`ws://127.0.0.1:${at.port}${path}?${query}`, protocols, {
    headers: { authorization: `Bearer ${at.token}`, ...headers },
  });
  const frames: Buffer[] = [];
  ws.on("message", (data: Buffer) => frames.push(data));
  const ended = new Promise<number>((resolve) => {
    ws.on("unexpected-response", (_, response) => {
      resolve(response.statusCode ?? 0);
      ws.terminate();
    });
    ws.on("close", resolve);
    ws.on("error", () => undefined);
  });
  return { ws, frames, ended };
}

const told = ({ frames }: Dialled, channel: number): string =>
  Buffer.concat(frames.filter((frame) => frame[0] === channel).map((frame) => frame.subarray(1))).toString();

test("words become a shell command that means just these words", () => {
  const words = fc.array(fc.string({ unit: fc.constantFrom("a", "'", '"', "$", " ", "\n", "\\", "*", "=", "é") }), {
    minLength: 1,
    maxLength: 5,
  });
  fc.assert(
    fc.property(words, (list) => {
      const out = execFileSync("sh", ["-c", `printf '%s\\0' ${quote(list)}`], { encoding: "utf8" });
      expect(out.split("\0").slice(0, -1)).toEqual(list);
    }),
    { numRuns: 30 },
  );
  // A word with = must not become an assignment.
  expect(quote(["A=b"])).toBe("'A=b'");
});

test("a command goes through the door of all calls, with its outputs on their channels and its exit code at the end", async () => {
  const seen: CallRequest[] = [];
  await open(async (request) => {
    seen.push(request);
    await request.streams?.output("stdout", Buffer.from("out"));
    await request.streams?.output("stderr", Buffer.from("err"));
    return done({ success: false, exitCode: 3, outcome: "failed" });
  });
  const dialled = dial("command=sh&command=-c&command=exit%203&stdout=1&stderr=1");
  expect(await dialled.ended).toBe(1000);
  expect(seen[0]).toMatchObject({ principal: { kind: "operator" }, tool: "exec", input: { params: { command: "sh -c 'exit 3'" } } });
  expect(seen[0]?.streams?.input).toBeUndefined();
  expect([told(dialled, 1), told(dialled, 2)]).toEqual(["out", "err"]);
  expect(JSON.parse(told(dialled, 3))).toMatchObject({ reason: "NonZeroExitCode", details: { causes: [{ message: "3" }] } });
});

test("standard input arrives in order, ends when the client says so, and waits while nobody reads it", async () => {
  let text = "";
  await open(async (request) => {
    await new Promise((resolve) => setTimeout(resolve, 100));
    for await (const data of request.streams?.input ?? []) text += Buffer.from(data).toString();
    return done();
  });
  const dialled = dial("command=cat&stdin=true");
  await new Promise((resolve) => dialled.ws.on("open", resolve));
  const block = Buffer.alloc(100_001, "x");
  block[0] = 0;
  for (let i = 0; i < 20; i++) dialled.ws.send(block);
  dialled.ws.send(Buffer.from([255, 0]));
  expect(await dialled.ended).toBe(1000);
  expect(text.length).toBe(2_000_000);
  expect(JSON.parse(told(dialled, 3)).status).toBe("Success");
});

test("input that was not asked for is dropped, and the client's end is still heard", async () => {
  let ended = false;
  await open((_, signal) => new Promise((resolve) => signal.addEventListener("abort", () => ((ended = true), resolve(done())))));
  const dialled = dial("command=sleep");
  await new Promise((resolve) => dialled.ws.on("open", resolve));
  for (let i = 0; i < 20; i++) dialled.ws.send(Buffer.alloc(100_000));
  await new Promise((resolve) => setTimeout(resolve, 100));
  dialled.ws.terminate();
  await vi.waitFor(() => expect(ended).toBe(true), 3_000);
});

test("a client that leaves ends its command, a gateway that stops too", async () => {
  const ends: string[] = [];
  await open(
    (_, signal) => new Promise((resolve) => signal.addEventListener("abort", () => resolve(done({ error: String(ends.push("ended")) })))),
  );
  const one = dial("command=sleep");
  await new Promise((resolve) => one.ws.on("open", resolve));
  one.ws.terminate();
  while (ends.length === 0) await new Promise((resolve) => setTimeout(resolve, 5));
  const two = dial("command=sleep");
  await new Promise((resolve) => two.ws.on("open", resolve));
  const from = Date.now();
  await at?.api.close();
  await two.ended;
  expect(ends).toHaveLength(2);
  expect(Date.now() - from).toBeLessThan(5_000);
});

test("the gate stands before a WebSocket as before any request", async () => {
  let called = 0;
  await open(async () => {
    called += 1;
    return done();
  });
  const cases: readonly [string, number, Parameters<typeof dial>[1]][] = [
    ["command=ls", 401, { headers: { authorization: "Bearer wrong" } }],
    ["command=ls", 403, { headers: { origin: "http://evil.example" } }],
    ["command=ls", 421, { headers: { host: "evil.example" } }],
    ["command=ls", 400, { protocols: ["v1.channel.k8s.io"] }],
    ["", 400, {}],
    ["command=ls&timeout=soon", 400, {}],
    ["command=ls&container=other", 400, {}],
    ["command=ls", 404, { path: POD.replace("travel", "nobody") }],
    ["command=ls", 400, { path: POD.replace("travel", "..%2Fx") }],
    ["command=ls", 404, { path: "/api/v1/namespaces/default/pods/travel/nothing" }],
  ];
  for (const [query, status, options] of cases)
    expect([query, options, await dial(query, options).ended]).toEqual([query, options, status]);
  expect(called).toBe(0);
});

const resize = (columns: unknown, rows: unknown): Buffer => Buffer.from(`\u0004${JSON.stringify({ Width: columns, Height: rows })}`);

test("a terminal starts with the client's size, hears of its changes and of nothing that is no size", async () => {
  const heard: unknown[] = [];
  const asked = Promise.withResolvers<CallRequest>();
  const end = Promise.withResolvers<CallResult>();
  await open((request) => {
    asked.resolve(request);
    request.streams?.terminal?.onSize((size) => heard.push(size));
    return end.promise;
  });
  const dialled = dial("command=sh&stdin=1&stdout=1&tty=1&term=screen-256color");
  dialled.ws.on("open", () => dialled.ws.send(resize(101, 31)));
  const { streams } = await asked.promise;
  expect(streams?.terminal).toMatchObject({ columns: 101, rows: 31, term: "screen-256color" });
  const wrong = [
    resize(0, 10),
    resize(1e9, 1),
    resize("80", 24),
    resize(1.5, 2),
    Buffer.from("\u0004null"),
    Buffer.from("\u0004{"),
    Buffer.of(4),
  ];
  for (const frame of [...wrong, resize(101, 31), resize(80, 24), Buffer.alloc(100_000, 4), resize(81, 24)]) dialled.ws.send(frame);
  await vi.waitFor(() => expect(heard.at(-1)).toEqual({ columns: 81, rows: 24 }));
  // The size it had when somebody began to listen, then each that is another.
  expect(heard).toEqual([
    { columns: 101, rows: 31 },
    { columns: 80, rows: 24 },
    { columns: 81, rows: 24 },
  ]);
  end.resolve(done());
  expect(await dialled.ended).toBe(1000);
});

test("a client that never says its size gets a usual terminal, one whose TERM is no word a plain one", async () => {
  const seen: CallRequest[] = [];
  await open(async (request) => {
    seen.push(request);
    return done();
  });
  expect(await dial("command=sh&tty=1&term=x%3Brm").ended).toBe(1000);
  expect(seen[0]?.streams?.terminal).toMatchObject({ columns: 80, rows: 24, term: "xterm" });
});

test("a client that leaves while its input waits for a reader is missed all the same", async () => {
  let ended = false;
  await open((_, signal) => new Promise((resolve) => signal.addEventListener("abort", () => ((ended = true), resolve(done())))));
  const dialled = dial("command=sleep&stdin=1");
  await new Promise((resolve) => dialled.ws.on("open", resolve));
  const block = Buffer.alloc(100_000);
  for (let i = 0; i < 60; i++) dialled.ws.send(block);
  await new Promise((resolve) => setTimeout(resolve, 300));
  dialled.ws.terminate();
  await vi.waitFor(() => expect(ended).toBe(true), 1_000);
});

test("a frame that is too long ends the connection and the command", async () => {
  let aborted = false;
  await open((_, signal) => new Promise((resolve) => signal.addEventListener("abort", () => ((aborted = true), resolve(done())))));
  const dialled = dial("command=cat&stdin=true");
  await new Promise((resolve) => dialled.ws.on("open", resolve));
  dialled.ws.send(Buffer.alloc(2 * 1024 * 1024));
  expect(await dialled.ended).toBe(1009);
  expect(aborted).toBe(true);
});

test("a refused call is told as forbidden, not as an exit code", () => {
  expect(statusOf(done({ success: false, exitCode: 1, outcome: "denied", error: "no" }))).toMatchObject({ reason: "Forbidden", code: 403 });
});
