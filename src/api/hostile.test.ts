import { spawn } from "node:child_process";
import { once } from "node:events";
import { rmSync } from "node:fs";
import { connect, type Socket } from "node:net";
import { setTimeout as sleep } from "node:timers/promises";
import { afterEach, expect, test } from "vitest";
import type { TurnEvent } from "../core/turn.ts";
import { rig, type Rig } from "./rig.ts";

let at: Rig | undefined;
afterEach(() => at?.end());
const start = async (over: Parameters<typeof rig>[0] = {}): Promise<Rig> => (at = await rig(over));

/** All that comes until the other side closes. */
async function heard(socket: Socket): Promise<string> {
  const chunks: Buffer[] = [];
  socket.on("data", (chunk: Buffer) => chunks.push(chunk));
  if (!socket.destroyed) await once(socket, "close");
  return Buffer.concat(chunks).toString("latin1");
}

async function raw(r: Rig, text: string | Buffer, door: "tcp" | "socket" = "tcp"): Promise<string> {
  const socket = r.dial(door);
  socket.write(text);
  return heard(socket);
}

const status = (answer: string): number => Number(/^HTTP\/1\.1 (\d+)/.exec(answer)?.[1] ?? 0);
const healthy = async (r: Rig): Promise<void> => expect((await r.ask("GET /livez")).text).toBe("ok");
const AGENTS = "/apis/beige.dev/v1/namespaces/default/agents";

test("without the token nothing answers over TCP but health, not even what does not exist", async () => {
  const r = await start();
  const none = { tcp: true, headers: { authorization: "" } };
  for (const path of ["/apis", "/nothing", AGENTS, "/api/kinds", "/api/agents/x/exec", "/%zz", "/version", "/livez", "/"]) {
    const answer = await r.ask(`GET ${path}`, none);
    expect([path, answer.status, answer.headers["www-authenticate"]]).toEqual([path, 401, "Bearer"]);
  }
  expect((await r.ask(`GET ${AGENTS}?token=${r.token}&access_token=${r.token}`, none)).status).toBe(401);
  expect((await r.ask("GET /api/health", none)).status).toBe(200);
  expect((await r.ask("POST /api/agents/x/exec", { ...none, body: { command: "x" } })).status).toBe(401);
});

test("a rebound name, a foreign page and a plain form get nothing, even with the token", async () => {
  const r = await start();
  r.control.put("Agent", "travel");
  expect((await r.ask(`GET ${AGENTS}`, { tcp: true, headers: { host: "evil.example" } })).status).toBe(421);
  expect((await r.ask("GET /api/health", { tcp: true, headers: { host: `evil.example:${r.port}` } })).status).toBe(421);
  const foreign = await r.ask(`GET ${AGENTS}`, { tcp: true, headers: { origin: "http://evil.example" } });
  expect([foreign.status, foreign.headers["access-control-allow-origin"]]).toEqual([403, undefined]);
  expect(
    (await r.ask(`OPTIONS ${AGENTS}`, { tcp: true, headers: { origin: "http://evil.example", "access-control-request-method": "POST" } }))
      .status,
  ).toBe(405);
  for (const type of [
    "text/plain",
    "application/x-www-form-urlencoded",
    "multipart/form-data; boundary=x",
    "application/json-seq",
    "json",
    "application/json,text/plain",
  ])
    expect([type, (await r.ask("POST /api/agents/travel/exec", { body: '{"command":"x"}', type })).status]).toEqual([type, 415]);
});

test("a host header twice, none at all, or a whole URL as target is refused", async () => {
  const r = await start();
  const auth = `Authorization: Bearer ${r.token}\r\nConnection: close`;
  expect(status(await raw(r, `GET /apis HTTP/1.1\r\nHost: 127.0.0.1:${r.port}\r\nHost: evil\r\n${auth}\r\n\r\n`))).toBe(400);
  expect(status(await raw(r, `GET /apis HTTP/1.1\r\n${auth}\r\n\r\n`))).toBe(400);
  expect(status(await raw(r, `GET http://evil/apis HTTP/1.1\r\nHost: 127.0.0.1:${r.port}\r\n${auth}\r\n\r\n`))).toBe(400);
  expect(status(await raw(r, `GET /apis HTTP/1.1\r\nHost: 127.0.0.1:${r.port}\r\n${auth}\r\n\r\n`))).toBe(200);
});

test("path tricks never reach the engine as names", async () => {
  const r = await start();
  r.control.put("Agent", "travel");
  for (const name of [
    "%2e%2e",
    "..%2f..%2fetc",
    "a%00b",
    "Travel",
    "tr%C3%A4vel",
    "travel%20",
    "travel.",
    "-x",
    "x".repeat(64),
    "%F0%9F%8D%95",
    "a%2Fb",
    "__proto__",
    "%0d%0ax",
  ])
    expect([name, (await r.ask(`GET ${AGENTS}/${name}`)).status]).toEqual([name, 400]);
  for (const path of ["/apis/beige.dev/v1/namespaces/%2e%2e/agents/travel", "/apis/beige.dev/v1/namespaces/a%2Fb/agents"])
    expect((await r.ask(`GET ${path}`)).status).toBe(400);
  for (const path of [
    `${AGENTS}/../agents/travel`,
    `/${AGENTS}`,
    `${AGENTS}/travel/`,
    `${AGENTS}//travel`,
    `/apis/beige.dev/v1/../v1/agents`,
  ])
    expect([path, [400, 404].includes((await r.ask(`GET ${path}`)).status)]).toEqual([path, true]);
  for (const path of ["/%zz", `${AGENTS}/%`, `${AGENTS}/%ff`]) expect((await r.ask(`GET ${path}`)).status).toBe(400);
  expect([400, 404, 414]).toContain((await r.ask(`GET ${AGENTS}/${"x".repeat(2000)}`)).status);
  expect((await r.ask(`GET ${AGENTS}/travel`)).status).toBe(200);
});

test("prototype keys in body and query change nothing", async () => {
  const r = await start();
  expect((await r.ask(`POST ${AGENTS}`, { body: '{"metadata":{"name":"x"},"spec":{"__proto__":{"polluted":1}}}' })).status).toBe(400);
  expect(
    (await r.ask(`PATCH ${AGENTS}/x`, { body: '{"constructor":{"prototype":{"polluted":1}}}', type: "application/merge-patch+json" }))
      .status,
  ).toBe(400);
  expect((await r.ask(`GET ${AGENTS}?__proto__[polluted]=1&constructor=2`)).status).toBe(200);
  expect((await r.ask("POST /api/apply", { body: '{"files":[{"name":"a","text":"","vars":{"__proto__":"x"}}]}' })).status).toBe(400);
  expect(({} as Record<string, unknown>).polluted).toBeUndefined();
  expect(r.control.writes).toEqual([]);
});

test("a body over the limit is refused whether it says its length or not, and bodies are never unpacked", async () => {
  const r = await start({ limits: { bodyBytes: 100_000 } });
  const big = JSON.stringify({ metadata: { name: "x", annotations: { a: "x".repeat(200_000) } } });
  const told = await r.ask(`POST ${AGENTS}`, { body: big });
  expect([told.status, told.json.error.message]).toEqual([413, "the request body is longer than 100000 bytes"]);
  const socket = r.dial("socket");
  socket.write(`POST ${AGENTS} HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n`);
  for (let i = 0; i < 30; i++) socket.write(`2710\r\n${" ".repeat(10_000)}\r\n`);
  expect(status(await heard(socket))).toBe(413);
  expect((await r.ask(`POST ${AGENTS}`, { body: "x", headers: { "content-encoding": "gzip" } })).status).toBe(415);
  await healthy(r);
});

test("huge headers and bytes that are no HTTP are answered and cut", async () => {
  const r = await start();
  expect(status(await raw(r, `GET / HTTP/1.1\r\nHost: x\r\nX: ${"a".repeat(40_000)}\r\n\r\n`, "socket"))).toBe(431);
  expect(status(await raw(r, "\x16\x03\x01\x02\x00\x01\x00\x01\xfc\r\n\r\n"))).toBe(400);
  expect(
    status(
      await raw(r, `POST ${AGENTS} HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n`, "socket"),
    ),
  ).toBe(400);
  expect(status(await raw(r, `GET ${AGENTS}/a\0b HTTP/1.1\r\nHost: x\r\n\r\n`, "socket"))).toBe(400);
  await healthy(r);
});

test("those who say nothing, little or half are cut in time while others are served", async () => {
  const r = await start({ limits: { headersMs: 300, requestMs: 600 } });
  const started = Date.now();
  const silent = Array.from({ length: 50 }, () => heard(r.dial("tcp")));
  const slow = r.dial("tcp");
  slow.write("GET / HTTP/1.1\r\nHost: x\r\n");
  const dripping = setInterval(() => void (slow.writable && slow.write("X-A: b\r\n")), 50);
  const half = r.dial("socket");
  half.write(`POST ${AGENTS} HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: 100\r\n\r\n{"a":`);
  await healthy(r);
  const answers = await Promise.all([heard(slow), heard(half), ...silent]);
  clearInterval(dripping);
  expect(Date.now() - started).toBeLessThan(10_000);
  expect([0, 408]).toContain(status(answers[0] ?? ""));
  expect(r.control.writes).toEqual([]);
});

test("idle connections end, and a full TCP door leaves the socket open", async () => {
  const r = await start({ limits: { tcpConnections: 5, keepAliveMs: 200 } });
  const many = Array.from({ length: 20 }, () => r.dial("tcp"));
  await Promise.all(many.map((s) => once(s, "connect")));
  await healthy(r);
  for (const s of many) s.destroy();
  await sleep(50);
  const kept = r.dial("tcp");
  kept.write(`GET /api/health HTTP/1.1\r\nHost: 127.0.0.1:${r.port}\r\n\r\n`);
  expect(status(await heard(kept))).toBe(200);
});

test("a half-closed client gets the answer to what it asked, and holds no stream open", async () => {
  const r = await start();
  const socket = r.dial("socket");
  socket.end("GET /livez HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n");
  expect((await heard(socket)).endsWith("\r\n\r\nok")).toBe(true);
  const watching = r.dial("socket");
  watching.write(`GET ${AGENTS}?watch=1 HTTP/1.1\r\nHost: x\r\n\r\n`);
  while (r.control.watching.count === 0) await sleep(5);
  watching.end();
  for (let i = 0; i < 100 && r.control.watching.count > 0; i++) await sleep(10);
  expect(r.control.watching.count).toBe(0);
  const cut = r.dial("socket");
  cut.end(`POST ${AGENTS} HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: 50\r\n\r\n{"metadata":{"name":"x"}}`);
  await heard(cut);
  expect(r.control.writes).toEqual([]);
  await healthy(r);
});

const chunkedEnd = "\r\n0\r\n\r\n";

test("the terminator comes at the end of a stream, and only then", async () => {
  const r = await start();
  r.control.put("Agent", "travel");
  const body = '{"text":"hi"}';
  const request = `POST /api/agents/travel/prompt HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Type: application/json\r\nContent-Length: ${body.length}\r\n\r\n${body}`;
  expect((await raw(r, request, "socket")).endsWith(chunkedEnd)).toBe(true);
  const old = await raw(r, request.replace("HTTP/1.1", "HTTP/1.0"), "socket");
  expect(old).toContain(" 505 ");
});

test("a reader that stops reading is cut without a terminator and ends what it asked for", async () => {
  let produced = 0;
  const ended: string[] = [];
  const flood = async function* (_: unknown, signal: AbortSignal): AsyncIterable<TurnEvent> {
    try {
      for (; !signal.aborted && produced < 100_000; produced++) yield { type: "text", delta: "x".repeat(10_000) };
    } finally {
      ended.push("yes");
    }
  };
  const r = await start({ turn: flood, limits: { stallMs: 300 } });
  r.control.put("Agent", "travel");
  const body = '{"text":"hi"}';
  const socket = r.dial("socket");
  socket.pause();
  socket.write(
    `POST /api/agents/travel/prompt HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: ${body.length}\r\n\r\n${body}`,
  );
  for (let i = 0; i < 300 && ended.length === 0; i++) await sleep(10);
  expect(ended).toEqual(["yes"]);
  expect(produced).toBeLessThan(500);
  expect(r.logged).toContain("slow reader cut");
  const rest = heard(socket);
  socket.resume();
  expect((await rest).endsWith(chunkedEnd)).toBe(false);
  await healthy(r);
});

test("a slow reader that goes on reading gets everything, in order", async () => {
  const r = await start({
    turn: async function* (): AsyncIterable<TurnEvent> {
      for (let i = 0; i < 300; i++) yield { type: "text", delta: `${i}:${"y".repeat(20_000)}` };
    },
  });
  r.control.put("Agent", "travel");
  const answer = await r.ask("POST /api/agents/travel/prompt", { body: { text: "x" } });
  const numbers = answer.text
    .trimEnd()
    .split("\n")
    .map((line) => Number.parseInt(JSON.parse(line).delta, 10));
  expect([answer.complete, numbers]).toEqual([true, Array.from({ length: 300 }, (_, i) => i)]);
});

test("closing lets a turn finish, aborts one that does not, and refuses new requests meanwhile", async () => {
  const ends: string[] = [];
  const r = await start({
    limits: { drainMs: 400 },
    turn: async function* (request, signal): AsyncIterable<TurnEvent> {
      yield { type: "session", session: "s", inbox: "i" };
      const aborted = new Promise<string>((resolve) => {
        signal.addEventListener("abort", () => resolve("aborted"));
      });
      ends.push(await Promise.race([aborted, sleep(request.text === "short" ? 100 : 60_000, "finished", { ref: false })]));
      yield { type: "error", code: "unavailable", message: "the end" };
    },
  });
  r.control.put("Agent", "travel");
  const answers = ["short", "long"].map((text) => r.ask("POST /api/agents/travel/prompt", { body: { text } }));
  const kept = r.dial("tcp");
  await sleep(50);
  const started = Date.now();
  const closed = r.api.close();
  kept.write(`GET /api/health HTTP/1.1\r\nHost: 127.0.0.1:${r.port}\r\n\r\n`);
  const late = await heard(kept);
  expect([0, 503]).toContain(status(late));
  await closed;
  expect(Date.now() - started).toBeLessThan(5_000);
  expect(ends).toEqual(["finished", "aborted"]);
  for (const answer of await Promise.all(answers)) expect([answer.complete, answer.text.endsWith('"the end"}\n')]).toEqual([true, true]);
});

test("a client that does not take its answer is cut, however long the answer is", async () => {
  const r = await start({ limits: { stallMs: 300 } });
  for (let i = 0; i < 300; i++) r.control.put("Agent", `a${i}`, { text: "x".repeat(20_000) });
  const socket = r.dial("socket");
  socket.pause();
  socket.write(`GET ${AGENTS} HTTP/1.1\r\nHost: x\r\n\r\n`);
  await sleep(900);
  const rest = heard(socket);
  socket.resume();
  expect((await rest).length).toBeLessThan(6_000_000);
  await healthy(r);
});

test("the limit on unread answers does not end a quiet watch or a long call on the same connection", async () => {
  const r = await start({
    limits: { stallMs: 150, keepAliveMs: 150 },
    call: async () => (
      await sleep(600),
      { call: "c", success: true, output: new TextEncoder().encode("late"), exitCode: 0, outcome: "ok" }
    ),
  });
  r.control.put("Agent", "travel");
  const socket = r.dial("socket");
  let text = "";
  socket.on("data", (chunk: Buffer) => void (text += chunk.toString()));
  const has = async (words: string): Promise<void> => {
    for (let i = 0; i < 300 && !text.includes(words); i++) await sleep(10);
    expect(text).toContain(words);
  };
  socket.write("GET /livez HTTP/1.1\r\nHost: x\r\n\r\n");
  await has("\r\nok");
  const body = '{"command":"x"}';
  socket.write(
    `POST /api/agents/travel/exec HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: ${body.length}\r\n\r\n${body}`,
  );
  await has('"text":"late"');
  socket.write(`GET ${AGENTS}?watch=1 HTTP/1.1\r\nHost: x\r\n\r\n`);
  await sleep(600);
  r.control.put("Agent", "new");
  await has('"name":"new"');
  socket.destroy();
});

test("a gateway that is killed in the middle of a stream leaves it without a terminator", async () => {
  const script = `const { rig } = await import(${JSON.stringify(new URL("./rig.ts", import.meta.url).href)});
    const r = await rig({ turn: async function* () { for (;;) { yield { type: "text", delta: "x" }; await new Promise((d) => setTimeout(d, 20)); } } });
    r.control.put("Agent", "travel"); console.log(JSON.stringify([r.socket, r.folder]));`;
  const child = spawn(process.execPath, ["--input-type=module", "-e", script], { stdio: ["ignore", "pipe", "inherit"] });
  const [line] = (await once(child.stdout, "data")) as [Buffer];
  const [path, folder] = JSON.parse(line.toString()) as [string, string];
  const socket = connect({ path });
  const body = '{"text":"hi"}';
  socket.write(
    `POST /api/agents/travel/prompt HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: ${body.length}\r\n\r\n${body}`,
  );
  const all = heard(socket);
  await sleep(150);
  child.kill("SIGKILL");
  const answer = await all;
  rmSync(folder, { recursive: true, force: true });
  expect([status(answer), answer.includes('"delta"'), answer.endsWith(chunkedEnd)]).toEqual([200, true, false]);
});

test("a storm of broken requests leaves the gateway serving, with nothing held", async () => {
  const r = await start({ limits: { headersMs: 300, requestMs: 600 } });
  const parts = [
    "GET / HTTP/1.1\r\n",
    "Host: x\r\n",
    "\r\n",
    "\0",
    "POST /api/apply HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: 3\r\n\r\n{}",
    "Transfer-Encoding: chunked\r\n",
    "ffffffffffffffff\r\n",
    "\r\n\r\n",
  ];
  let seed = 7;
  const next = (n: number): number => (seed = (seed * 1103515245 + 12345) % 2147483648) % n;
  const sockets = Array.from({ length: 200 }, () => {
    const socket = r.dial(next(2) === 0 ? "tcp" : "socket");
    for (let i = next(5); i >= 0; i--) socket.write(parts[next(parts.length)] ?? "");
    if (next(3) === 0) socket.destroy();
    return heard(socket);
  });
  await Promise.all(sockets);
  await healthy(r);
  expect(r.control.writes).toEqual([]);
  expect(r.logged).toEqual([]);
});
