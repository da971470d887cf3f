import { setTimeout as sleep } from "node:timers/promises";
import { afterEach, expect, test } from "vitest";
import type { CallRequest } from "../core/call.ts";
import type { ApplyEvent } from "../core/control.ts";
import { BeigeError } from "../core/errors.ts";
import type { TurnEvent, TurnRequest } from "../core/turn.ts";
import { rig, type Answer, type Rig } from "./rig.ts";

let at: Rig | undefined;
afterEach(() => at?.end());

async function start(over: Parameters<typeof rig>[0] = {}): Promise<Rig> {
  at = await rig(over);
  at.control.put("Agent", "travel", { model: { provider: "echo", id: "echo" }, tools: ["git"] });
  at.control.put("Agent", "ops", { tools: [] }, { namespace: "team" });
  return at;
}

const abortOf = (signal: AbortSignal): Promise<void> =>
  new Promise((resolve) => {
    signal.addEventListener("abort", () => resolve());
  });

const lines = (answer: Answer) =>
  answer.text
    .trimEnd()
    .split("\n")
    .map((line) => JSON.parse(line));

test("health says starting with 503 until the first pass has settled, and one word to strangers", async () => {
  const r = await start();
  r.control.ready = false;
  const early = await r.ask("GET /api/health");
  expect([early.status, early.json.status, early.headers["retry-after"]]).toEqual([503, "starting", "1"]);
  expect((await r.ask("GET /readyz")).status).toBe(503);
  r.control.ready = true;
  expect((await r.ask("GET /api/health")).json).toMatchObject({ status: "ok", ready: true, engine: "ok", version: "0.1.0" });
  const stranger = await r.ask("GET /api/health", { tcp: true, headers: { authorization: "Bearer no" } });
  expect([stranger.status, stranger.text]).toEqual([200, '{"status":"ok"}']);
  expect((await r.ask("GET /readyz")).text).toBe("ok");
});

test("agents are listed with their tools, and found by NAME or NS.NAME", async () => {
  const r = await start();
  const { json } = await r.ask("GET /api/agents");
  expect(json.map((a: { name: string; tools: string[]; ready: string }) => [a.name, a.tools, a.ready])).toEqual([
    ["travel", ["git"], "Unknown"],
    ["team.ops", [], "Unknown"],
  ]);
  for (const name of ["travel", "default.travel", "team.ops"]) expect((await r.ask(`GET /api/agents/${name}`)).status).toBe(200);
  for (const name of ["ops", "team.travel"]) expect((await r.ask(`GET /api/agents/${name}`)).status).toBe(404);
  for (const name of ["a.b.c", ".travel", "team.", "%2e%2e"]) expect((await r.ask(`GET /api/agents/${name}`)).status).toBe(400);
});

test("exec runs a command, a core tool with params, or a plugin's tool with words", async () => {
  const calls: CallRequest[] = [];
  const r = await start({
    call: async (request) => {
      calls.push(request);
      return { call: "c7", success: true, output: new TextEncoder().encode("out"), exitCode: 0, outcome: "ok" };
    },
  });
  const post = (body: unknown) => r.ask("POST /api/agents/team.ops/exec", { body });
  expect((await post({ command: "ls", timeout: 5, cwd: "/workspace" })).json).toEqual({
    content: [{ type: "text", text: "out" }],
    exitCode: 0,
    success: true,
    outcome: "ok",
    call: "c7",
  });
  await post({ tool: "read", params: { path: "a" }, session: "cli:x" });
  await post({ tool: "git", args: ["status", "-s"], stdin: "ü" });
  expect(calls.map((c) => [c.principal.kind, c.agent.uid, c.tool, c.input, c.session])).toEqual([
    ["operator", "uid-Agent-team.ops", "exec", { params: { command: "ls", timeout: 5, cwd: "/workspace" } }, undefined],
    ["operator", "uid-Agent-team.ops", "read", { params: { path: "a" } }, "cli:x"],
    ["operator", "uid-Agent-team.ops", "git", { args: ["status", "-s"], stdin: new TextEncoder().encode("ü") }, undefined],
  ]);
  for (const bad of [
    {},
    { tool: "" },
    { tool: "exec" },
    { tool: "git", params: {} },
    { command: "a", tool: "b" },
    { command: 1 },
    { tool: "git", args: [1] },
    { comand: "ls" },
    { command: "ls", agent: "travel" },
  ])
    expect([(await post(bad)).status, bad]).toEqual([400, bad]);
  expect(calls).toHaveLength(3);
});

test("what a tool did is a value: its exit code, its refusal, and its bytes", async () => {
  const bytes = new Uint8Array([0xff, 0x00, 0x41]);
  const results = [
    { call: "1", success: false, output: bytes, exitCode: 3, outcome: "failed" as const },
    {
      call: "2",
      success: false,
      output: new Uint8Array(),
      exitCode: 1,
      outcome: "denied" as const,
      error: "Permission denied: tool 'x' not allowed for agent 'travel'",
    },
  ];
  const r = await start({ call: async () => results.shift() ?? Promise.reject(new BeigeError("unavailable", "audit cannot be written")) });
  const post = () => r.ask("POST /api/agents/travel/exec", { body: { command: "x" } });
  const failed = await post();
  expect([failed.status, failed.json.exitCode, Buffer.from(failed.json.outputBase64, "base64")]).toEqual([200, 3, Buffer.from(bytes)]);
  const denied = await post();
  expect([denied.status, denied.json.outcome, denied.json.content[0].text]).toEqual([
    200,
    "denied",
    "Permission denied: tool 'x' not allowed for agent 'travel'",
  ]);
  const refused = await post();
  expect([refused.status, refused.json.error.code]).toEqual([503, "unavailable"]);
});

test("a picture is a part of the content, and a short command takes all that the tool takes", async () => {
  const asked: CallRequest[] = [];
  const image = { type: "image" as const, mimeType: "image/png", data: "iVBORw0KGgo=" };
  const output = new TextEncoder().encode("[i.png is a picture]");
  const r = await start({
    call: async (request) => (asked.push(request), { call: "c", success: true, output, exitCode: 0, outcome: "ok", images: [image] }),
  });
  const params = { command: "x", env: { A: "b" }, stdin: "in", background: true, timeout: 5 };
  const { json } = await r.ask("POST /api/agents/travel/exec", { body: params });
  expect(json.content).toEqual([{ type: "text", text: "[i.png is a picture]" }, image]);
  expect(asked[0]?.input).toEqual({ params });
});

test("an agent that is not known is said before anything runs", async () => {
  const r = await start({ call: () => Promise.reject(new Error("ran")) });
  const answer = await r.ask("POST /api/agents/nobody/exec", { body: { command: "x" } });
  expect([answer.status, answer.json.error.code, answer.json.error.hint]).toEqual([404, "not_found", "beige get agents -A"]);
});

test("a client that leaves aborts its call and its turn", async () => {
  const aborted: string[] = [];
  const r = await start({
    call: async (_, signal) => {
      await abortOf(signal);
      aborted.push("call");
      return { call: "", success: false, output: new Uint8Array(), exitCode: 130, outcome: "cancelled" };
    },
    turn: async function* (_: TurnRequest, signal: AbortSignal): AsyncIterable<TurnEvent> {
      yield { type: "session", session: "s", inbox: "i" };
      await abortOf(signal);
      aborted.push("turn");
      yield { type: "error", code: "unavailable", message: "cancelled" };
    },
  });
  for (const [path, body] of [
    ["exec", '{"command":"x"}'],
    ["prompt", '{"text":"x"}'],
    ["prompt", '{"message":"x"}'],
  ] as const) {
    const socket = r.dial("socket");
    socket.write(
      `POST /api/agents/travel/${path} HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: ${body.length}\r\n\r\n${body}`,
    );
    await sleep(60);
    socket.destroy();
  }
  for (let i = 0; i < 200 && aborted.length < 3; i++) await sleep(10);
  expect(aborted).toEqual(["call", "turn", "turn"]);
});

test("a prompt streams its events; the older form answers the text alone", async () => {
  const r = await start();
  const streamed = await r.ask("POST /api/agents/travel/prompt", { body: { text: "hello", session: "cli:a" } });
  expect([streamed.status, streamed.headers["content-type"], streamed.complete]).toEqual([200, "application/x-ndjson", true]);
  expect(lines(streamed).map((e) => e.type)).toEqual(["session", "text", "done"]);
  expect((await r.ask("POST /api/agents/travel/prompt", { body: { message: "hi", sessionKey: "k" } })).json).toEqual({ response: "hi" });
  for (const bad of [
    {},
    { text: "" },
    { text: 1 },
    { text: "x", fresh: "yes" },
    { message: "" },
    { message: "x", text: "y" },
    { text: "x", sesion: "y" },
  ])
    expect([(await r.ask("POST /api/agents/travel/prompt", { body: bad })).status, bad]).toEqual([400, bad]);
});

test("an error of the turn has its own status in the older form, with the time to wait", async () => {
  const r = await start({
    turn: async function* (): AsyncIterable<TurnEvent> {
      yield { type: "error", code: "exhausted", message: "all models cool down", retryAfterMs: 59_001 };
    },
  });
  const { status, headers, json } = await r.ask("POST /api/agents/travel/prompt", { body: { message: "x" } });
  expect([status, headers["retry-after"], json.reason, json.details.retryAfterSeconds]).toEqual([429, "60", "TooManyRequests", 60]);
});

test("a turn that throws before its first event is an error answer, after it a last error event", async () => {
  const script = [
    // oxlint-disable-next-line require-yield -- it throws before its first event
    async function* (): AsyncIterable<TurnEvent> {
      throw new BeigeError("unavailable", "no model answers", { hint: "beige describe provider/x" });
    },
    async function* (): AsyncIterable<TurnEvent> {
      yield { type: "text", delta: "a" };
      throw new Error("planted-secret");
    },
  ];
  const r = await start({ turn: () => (script.shift() ?? (() => ({}) as never))() });
  const early = await r.ask("POST /api/agents/travel/prompt", { body: { text: "x" } });
  expect([early.status, early.json.error.hint]).toEqual([503, "beige describe provider/x"]);
  const late = await r.ask("POST /api/agents/travel/prompt", { body: { text: "x" } });
  expect(lines(late)).toEqual([
    { type: "text", delta: "a" },
    { type: "error", code: "internal", message: "the gateway failed on this request", hint: "beige gateway logs" },
  ]);
  expect(late.complete).toBe(true);
});

test("apply streams its events to the end, with defaults that wait and never prune", async () => {
  const r = await start();
  const seen: unknown[] = [];
  const apply = r.control.apply.bind(r.control);
  Object.assign(r.control, { apply: (request: unknown, signal: AbortSignal) => (seen.push(request), apply(request as never, signal)) });
  r.control.applies = [{ type: "problems", problems: [] }];
  const answer = await r.ask("POST /api/apply", {
    body: { files: [{ name: "a.yaml", folder: "/x", text: "kind: Agent", vars: { A: "1" } }] },
  });
  expect(lines(answer).map((e) => e.type)).toEqual(["problems", "end"]);
  expect(seen).toMatchObject([
    {
      set: "default",
      dryRun: false,
      forceConflicts: false,
      prune: false,
      wait: true,
      timeoutMs: 300_000,
      files: [{ name: "a.yaml", folder: "/x", vars: { A: "1" }, files: {} }],
    },
  ]);
});

test("an apply with a misspelt flag or a wrong shape changes nothing", async () => {
  const r = await start();
  Object.assign(r.control, { apply: () => expect.unreachable("must not be reached") });
  const file = { name: "a", text: "" };
  for (const bad of [
    {},
    { files: {} },
    { files: [file], dryrun: true },
    { files: [file], dryRun: "true" },
    { files: [{ ...file, folder: "rel" }] },
    { files: [{ ...file, vars: { A: 1 } }] },
    { files: [{ name: "" }] },
    { files: ["x"] },
    { files: [file], set: "a/../b" },
    { files: [file], timeoutMs: -1 },
    { files: Array.from({ length: 5001 }, () => file) },
    { files: [{ ...file, vars: [] }] },
  ])
    expect([(await r.ask("POST /api/apply", { body: bad })).status, JSON.stringify(bad).slice(0, 80)]).toEqual([
      400,
      JSON.stringify(bad).slice(0, 80),
    ]);
});

test("an apply that breaks off ends with an end event all the same", async () => {
  const r = await start();
  r.control.applies = async function* (): AsyncIterable<ApplyEvent> {
    yield { type: "problems", problems: [] };
    throw new BeigeError("conflict", "the world has moved");
  };
  const answer = await r.ask("POST /api/apply", { body: { files: [] } });
  expect(lines(answer).at(-1)).toMatchObject({ type: "end", exit: 3, message: "the world has moved" });
});

test("describe and events name objects by any word for their kind; kinds show their schema", async () => {
  const r = await start();
  for (const kind of ["Agent", "agents", "ag", "AGENT"])
    expect((await r.ask(`GET /api/describe?kind=${kind}&name=travel`)).json.object.metadata.name).toBe("travel");
  expect((await r.ask("GET /api/describe?kind=agent&namespace=team&name=ops")).status).toBe(200);
  for (const query of ["kind=agent", "name=x", "kind=agent&name=..%2Fx", "kind=agent&name=a&name=b"])
    expect((await r.ask(`GET /api/describe?${query}`)).status).toBe(400);
  expect((await r.ask("GET /api/describe?kind=pod&name=x")).status).toBe(404);
  expect((await r.ask("GET /api/events?kind=ag&name=travel")).json.items).toHaveLength(1);
  expect((await r.ask("GET /api/events?limit=1")).json.items).toHaveLength(1);
  expect((await r.ask("GET /api/kinds")).json[0]).toMatchObject({
    kind: "Agent",
    short: ["ag"],
    columns: [{ name: "Name", priority: 0 }, {}, {}],
  });
});

test("the audit tail passes its filter on, bounded", async () => {
  const asked: unknown[] = [];
  const r = await start({ audit: { tail: async (n, filter) => (asked.push([n, filter]), []) } });
  expect((await r.ask("GET /api/audit/tail?limit=99999&agent=travel&decision=denied")).json).toEqual({ items: [] });
  await r.ask("GET /api/audit/tail");
  expect(asked).toEqual([
    [1000, { agent: "travel", decision: "denied" }],
    [50, {}],
  ]);
});
