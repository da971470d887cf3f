import { createHash } from "node:crypto";
import { chmodSync, existsSync, mkdtempSync, readFileSync, rmSync, statSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, expect, test } from "vitest";
import { localSandbox, type LocalSandbox } from "../../test/fakes/local.ts";
import { systemClock } from "../adapters/clock.ts";
import { systemRandom } from "../adapters/random.ts";
import type { AuditCall, AuditOutcome } from "../core/audit.ts";
import { type CallRequest, type CallResult, CORE_TOOLS, type Principal } from "../core/call.ts";
import { BeigeError } from "../core/errors.ts";
import type { ToolDefinition } from "../core/plugin.ts";
import type { Agent } from "../core/resource.ts";
import type { Log } from "../core/world.ts";
import { type CallDeps, createCalls } from "./call.ts";

const quiet: Log = { debug: () => undefined, info: () => undefined, warn: () => undefined, error: () => undefined };
type Row = AuditCall & Partial<AuditOutcome> & { readonly phase: string; readonly call: string };

let folder = "";
let sandbox: LocalSandbox;
let rows: Row[] = [];
let agents: Map<string, Agent>;
let active: Map<string, string>;
let tools: Map<string, ToolDefinition>;
let deps: CallDeps;
let calls: ReturnType<typeof createCalls>;
let observed: unknown[] = [];

const agentOf = (name: string, spec: object = {}): Agent =>
  ({
    kind: "Agent",
    metadata: { name, namespace: "default", uid: `uid-${name}` },
    spec: { coreTools: [...CORE_TOOLS], tools: ["memo"], plugins: {}, suspend: false, sandbox: { resources: {} }, ...spec },
  }) as unknown as Agent;

beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), "beige-call-"));
  sandbox = localSandbox(folder);
  rows = [];
  observed = [];
  agents = new Map([["uid-travel", agentOf("travel")]]);
  active = new Map([["uid-travel", "box1"]]);
  tools = new Map();
  deps = {
    directory: { agentByUid: (uid) => agents.get(uid) },
    audit: {
      begin: async (call, row) => void rows.push({ ...row, call, phase: "begin" }),
      end: async (call, row, outcome) => void rows.push({ ...row, ...outcome, call, phase: "end" }),
      denied: async (call, row, error) => void rows.push({ ...row, error, call, phase: "denied" }),
    },
    plugins: {
      owners: (tool) => (tools.has(tool) ? ["notes"] : []),
      find: (_agent, plugin, tool) => {
        const definition = tools.get(tool);
        return definition === undefined ? undefined : { plugin, definition, config: { limit: 3 } };
      },
    },
    hooks: { guardCall: async () => undefined, observeCall: async (input) => void observed.push(input) },
    sandbox,
    agents: { active: (uid) => active.get(uid) },
    secrets: { redact: (text) => text.replaceAll("hunter22", "[secret]") },
    clock: systemClock,
    random: systemRandom,
    log: quiet,
  };
  calls = createCalls(deps);
});
afterEach(() => rmSync(folder, { recursive: true, force: true }));

const id = { namespace: "default", name: "travel", uid: "uid-travel" };
const model: Principal = { kind: "agent", uid: "uid-travel", attribution: "direct" };
const never = new AbortController().signal;
const ask = (tool: string, params: object, more: Partial<CallRequest> = {}, signal = never): Promise<CallResult> =>
  calls.call({ principal: model, agent: id, tool, input: { params: params as Record<string, unknown> }, ...more }, signal);
const words = (tool: string, args: readonly string[], more: Partial<CallRequest> = {}, signal = never): Promise<CallResult> =>
  calls.call({ principal: { kind: "agent", uid: "uid-travel", attribution: "none" }, agent: id, tool, input: { args }, ...more }, signal);
const textOf = (result: CallResult): string => Buffer.from(result.output).toString("utf8");
const file = (name: string): string => join(sandbox.workspace, name);
const sha = (text: string): string => `sha256 ${createHash("sha256").update(text).digest("hex")}`;

test("a command runs, and its begin and end rows are joined by the call id", async () => {
  const result = await ask("exec", { command: "echo out; echo err >&2; exit 3" }, { session: "cli:default" });
  expect(result).toMatchObject({ success: false, exitCode: 3, outcome: "failed", error: "command exited with code 3" });
  expect(textOf(result).split("\n").toSorted()).toEqual(["", "err", "out"]);
  expect(rows).toEqual([
    expect.objectContaining({
      phase: "begin",
      call: result.call,
      agent: "travel",
      type: "core_tool",
      tool: "exec",
      decision: "allowed",
      session: "cli:default",
    }),
    expect.objectContaining({ phase: "end", call: result.call, exitCode: 3, outcome: "failed", outputBytes: 8 }),
  ]);
  expect(observed).toEqual([expect.objectContaining({ tool: "exec", exitCode: 3, callId: result.call })]);
});

test("a tool that is not in the list is denied in the words of the wire, with one row", async () => {
  tools.set("git", { name: "git", description: "", run: async () => ({ output: "ran" }) });
  const result = await words("git", ["status"]);
  expect(result).toMatchObject({
    success: false,
    exitCode: 1,
    error: "Permission denied: tool 'git' not allowed for agent 'travel'",
    outcome: "denied",
  });
  expect(rows).toEqual([
    expect.objectContaining({ phase: "denied", tool: "git", args: ["status"], decision: "denied", error: result.error }),
  ]);
});

test("nobody gets past the policy: viewers, other agents, suspended and deleted agents, core tools from inside", async () => {
  expect(await ask("read", { path: "x" }, { principal: { kind: "viewer" } })).toMatchObject({ outcome: "denied" });
  expect(await ask("read", { path: "x" }, { principal: { kind: "agent", uid: "uid-other", attribution: "direct" } })).toMatchObject({
    outcome: "denied",
  });
  expect(await words("exec", ["id"])).toMatchObject({ outcome: "denied" });
  agents.set("uid-travel", agentOf("travel", { suspend: true }));
  expect((await ask("exec", { command: "true" })).error).toContain("(the agent is suspended)");
  agents.set("uid-travel", agentOf("travel", { coreTools: ["read"] }));
  expect(await ask("exec", { command: "touch ran" })).toMatchObject({ outcome: "denied" });
  expect(rows.every((row) => row.phase === "denied")).toBe(true);
  expect(sandbox.requests).toEqual([]);
});

test("an agent that does not exist is not found", async () => {
  agents.clear();
  await expect(ask("read", { path: "x" })).rejects.toMatchObject({ code: "not_found" });
});

test("without a serving container the call fails as unavailable, and the audit says so", async () => {
  active.clear();
  await expect(ask("exec", { command: "true" })).rejects.toMatchObject({
    code: "unavailable",
    message: "sandbox of agent travel is not running",
  });
  expect(rows.map((row) => row.phase)).toEqual(["begin", "end"]);
});

test("without an audit there is no effect", async () => {
  deps = { ...deps, audit: { ...deps.audit, begin: async () => Promise.reject(new BeigeError("unavailable", "disk is full")) } };
  calls = createCalls(deps);
  await expect(ask("exec", { command: "touch ran" })).rejects.toMatchObject({ code: "unavailable" });
  expect(sandbox.requests).toEqual([]);
});

test("a guard that denies stops the call before its effect", async () => {
  deps = { ...deps, hooks: { ...deps.hooks, guardCall: async (input) => ({ deny: `not ${input.args[0]}` }) } };
  calls = createCalls(deps);
  const result = await ask("exec", { command: "touch ran" });
  expect(result).toMatchObject({
    outcome: "denied",
    error: "Permission denied: tool 'exec' not allowed for agent 'travel' (not touch ran)",
  });
  expect(existsSync(file("ran"))).toBe(false);
  expect(rows.map((row) => row.phase)).toEqual(["denied"]);
});

test("the audit keeps paths and hashes of what is written, and no secret", async () => {
  await ask("write", { path: "a.txt", content: "héllo" });
  await ask("patch", { path: "a.txt", find: "h", replace: "j" });
  await ask("read", { path: "a.txt" });
  await ask("exec", { command: "export KEY=hunter22" });
  const args = rows.filter((row) => row.phase === "end").map((row) => row.args);
  expect(args).toEqual([["a.txt", sha("héllo"), "bytes 6"], ["a.txt", sha("h"), sha("j")], ["a.txt"], ["export KEY=[secret]"]]);
});

test("a write makes folders, a read gives lines, and both keep bytes", async () => {
  expect(textOf(await ask("write", { path: "a/b/c.txt", content: "1\n2\n3\n4\n" }))).toBe("wrote 8 bytes to a/b/c.txt");
  expect(textOf(await ask("read", { path: "a/b/c.txt" }))).toBe("1\n2\n3\n4\n");
  expect(textOf(await ask("read", { path: "/workspace/a/b/c.txt", offset: 2, limit: 2 }))).toBe("2\n3\n[lines 2-3; more follow: offset 4]");
  expect(textOf(await ask("read", { path: "a/b/c.txt", offset: 4, limit: 1 }))).toBe("4\n");
  expect(await ask("read", { path: "a/b/c.txt", offset: 9 })).toMatchObject({
    success: false,
    error: "offset 9 is behind the end of a/b/c.txt, which has 4 lines",
  });
  expect(await ask("read", { path: "a/b" })).toMatchObject({ success: false });
  expect(await ask("read", { path: "none" })).toMatchObject({ success: false, error: expect.stringContaining("No such file") });
});

test("a large file is read in parts, a binary one is not dumped, an empty one is empty", async () => {
  writeFileSync(file("big"), Array.from({ length: 5_000 }, (_, at) => `line ${at + 1}\n`).join(""));
  expect(textOf(await ask("read", { path: "big" }))).toMatch(/line 2000\n\[lines 1-2000; more follow: offset 2001\]$/);
  writeFileSync(file("wide"), `${"x".repeat(300)}\n`.repeat(1_000));
  const wide = textOf(await ask("read", { path: "wide" }));
  expect(wide.length).toBeLessThan(66_000);
  const next = Number(/offset (\d+)\]$/.exec(wide)?.[1]);
  expect(wide.split("\n").length - 2).toBe(next - 2);
  writeFileSync(file("one"), "y".repeat(200_000));
  expect(textOf(await ask("read", { path: "one" }))).toContain("[line 1 is longer than 65536 bytes and was cut]");
  writeFileSync(file("bin"), Buffer.from([1, 2, 0, 3]));
  expect(textOf(await ask("read", { path: "bin" }))).toBe("[bin is a binary file: not shown]");
  writeFileSync(file("empty"), "");
  expect(await ask("read", { path: "empty" })).toMatchObject({ success: true, output: Buffer.alloc(0) });
});

test("a patch changes its match only, and keeps line endings and the mode (P79)", async () => {
  writeFileSync(file("run.sh"), "#!/bin/sh\r\necho a\r\nno end");
  chmodSync(file("run.sh"), 0o751);
  expect(textOf(await ask("patch", { path: "run.sh", find: "echo a\nno", replace: "echo b\nto" }))).toBe("patched run.sh at line 2");
  expect(readFileSync(file("run.sh"), "utf8")).toBe("#!/bin/sh\r\necho b\r\nto end");
  expect(statSync(file("run.sh")).mode & 0o777).toBe(0o751);
  expect(await ask("patch", { path: "run.sh", find: "zzz", replace: "y" })).toMatchObject({
    success: false,
    error: "run.sh: find is not in the file",
  });
});

test("parameters that do not fit are the caller's fault and run nothing", async () => {
  for (const [tool, params] of [
    ["exec", {}],
    ["exec", { command: "" }],
    ["exec", { command: "true", timeout: -1 }],
    ["exec", { command: "a\0b" }],
    ["read", { path: "x", offset: 0 }],
    ["read", { path: "a\0b" }],
    ["write", { path: "x" }],
    ["patch", { path: "x", find: 1, replace: "" }],
  ] as const) {
    expect(await ask(tool, params), JSON.stringify(params)).toMatchObject({ success: false, exitCode: 2, outcome: "failed" });
  }
  expect(sandbox.requests).toEqual([]);
});

test("long output reaches the model as head and tail, and whole in a file of the workspace", async () => {
  const result = await ask("exec", { command: "seq 1 100000" });
  const text = textOf(result);
  expect(result).toMatchObject({ success: true, truncated: true });
  expect(result.output.length).toBeLessThan(66_000);
  expect(text.startsWith("1\n2\n")).toBe(true);
  expect(text.endsWith("99999\n100000\n")).toBe(true);
  const path = /all of it is in (\S+)\]/.exec(text)?.[1] ?? "";
  expect(path).toBe(`.beige/output/${result.call}.txt`);
  const whole = readFileSync(file(path), "utf8");
  expect(whole).toBe(Array.from({ length: 100_000 }, (_, at) => `${at + 1}\n`).join(""));
});

test("a person or a program on the API gets up to a MiB as it is", async () => {
  const raw = await ask("exec", { command: "seq 1 100000" }, { principal: { kind: "operator" } });
  expect(raw.output.length).toBe(588_895);
  expect(raw.truncated).toBeUndefined();
  const cut = await ask("exec", { command: "seq 1 300000" }, { principal: { kind: "operator" } });
  expect(cut.truncated).toBe(true);
  expect(cut.output.length).toBeLessThan(1_050_000);
});

test("output beyond 16 MiB is bounded in the file too", async () => {
  const result = await ask("exec", { command: "head -c 20000000 /dev/zero | tr '\\0' x" });
  const path = /its first 16777216 bytes are in (\S+)\]/.exec(textOf(result))?.[1] ?? "";
  expect(statSync(file(path)).size).toBe(16_777_216);
});

test("where the whole output cannot be kept, the command still ends well", async () => {
  writeFileSync(file(".beige"), "in the way");
  const result = await ask("exec", { command: "seq 1 100000" });
  expect(result).toMatchObject({ success: true, truncated: true });
  expect(textOf(result)).toMatch(/\[\d+ bytes left out\]/);
});

test("a command that runs too long is ended and the audit says timeout", async () => {
  const result = await ask("exec", { command: "echo begun; sleep 97", timeout: 0.2 });
  expect(result).toMatchObject({ success: false, exitCode: 124, outcome: "timeout" });
  expect(textOf(result)).toBe("begun\n");
  expect(rows.at(-1)).toMatchObject({ phase: "end", outcome: "timeout" });
});

test("limits of time are 120 s when absent and 3600 s at most", async () => {
  await ask("exec", { command: "true" });
  await ask("exec", { command: "true", timeout: 1e9 });
  expect(sandbox.requests.map((request) => request.timeoutMs)).toEqual([120_000, 3_600_000]);
});

test("a caller that leaves ends the command", async () => {
  const abort = new AbortController();
  const running = ask("exec", { command: "sleep 97" }, {}, abort.signal);
  await systemClock.sleep(100);
  expect(calls.calls.running("uid-travel")).toBe(1);
  abort.abort(new Error("client left"));
  expect(await running).toMatchObject({ outcome: "cancelled", exitCode: 130, error: "client left" });
  expect(calls.calls.running("uid-travel")).toBe(0);
  expect(rows.at(-1)).toMatchObject({ phase: "end", outcome: "cancelled" });
});

test("cut ends the agent's calls with the reason and no other agent's", async () => {
  agents.set("uid-other", agentOf("other"));
  active.set("uid-other", "box2");
  const mine = ask("exec", { command: "sleep 97" });
  const other = calls.call(
    {
      principal: { kind: "operator" },
      agent: { ...id, name: "other", uid: "uid-other" },
      tool: "exec",
      input: { params: { command: "sleep 0.3; echo fine" } },
    },
    never,
  );
  await systemClock.sleep(100);
  calls.calls.cut("uid-travel", "sandbox replaced, retry");
  expect(await mine).toMatchObject({ outcome: "cancelled", error: "sandbox replaced, retry" });
  expect(await other).toMatchObject({ success: true });
});

test("each command has a token of its own, which is known while it runs and to its agent alone", async () => {
  const running = ask("exec", { command: 'echo "$BEIGE_CALL"; sleep 0.3' }, { session: "cli:default" });
  await systemClock.sleep(100);
  const token = sandbox.requests[0]?.env?.["BEIGE_CALL"] ?? "";
  expect(token).toMatch(/^[0-9a-f]{32}$/);
  const { call } = rows[0] ?? { call: "" };
  expect(calls.tokens.find("uid-travel", token)).toEqual({ uid: "uid-travel", call, session: "cli:default" });
  expect(calls.tokens.find("uid-other", token)).toBeUndefined();
  expect(calls.tokens.find("uid-travel", undefined)).toBeUndefined();
  expect(textOf(await running)).toBe(`${token}\n`);
  expect(calls.tokens.find("uid-travel", token)).toBeUndefined();
});

test("a plugin's tool gets words, input, who called and its configuration", async () => {
  const seen: unknown[] = [];
  tools.set("memo", {
    name: "memo",
    description: "",
    run: async (input, { signal: _signal, ...context }) => {
      seen.push({ ...input, ...context });
      return { output: "kept" };
    },
  });
  const input = { args: ["save", "k"], stdin: Buffer.from("x"), cwd: "/workspace/a" };
  const result = await words("memo", [], { input, session: "s", parent: "p" });
  expect(result).toMatchObject({ success: true, exitCode: 0, outcome: "ok" });
  expect(seen).toEqual([
    { ...input, caller: { agent: "travel", session: "s", attribution: "none", callId: result.call }, config: { limit: 3 } },
  ]);
  expect(rows[0]).toMatchObject({ type: "tool", target: "gateway", tool: "memo", args: ["save", "k"], session: "s", parent: "p" });
});

test("a plugin's failure, nonsense and secrets stay its own", async () => {
  const answers: unknown[] = [
    { output: "x", exitCode: 4 },
    { output: "", error: "no hunter22" },
    { output: 5 },
    undefined,
    { output: "hunter22 y", exitCode: 999 },
  ];
  tools.set("memo", { name: "memo", description: "", run: async () => answers.shift() as never });
  expect(await words("memo", [])).toMatchObject({ exitCode: 4, outcome: "failed", error: "tool exited with code 4" });
  expect(await words("memo", [])).toMatchObject({ exitCode: 1, error: "no [secret]" });
  expect(await words("memo", [])).toMatchObject({ exitCode: 70, success: false });
  expect(await words("memo", [])).toMatchObject({ exitCode: 70, success: false });
  const last = await words("memo", []);
  expect([last.exitCode, textOf(last)]).toEqual([1, "[secret] y"]);
  const bytes = [Buffer.from("hunter22 é"), Buffer.from([0xff, ...Buffer.from("hunter22"), 0x80, 0]), Buffer.from([0xff, 0, 0x80])];
  const said = bytes.map((output) => ({ output }));
  tools.set("memo", { name: "memo", description: "", run: async () => said.shift() as never });
  expect(textOf(await words("memo", []))).toBe("[secret] é");
  expect([...(await words("memo", [])).output]).toEqual([0xff, ...Buffer.from("[secret]"), 0x80, 0]);
  expect([...(await words("memo", [])).output]).toEqual([0xff, 0, 0x80]);
  tools.set("memo", {
    name: "memo",
    description: "",
    run: () => {
      throw new Error("sync hunter22");
    },
  });
  expect(await words("memo", [])).toMatchObject({ success: false, error: "sync [secret]" });
  expect(rows.filter((row) => row.phase === "begin")).toHaveLength(9);
  expect(rows.filter((row) => row.phase === "end")).toHaveLength(9);
});

test("an allowed tool whose plugin is not loaded fails and says so", async () => {
  expect(await words("memo", [])).toMatchObject({ success: false, exitCode: 69, error: expect.stringContaining("not loaded") });
});

test("a plugin's tool is aborted with the caller, and cut off by the agent's cut", async () => {
  let aborted = false;
  tools.set("memo", {
    name: "memo",
    description: "",
    run: (_input, { signal }) => new Promise(() => signal.addEventListener("abort", () => (aborted = true))),
  });
  const running = words("memo", []);
  await systemClock.sleep(20);
  calls.calls.cut("uid-travel", "agent is deleted");
  expect(await running).toMatchObject({ outcome: "cancelled", error: "agent is deleted" });
  expect(aborted).toBe(true);
});

test("an agent cannot run more than 64 calls at once", async () => {
  tools.set("memo", { name: "memo", description: "", run: () => new Promise(() => undefined) });
  const running = Array.from({ length: 64 }, () => words("memo", []));
  await systemClock.sleep(20);
  expect(await words("memo", [])).toMatchObject({ success: false, exitCode: 75 });
  calls.calls.cut("uid-travel", "end");
  await Promise.all(running);
  expect(calls.calls.running("uid-travel")).toBe(0);
});

test("an engine that does not answer is unavailable, and the audit has the outcome", async () => {
  sandbox.failure = new BeigeError("unavailable", "docker does not answer");
  await expect(ask("exec", { command: "true" })).rejects.toMatchObject({ code: "unavailable" });
  expect(rows.at(-1)).toMatchObject({ phase: "end", exitCode: 69, error: "docker does not answer" });
});

test("while the sandbox is exchanged a new call waits and runs in the new one; the one that runs ends in the old one", async () => {
  const used: string[] = [];
  const plain = sandbox.exec.bind(sandbox);
  const through: CallDeps["sandbox"] = { exec: (box, ...rest) => (used.push(box), plain(box, ...rest)) };
  const idle: string[] = [];
  calls = createCalls({ ...deps, sandbox: through, onIdle: (uid) => void idle.push(uid) });
  const running = ask("exec", { command: "sleep 0.3; echo old" });
  await systemClock.sleep(50);
  calls.calls.hold("uid-travel", 10_000);
  const waiting = ask("exec", { command: "echo new" });
  const byApi = ask("exec", { command: "echo api" }, { principal: { kind: "operator" } });
  expect(await running).toMatchObject({ success: true });
  expect([used, idle]).toEqual([["box1"], ["uid-travel"]]);
  active.set("uid-travel", "box2");
  calls.calls.admit("uid-travel");
  expect([textOf(await waiting), textOf(await byApi)]).toEqual(["new\n", "api\n"]);
  expect(used).toEqual(["box1", "box2", "box2"]);
});

test("calls from inside go on while new ones wait, or the command that makes them could not end", async () => {
  tools.set("memo", { name: "memo", description: "", run: async () => ({ output: "kept" }) });
  const running = ask("exec", { command: "sleep 0.3" });
  await systemClock.sleep(50);
  const token = calls.tokens.find("uid-travel", sandbox.requests[0]?.env?.["BEIGE_CALL"]);
  calls.calls.hold("uid-travel", 10_000);
  const attributed: Principal = { kind: "agent", uid: "uid-travel", attribution: "token" };
  expect(await words("memo", [], { principal: attributed, parent: token?.call ?? "" })).toMatchObject({ success: true });
  expect(await words("memo", [])).toMatchObject({ success: true });
  expect(calls.calls.held("uid-travel")).toBe(true);
  calls.calls.admit("uid-travel");
  await running;
});

test("a call that waits is judged again, refused without waiting when it is not allowed, and ends with its caller", async () => {
  calls.calls.hold("uid-travel", 10_000);
  expect(await ask("unknown", {})).toMatchObject({ outcome: "denied" });
  const leaving = new AbortController();
  const left = ask("exec", { command: "true" }, {}, leaving.signal);
  const [denied, gone] = [ask("exec", { command: "true" }), ask("read", { path: "a" })];
  gone.catch(() => undefined);
  leaving.abort(new Error("the client left"));
  expect(await left).toMatchObject({ outcome: "cancelled", error: "the client left", exitCode: 130 });
  agents.set("uid-travel", agentOf("travel", { coreTools: ["read"] }));
  calls.calls.admit("uid-travel");
  expect(await denied).toMatchObject({ outcome: "denied" });
  await gone;
  calls.calls.hold("uid-travel", 10_000);
  const orphan = ask("read", { path: "a" });
  agents.delete("uid-travel");
  calls.calls.admit("uid-travel");
  await expect(orphan).rejects.toMatchObject({ code: "not_found" });
  expect(calls.calls.running("uid-travel")).toBe(0);
});
