import { spawn } from "node:child_process";
import { existsSync, lstatSync, mkdirSync, mkdtempSync, rmSync, statSync, symlinkSync, writeFileSync } from "node:fs";
import { createServer, createConnection, type Socket } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, expect, test } from "vitest";
import { guestBinary } from "../../test/fakes/local.ts";
import { systemClock } from "../adapters/clock.ts";
import type { CallRequest, CallResult } from "../core/call.ts";
import { BeigeError } from "../core/errors.ts";
import { socketFolder, socketPath } from "../core/paths.ts";
import type { Clock, Log } from "../core/world.ts";
import type { ToolResponse } from "../../schemas/types.ts";
import { createSockets } from "./sockets.ts";

const quiet: Log = { debug: () => undefined, info: () => undefined, warn: () => undefined, error: () => undefined };
const owner = { uid: process.getuid?.() ?? 0, gid: process.getgid?.() ?? 0 };
const agent = { namespace: "default", name: "travel", uid: "11111111-aaaa-4000-8000-000000000000" };
const other = { namespace: "default", name: "other", uid: "22222222-aaaa-4000-8000-000000000000" };

let home = "";
let sockets: ReturnType<typeof createSockets>;
let requests: CallRequest[] = [];
let hellos: string[] = [];
let aborted = 0;
let respond: (request: CallRequest, signal: AbortSignal) => Promise<CallResult>;
const clients: Socket[] = [];

const ok = (output: string | Uint8Array, more: Partial<CallResult> = {}): CallResult => ({
  call: "c",
  success: true,
  output: typeof output === "string" ? Buffer.from(output) : output,
  exitCode: 0,
  outcome: "ok",
  ...more,
});

/** Limits of the real clock, a hundred times as fast. */
const fast: Clock = { ...systemClock, after: (ms, run) => systemClock.after(ms / 50, run) };

const start = (clock: Clock = systemClock): void => {
  sockets = createSockets({
    home,
    tokens: { find: (uid, token) => (uid === agent.uid && token === "good" ? { uid, call: "parent", session: "cli:default" } : undefined) },
    call: (request, signal) => {
      requests.push(request);
      signal.addEventListener("abort", () => (aborted += 1));
      return respond(request, signal);
    },
    onHello: (uid, container) => hellos.push(`${uid} ${container}`),
    clock,
    log: quiet,
  });
};

beforeEach(() => {
  home = mkdtempSync(join(tmpdir(), "bs-"));
  requests = [];
  hellos = [];
  aborted = 0;
  respond = async (request) => ok("args" in request.input ? request.input.args.join(" ") : "");
  start();
});
afterEach(async () => {
  for (const client of clients.splice(0)) client.destroy();
  await sockets.closeAll();
  rmSync(home, { recursive: true, force: true });
});

interface Client {
  readonly socket: Socket;
  /** The next frame, or undefined at the end. */
  next(): Promise<ToolResponse | undefined>;
}

async function dial(uid = agent.uid): Promise<Client> {
  const socket = createConnection({ path: socketPath(home, uid), allowHalfOpen: true });
  clients.push(socket);
  await new Promise<void>((done, fail) => socket.once("connect", done).once("error", fail));
  let text = "";
  let ended = false;
  let wake = Promise.withResolvers<void>();
  const stir = (): void => {
    wake.resolve();
    wake = Promise.withResolvers<void>();
  };
  socket.on("data", (part: Buffer) => {
    text += part.toString();
    stir();
  });
  socket.on("error", () => undefined);
  for (const event of ["end", "close"] as const) {
    socket.on(event, () => {
      ended = true;
      stir();
    });
  }
  const next = async (): Promise<ToolResponse | undefined> => {
    while (!text.includes("\n")) {
      if (ended) return undefined;
      await wake.promise;
    }
    const line = text.slice(0, text.indexOf("\n"));
    text = text.slice(line.length + 1);
    return JSON.parse(line) as ToolResponse;
  };
  return { socket, next };
}

const frame = (tool: string, args: readonly string[], more: object = {}): string =>
  `${JSON.stringify({ type: "tool_request", tool, args, ...more })}\n`;

async function until(what: () => boolean): Promise<void> {
  for (let at = 0; at < 400 && !what(); at += 1) await systemClock.sleep(10);
  expect(what()).toBe(true);
}

test("a request is answered, and its agent is the listener's, whatever the frame says", async () => {
  await sockets.open(agent, owner);
  const client = await dial();
  client.socket.write(frame("memory", ["list"], { agent: "other", uid: other.uid, principal: { kind: "operator" } }));
  expect(await client.next()).toEqual({ type: "tool_response", success: true, output: "list", exitCode: 0 });
  expect(requests).toEqual([
    { principal: { kind: "agent", uid: agent.uid, attribution: "none" }, agent, tool: "memory", input: { args: ["list"] } },
  ]);
});

test("a known token attributes the call to its command and session; a foreign one to none", async () => {
  await sockets.open(agent, owner);
  await sockets.open(other, owner);
  const mine = await dial();
  mine.socket.write(frame("memory", ["a"], { call: "good", cwd: "/workspace/x", stdin: Buffer.from("in").toString("base64") }));
  await mine.next();
  const theirs = await dial(other.uid);
  theirs.socket.write(frame("memory", ["a"], { call: "good" }));
  await theirs.next();
  expect(requests[0]).toMatchObject({
    principal: { attribution: "token" },
    parent: "parent",
    session: "cli:default",
    input: { cwd: "/workspace/x", stdin: Buffer.from("in") },
  });
  expect(requests[1]).toMatchObject({ principal: { attribution: "none", uid: other.uid }, agent: other });
  expect(requests[1]?.session).toBeUndefined();
});

test("frames may come many in a packet, a byte at a time, and between empty lines", async () => {
  await sockets.open(agent, owner);
  const client = await dial();
  client.socket.write(`${frame("t", ["1"])}\n\n${frame("t", ["2"])}${frame("t", ["3"])}`);
  expect([await client.next(), await client.next(), await client.next()].map((answer) => answer?.output)).toEqual(["1", "2", "3"]);
  for (const byte of Buffer.from(frame("t", ["ü slow"]))) {
    client.socket.write(Buffer.from([byte]));
    if (byte === 34) await systemClock.sleep(1);
  }
  expect((await client.next())?.output).toBe("ü slow");
});

test("a client that has said all and half-closes still gets its answer", async () => {
  respond = async () => {
    await systemClock.sleep(150);
    return ok("late");
  };
  await sockets.open(agent, owner);
  const client = await dial();
  client.socket.end(frame("t", []));
  expect((await client.next())?.output).toBe("late");
  expect(await client.next()).toBeUndefined();
  expect(aborted).toBe(0);
});

test("a client that leaves aborts its call", async () => {
  respond = (_request, signal) => new Promise((done) => signal.addEventListener("abort", () => done(ok("cut"))));
  await sockets.open(agent, owner);
  const client = await dial();
  client.socket.write(frame("t", []));
  await until(() => requests.length === 1);
  client.socket.destroy();
  await until(() => aborted === 1);
});

test("output that is not UTF-8 comes as base64", async () => {
  respond = async () => ok(Buffer.from([0xff, 0, 1]));
  await sockets.open(agent, owner);
  const client = await dial();
  client.socket.write(frame("t", []));
  expect(await client.next()).toEqual({ type: "tool_response", success: true, exitCode: 0, outputBase64: "/wAB" });
});

test("what is no frame gets one error frame and the connection ends", async () => {
  await sockets.open(agent, owner);
  const bad = [
    "nonsense\n",
    "[]\n",
    "null\n",
    '{"type":"x"}\n',
    '{"type":"tool_request","tool":"","args":[]}\n',
    '{"type":"tool_request","tool":"t"}\n',
  ];
  const more = [
    '{"type":"tool_request","tool":"t","args":[1]}\n',
    '{"type":"hello","container":"../x"}\n',
    frame("t", [], { stdin: "***" }),
    "\0\0\n",
    '{"type":"hello"}\n',
  ];
  for (const text of [...bad, ...more]) {
    const client = await dial();
    client.socket.write(text);
    expect(await client.next(), text).toMatchObject({
      success: false,
      exitCode: 1,
      error: expect.stringContaining("frame is not understood"),
    });
    expect(await client.next(), text).toBeUndefined();
  }
  expect(requests).toEqual([]);
});

test("odd tool names reach the policy as they are, and prototypes stay untouched", async () => {
  await sockets.open(agent, owner);
  const client = await dial();
  for (const tool of ["../../etc/passwd", "a\0b", "__proto__", "other/exec"])
    client.socket.write(frame(tool, ["other"], JSON.parse('{"__proto__":{"x":1}}') as object));
  for (let at = 0; at < 4; at += 1) await client.next();
  expect(requests.map((request) => request.tool)).toEqual(["../../etc/passwd", "a\0b", "__proto__", "other/exec"]);
  expect(({} as { x?: number }).x).toBeUndefined();
});

test("a line of 64 MiB is cut off at 2 MiB while another client is served", async () => {
  await sockets.open(agent, owner);
  const client = await dial();
  const part = Buffer.alloc(1024 * 1024, 120);
  let sent = 0;
  const flood = (async () => {
    for (; sent < 64 && !client.socket.destroyed && client.socket.writable; sent += 1)
      await new Promise((done) => client.socket.write(part, done));
  })();
  const quick = await dial();
  quick.socket.write(frame("t", ["fine"]));
  expect((await quick.next())?.output).toBe("fine");
  expect(await client.next()).toMatchObject({ success: false, error: expect.stringContaining("longer than") });
  client.socket.destroy();
  await flood;
});

test("a client that goes on after it was refused is cut off, not read to its end", async () => {
  await sockets.open(agent, owner);
  const client = await dial();
  const part = Buffer.alloc(256 * 1024, 120);
  let sent = 0;
  while (!client.socket.destroyed && client.socket.writable && sent < 256) {
    const gone = await new Promise((done) => client.socket.write(part, done));
    if (gone instanceof Error) break;
    sent += 1;
  }
  expect(sent * part.length).toBeLessThan(8 * 1024 * 1024);
  const quick = await dial();
  quick.socket.write(frame("t", ["fine"]));
  expect((await quick.next())?.output).toBe("fine");
});

test("a thousand silent connections keep neither the agent's own call nor another agent's out", async () => {
  await sockets.open(agent, owner);
  await sockets.open(other, owner);
  const greeter = await dial();
  greeter.socket.write('{"type":"hello","v":1,"container":"abc123"}\n');
  await until(() => hellos.length === 1);
  await Promise.all(Array.from({ length: 1_000 }, () => dial().catch(() => undefined)));
  for (const uid of [agent.uid, other.uid]) {
    const client = await dial(uid);
    client.socket.write(frame("t", ["served"]));
    expect((await client.next())?.output).toBe("served");
  }
  expect(sockets.seen(agent.uid).hellos).toEqual(["abc123"]);
});

test("silent and trickling clients are ended after their time; greeted ones stay", async () => {
  await sockets.closeAll();
  start(fast);
  await sockets.open(agent, owner);
  const [silent, slow, greeted] = [await dial(), await dial(), await dial()];
  greeted.socket.write('{"type":"hello","v":1,"container":"abc123"}\n');
  const trickle = setInterval(() => slow.socket.write("x"), 20);
  expect(await silent.next()).toMatchObject({ error: expect.stringContaining("no whole frame") });
  expect(await slow.next()).toMatchObject({ error: expect.stringContaining("no whole frame") });
  clearInterval(trickle);
  await systemClock.sleep(300);
  expect(sockets.seen(agent.uid)).toEqual({ listening: true, hellos: ["abc123"] });
  greeted.socket.destroy();
  await until(() => sockets.seen(agent.uid).hellos.length === 0);
});

test("a working call may take its time", async () => {
  await sockets.closeAll();
  start(fast);
  respond = async () => {
    await systemClock.sleep(500);
    return ok("worth it");
  };
  await sockets.open(agent, owner);
  const client = await dial();
  client.socket.write(frame("t", []));
  expect((await client.next())?.output).toBe("worth it");
});

test("more than sixteen calls at once are refused with a word, and there is room again afterwards", async () => {
  const gate = Promise.withResolvers<void>();
  respond = async () => {
    await gate.promise;
    return ok("done");
  };
  await sockets.open(agent, owner);
  const busy = await Promise.all(Array.from({ length: 16 }, () => dial()));
  for (const client of busy) client.socket.write(frame("t", []));
  await until(() => requests.length === 16);
  const late = await dial();
  late.socket.write(frame("t", []));
  expect(await late.next()).toMatchObject({ success: false, error: expect.stringContaining("retry") });
  gate.resolve();
  for (const client of busy) expect((await client.next())?.output).toBe("done");
  const again = await dial();
  again.socket.write(frame("t", []));
  expect((await again.next())?.output).toBe("done");
});

test("a gateway failure is an error frame without its insides; a refusal keeps its words", async () => {
  respond = async () => Promise.reject(new Error("stack and secrets"));
  await sockets.open(agent, owner);
  const client = await dial();
  client.socket.write(frame("t", []));
  expect(await client.next()).toEqual({ type: "tool_response", success: false, exitCode: 1, error: "the gateway failed: see its log" });
  respond = async () => Promise.reject(new BeigeError("unavailable", "audit cannot be written"));
  client.socket.write(frame("t", []));
  expect((await client.next())?.error).toBe("audit cannot be written");
});

test("the socket is its owner's alone, and its folder only passes through", async () => {
  const box = process.getuid?.() === 0 ? { uid: 20_001, gid: 20_001 } : owner;
  await sockets.open(agent, box);
  expect(statSync(socketPath(home, agent.uid))).toMatchObject({ uid: box.uid, gid: box.gid });
  expect(statSync(socketPath(home, agent.uid)).mode & 0o777).toBe(0o600);
  expect(statSync(socketFolder(home, agent.uid)).mode & 0o777).toBe(0o711);
});

test("opening twice changes nothing; a removed socket file is made anew", async () => {
  await sockets.open(agent, owner);
  const client = await dial();
  await sockets.open(agent, owner);
  client.socket.write(frame("t", ["same"]));
  expect((await client.next())?.output).toBe("same");
  rmSync(socketPath(home, agent.uid));
  await sockets.open(agent, owner);
  const again = await dial();
  again.socket.write(frame("t", ["new"]));
  expect((await again.next())?.output).toBe("new");
});

test("a stale socket and an engine's empty folder are replaced; anything else in the way is left alone", async () => {
  mkdirSync(socketFolder(home, agent.uid), { recursive: true });
  const stale = createServer();
  await new Promise<void>((done) => stale.listen(socketPath(home, agent.uid), done));
  await sockets.open(agent, owner);
  stale.close();
  await sockets.close(agent.uid);
  mkdirSync(socketPath(home, other.uid), { recursive: true });
  await sockets.open(other, owner);
  expect(lstatSync(socketPath(home, other.uid)).isSocket()).toBe(true);
  await sockets.close(other.uid);
  const victim = join(home, "victim");
  mkdirSync(victim);
  symlinkSync(victim, socketFolder(home, other.uid));
  await expect(sockets.open(other, owner)).rejects.toMatchObject({ code: "unavailable" });
  expect(existsSync(join(victim, "gateway.sock"))).toBe(false);
  mkdirSync(socketFolder(home, agent.uid), { recursive: true });
  writeFileSync(socketPath(home, agent.uid), "x");
  await expect(sockets.open(agent, owner)).rejects.toMatchObject({ code: "unavailable" });
  rmSync(socketPath(home, agent.uid));
});

test("closing ends clients with an error frame, aborts their calls and removes the file", async () => {
  respond = () => new Promise(() => undefined);
  await sockets.open(agent, owner);
  const client = await dial();
  client.socket.write(frame("t", []));
  await until(() => requests.length === 1);
  await sockets.close(agent.uid);
  expect(await client.next()).toMatchObject({ success: false, error: expect.stringContaining("closes") });
  expect(aborted).toBe(1);
  expect(existsSync(socketPath(home, agent.uid))).toBe(false);
  expect(sockets.seen(agent.uid)).toEqual({ listening: false, hellos: [] });
});

test("a home whose socket path would be cut is refused", async () => {
  const long = createSockets({
    home: `/${"x".repeat(100)}`,
    call: respond,
    tokens: { find: () => undefined },
    onHello: () => undefined,
    clock: systemClock,
    log: quiet,
  });
  await expect(long.open(agent, owner)).rejects.toMatchObject({ code: "invalid" });
});

test("leftover folders of earlier gateways are named", async () => {
  await sockets.open(agent, owner);
  mkdirSync(socketFolder(home, other.uid), { recursive: true });
  expect((await sockets.names()).toSorted()).toEqual([agent.uid, "22222222aa"]);
  await sockets.close("22222222aa");
  expect(await sockets.names()).toEqual([agent.uid]);
});

test("the launcher in the sandbox speaks this protocol", async () => {
  respond = async (request) => ok(JSON.stringify(request.input), { exitCode: 7, success: false, error: "because" });
  await sockets.open(agent, owner);
  const child = spawn(guestBinary, ["call", "memory", "save", "ключ", 'a "b" \\ c'], {
    env: { BEIGE_SOCKET: socketPath(home, agent.uid), BEIGE_CALL: "good" },
    stdio: ["pipe", "pipe", "pipe"],
  });
  child.stdin.end("from stdin");
  let out = "";
  let err = "";
  child.stdout.on("data", (part: Buffer) => (out += part.toString()));
  child.stderr.on("data", (part: Buffer) => (err += part.toString()));
  const code = await new Promise((done) => child.on("close", done));
  expect(code).toBe(7);
  expect(err).toContain("because");
  expect(requests[0]).toMatchObject({ tool: "memory", session: "cli:default", input: { args: ["save", "ключ", 'a "b" \\ c'] } });
  expect(Buffer.from((requests[0]?.input as { stdin?: Uint8Array } | undefined)?.stdin ?? []).toString()).toBe("from stdin");
  expect(out).toContain("ключ");
});
