import { spawn } from "node:child_process";
import { existsSync, readdirSync, readFileSync, statSync } from "node:fs";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { afterEach, expect, test } from "vitest";
import { answer, cleanHomes, files, folder, inbox, newHome, rig, said, uid } from "../../test/llm/rig.ts";
import * as w from "../../test/llm/world.ts";
import { answerWith, refuseWith, startWire, textStream, toolStream } from "../../test/llm/wire.ts";
import type { CallTool } from "../core/call.ts";
import type { ChatContext, Llm } from "../core/chat.ts";
import { BeigeError } from "../core/errors.ts";
import type { TurnEvent, TurnRequest } from "../core/turn.ts";
import { createEcho } from "./echo.ts";

const root = join(dirname(fileURLToPath(import.meta.url)), "../..");
afterEach(cleanHomes);

test("a turn calls a tool through the one door, answers, and is written down readable by the gateway alone", async () => {
  const calls: unknown[] = [];
  const providers = [
    w.echoProvider("p", [
      { match: "do", toolCall: { tool: "exec", args: { command: "id" } } },
      { match: "ran", from: "tool", text: "it $0" },
    ]),
  ];
  const at = rig({ providers, call: (request) => (calls.push(request), w.echoCall(request)) });
  const events = await at.say("do it");
  expect(events.map((event) => event.type).filter((type, index, all) => type !== all[index - 1])).toEqual([
    "session",
    "model",
    "tool_start",
    "tool_end",
    "text",
    "done",
  ]);
  expect(answer(events)).toBe('it ran {"command":"id"}');
  expect(calls).toMatchObject([
    {
      principal: { kind: "agent", uid, attribution: "direct" },
      tool: "exec",
      input: { params: { command: "id" } },
      session: "cli:default",
    },
  ]);
  expect(statSync(files(at.home)[0] ?? "").mode & 0o777).toBe(0o600);
  expect(statSync(folder(at.home)).mode & 0o777).toBe(0o700);
  expect(at.audit.rows.filter((row) => row.type === "turn").map((row) => [row.phase, row.session, row.principal, row.outcome])).toEqual([
    ["begin", "cli:default", "operator", undefined],
    ["end", "cli:default", "operator", "ok"],
  ]);
  expect(inbox(at)).toEqual([]);
  await at.door.stop();
});

test("a model that asks for the host's own tools gets nothing of them, and words with a meaning to the SDK stay words", async () => {
  const trap = join(newHome(), "trap");
  let n = 0;
  await using wire = await startWire((response, asked) =>
    answerWith(n++ % 2 === 0 ? toolStream("bash", { command: `touch ${trap}` }) : textStream(["ok"]))(response, asked),
  );
  const calls: unknown[] = [];
  const providers = [w.provider("p", { api: "openai-completions", baseUrl: wire.url })];
  const at = rig({ providers, call: (request) => (calls.push(request), w.echoCall(request)) });
  for (const text of [`!touch ${trap}`, "/skill:x", "/compact", "$HOME"]) {
    expect(answer(await at.say(text))).toBe("ok");
    expect(JSON.stringify(wire.asked.at(-1)?.body["messages"])).toContain(text);
  }
  expect(wire.asked[0]?.body["tools"]).toHaveLength(4);
  expect(JSON.stringify(wire.asked.at(-1)?.body["messages"])).toContain("not found");
  expect(existsSync(trap)).toBe(false);
  expect(calls).toEqual([]);
});

test("a failed tool is told to the model as failed, and the turn goes on", async () => {
  const providers = [w.echoProvider("p", [{ match: "do", toolCall: { tool: "exec", args: {} } }])];
  const call: CallTool = async (request) => ({
    ...(await w.echoCall(request)),
    success: false,
    exitCode: 1,
    output: Buffer.from("out"),
    error: "exit code 1",
  });
  const events = await rig({ providers, call }).say("do it");
  expect(events).toContainEqual({ type: "tool_end", id: "echo_1", tool: "exec", failed: true, output: "out\nexit code 1" });
  expect(answer(events)).toBe("out\nexit code 1");
});

test("the message is on the shelf before its sender hears of it, and off it at the end", async () => {
  const at = rig();
  for await (const event of at.ask("hello")) {
    if (event.type === "session") expect(at.shelf.get(`inbox/${event.inbox}`)).toContain("hello");
  }
  expect(inbox(at)).toEqual([]);
});

test("two messages at once in one session are answered one after the other; another session does not wait", async () => {
  const at = rig({ providers: [w.echoProvider("p", [{ match: "slow", delayMs: 200, text: "slow done" }])] });
  const order: string[] = [];
  const one = async (text: string, session: string): Promise<void> => void order.push(answer(await at.say(text, { session })));
  await Promise.all([one("slow", "cli:a"), one("second", "cli:a"), one("other", "cli:b")]);
  expect(order).toEqual(["other", "slow done", "second"]);
  const file = files(at.home)
    .map((path) => readFileSync(path, "utf8"))
    .find((text) => text.includes("slow"));
  expect(file?.indexOf("slow done")).toBeLessThan(file?.indexOf('"second"') ?? 0);
});

test("the end of an agent's last turn is told, not that of one before it", async () => {
  const idle: string[] = [];
  const at = rig({ providers: [w.echoProvider("p", [{ match: "slow", delayMs: 100, text: "done" }])], onIdle: (of) => void idle.push(of) });
  await Promise.all([at.say("slow", { session: "cli:a" }), at.say("quick", { session: "cli:b" }).then(() => expect(idle).toEqual([]))]);
  await expect.poll(() => idle).toEqual([uid]);
});

test("the conversation goes on over a restart, and a fresh one starts anew under the same key", async () => {
  const seen: ChatContext[] = [];
  const echo = createEcho(w.clock);
  const llm: Llm = { stream: (target, context, options, signal) => (seen.push(context), echo.stream(target, context, options, signal)) };
  const first = rig({ llm });
  await first.say("one");
  await first.door.stop();
  const second = rig({ llm, home: first.home, shelf: first.shelf });
  await second.say("two");
  expect(seen.map((context) => context.messages.length)).toEqual([1, 3]);
  await second.say("three", { fresh: true });
  await second.say("four");
  expect(seen.map((context) => context.messages.length)).toEqual([1, 3, 1, 3]);
  expect(files(first.home).length).toBe(2);
  expect(seen[0]?.systemPrompt).toContain("You are a test.");
  expect(seen[0]?.systemPrompt).not.toContain(first.home);
  expect(seen[0]?.tools?.map((tool) => tool.name)).toEqual(["read", "write", "patch", "exec"]);
});

test("changed instructions and tools hold from the next message on", async () => {
  const seen: ChatContext[] = [];
  const echo = createEcho(w.clock);
  const llm: Llm = { stream: (target, context, options, signal) => (seen.push(context), echo.stream(target, context, options, signal)) };
  const agents = [w.agent("dev", [["p", "m"]])];
  const at = rig({ llm, agents });
  await at.say("one");
  const changed = w.agent("dev", [["p", "m"]], { instructions: "You are another.", coreTools: ["read"], tools: ["git/log", "notes"] });
  agents[0] = { ...changed, metadata: { ...changed.metadata, generation: 2 } };
  await at.say("two");
  expect(seen[1]?.messages.length).toBe(3);
  expect(seen[1]?.systemPrompt).toContain("You are another.");
  expect(seen[1]?.systemPrompt).not.toContain("You are a test.");
  expect(seen[1]?.systemPrompt).toContain("/tools/packages/git/SKILL.md");
  expect(seen[1]?.tools?.map((tool) => tool.name)).toEqual(["read"]);
});

test("who may not, what is not, and what cannot be are one error event, and denials are recorded", async () => {
  const at = rig();
  const code = async (text: string, more: Partial<TurnRequest>): Promise<unknown> => {
    const events = await at.say(text, more);
    expect(events.length).toBe(1);
    return events[0]?.type === "error" ? events[0].code : "none";
  };
  expect(await code("x", { principal: { kind: "viewer" } })).toBe("denied");
  expect(await code("x", { principal: { kind: "agent", uid, attribution: "direct" } })).toBe("denied");
  expect(await code("x", { agent: { namespace: "default", name: "no", uid: "no" } })).toBe("not_found");
  expect(await code("  ", {})).toBe("invalid");
  expect(await code("x".repeat(1_000_001), {})).toBe("invalid");
  for (const session of ["", "cli", "cli:", "CLI:x", "cli:a:b:c", "cli:a b", "cli:../x\n", `cli:${"x".repeat(129)}`, "cli:ü"])
    expect(await code("x", { session })).toBe("invalid");
  expect(at.audit.rows.map((row) => row.phase)).toEqual(["denied", "denied"]);
  const suspended = rig({ agents: [w.agent("dev", [["p", "m"]], { suspend: true })] });
  expect(await suspended.say("x")).toMatchObject([{ type: "error", code: "denied", message: "agent 'dev' is suspended" }]);
  expect(inbox(at)).toEqual([]);
});

test("keys that would be paths stay inside the folder", async () => {
  const at = rig();
  expect(answer(await at.say("hi", { session: "web:../../../etc/passwd" }))).toBe("hi");
  expect(files(at.home).length).toBe(1);
});

test("ending an agent's sessions ends what runs and what waits, with the reason, and forgets nothing written", async () => {
  const at = rig({ providers: [w.echoProvider("p", [{ match: "hang", delayMs: 60_000, text: "never" }])] });
  const both = [at.say("hang"), at.say("waits")];
  await expect.poll(() => at.door.sessions.open(uid)).toBe(2);
  await expect.poll(() => at.audit.rows.some((row) => row.type === "llm")).toBe(true);
  await at.door.sessions.end(uid, "agent 'dev' is being deleted");
  for (const events of await Promise.all(both))
    expect(events.at(-1)).toMatchObject({ type: "error", code: "unavailable", message: "agent 'dev' is being deleted" });
  expect(at.door.sessions.open(uid)).toBe(0);
  expect(inbox(at)).toEqual([]);
  expect(said(at.home)[0]).toBe("user: hang");
  expect(answer(await at.say("again"))).toBe("again");
});

test("a reader that leaves ends its turn, the model's stream and the command", async () => {
  let [begun, ended] = [0, 0];
  const providers = [w.echoProvider("p", [{ match: ".", toolCall: { tool: "exec", args: {} } }])];
  const call: CallTool = (_request, signal) =>
    new Promise((_, fail) => {
      begun += 1;
      signal.addEventListener("abort", () => {
        ended += 1;
        fail(new BeigeError("unavailable", "cancelled"));
      });
    });
  const at = rig({ providers, call });
  for await (const event of at.ask("go")) {
    if (event.type !== "tool_start") continue;
    await expect.poll(() => begun).toBe(1);
    break;
  }
  await expect.poll(() => at.door.sessions.open(uid)).toBe(0);
  const gone = new AbortController();
  const events: TurnEvent[] = [];
  for await (const event of at.ask("go", {}, gone.signal)) {
    events.push(event);
    if (event.type === "tool_start") await expect.poll(() => begun).toBe(2);
    if (event.type === "tool_start") gone.abort();
  }
  await expect.poll(() => at.door.sessions.open(uid)).toBe(0);
  expect(ended).toBe(2);
  expect(events.at(-1)).toMatchObject({ type: "error", code: "unavailable" });
  expect(inbox(at)).toEqual([]);
});

test("a turn that takes too long ends with a timeout", async () => {
  const at = rig({ deadlineMs: 80, providers: [w.echoProvider("p", [{ match: ".", delayMs: 60_000, text: "never" }])] });
  await at.say("warm up").catch(() => undefined);
  const events = await at.say("hang");
  expect(events.at(-1)).toMatchObject({ type: "error", code: "timeout" });
  expect(at.audit.rows.at(-1)).toMatchObject({ type: "turn", outcome: "timeout" });
});

test("a provider's failure ends the turn with one error that says what and when (P95)", async () => {
  const at = rig({ providers: [w.echoProvider("p", [{ match: ".", error: { status: 429, retryAfterMs: 60_000 } }])] });
  const events = await at.say("x");
  expect(events.filter((event) => event.type === "error" || event.type === "done")).toMatchObject([{ type: "error", code: "exhausted" }]);
  const [last] = events.slice(-1);
  expect(last?.type === "error" && (last.retryAfterMs ?? 0) > 50_000).toBe(true);
});

test("over two real servers: the first refuses with a key in its words, the second calls a tool and answers", async () => {
  await using bad = await startWire(refuseWith(429, '{"error":{"message":"slow down sk-planted-4711","retry_after_seconds":59}}'));
  let n = 0;
  await using good = await startWire((response, asked) =>
    answerWith(n++ === 0 ? toolStream("exec", { command: "id" }) : textStream(["all ", "done"]))(response, asked),
  );
  const providers = [
    w.provider("bad", { api: "openai-completions", baseUrl: bad.url, apiKey: { secret: "k" } }),
    w.provider("good", {
      api: "openai-completions",
      baseUrl: good.url,
      apiKey: { secret: "k" },
      models: [w.facts("m", { cost: { input: 1, output: 1, cacheRead: 0, cacheWrite: 0 } })],
    }),
  ];
  const at = rig({
    providers,
    agents: [
      w.agent("dev", [
        ["bad", "m"],
        ["good", "m"],
      ]),
    ],
  });
  const events = await at.say("go");
  expect(answer(events)).toBe("all done");
  expect(events).toContainEqual({ type: "model", provider: "good", id: "m", fallback: true });
  expect([bad.asked.length, good.asked.length]).toEqual([1, 2]);
  expect(JSON.stringify(good.asked[1]?.body["messages"])).toContain('"role":"tool","content":"ran {');
  const everything =
    JSON.stringify([events, at.audit.rows, at.log.lines, at.shelf.list("")]) +
    files(at.home)
      .map((path) => readFileSync(path, "utf8"))
      .join("");
  expect(everything).not.toContain("sk-planted-4711");
  expect(at.door.providers.seen("bad").models[0]?.coolingUntil).toBeGreaterThan(Date.now() + 50_000);
  expect(at.audit.rows.filter((row) => row.type === "llm" && row.phase === "end").map((row) => [row.tool, row.outcome])).toEqual([
    ["bad/m", "failed"],
    ["good/m", "ok"],
    ["good/m", "ok"],
  ]);
});

test("background turns are counted, tell their end, and can be stopped", async () => {
  const at = rig({ providers: [w.echoProvider("p", [{ match: "hang", delayMs: 60_000, text: "never" }])] });
  const request = (text: string): TurnRequest => ({
    principal: { kind: "schedule", name: "s" },
    agent: w.idOf(at.agents[0] ?? w.agent("dev", [])),
    text,
    session: "schedule:s",
  });
  const start = (text: string): Promise<string | undefined> => new Promise((end) => at.door.turns.start("k", request(text), end));
  expect(await start("hi")).toBeUndefined();
  const hung = start("hang");
  expect(at.door.turns.running("k")).toBe(1);
  await at.door.turns.stop("k");
  expect(await hung).toBe("the turn was stopped");
  expect(at.door.turns.running("k")).toBe(0);
  expect(await start("")).toBe("the message is empty");
  expect(at.audit.rows[0]).toMatchObject({ type: "turn", principal: "schedule" });
});

test("stopping lets what runs finish, refuses what comes, and leaves nothing to be taken up", async () => {
  const at = rig({ providers: [w.echoProvider("p", [{ match: "slow", delayMs: 150, text: "finished" }])] });
  const slow = at.say("slow");
  await expect.poll(() => at.door.sessions.open(uid)).toBe(1);
  const stopped = at.door.stop();
  expect(answer(await at.say("late"))).toBe("error: the gateway is stopping");
  await stopped;
  expect(answer(await slow)).toBe("finished");
  expect(inbox(at)).toEqual([]);
});

test("what does not finish in time is cut with a last event within 11 s, and is not taken up again (P127)", async () => {
  const at = rig({ providers: [w.echoProvider("p", [{ match: "hang", delayMs: 60_000, text: "never" }])] });
  const hung = at.say("hang");
  await expect.poll(() => at.door.sessions.open(uid)).toBe(1);
  const since = performance.now();
  await at.door.stop();
  expect(performance.now() - since).toBeLessThan(11_000);
  expect(answer(await hung)).toBe("error: the gateway is stopping");
  expect(inbox(at)).toEqual([]);
}, 20_000);

test("without an audit row no turn begins", async () => {
  const at = rig();
  at.audit.broken = true;
  expect((await at.say("x")).at(-1)?.type).toBe("error");
  expect(at.audit.rows).toEqual([]);
});

test("loading the gateway and its pi adapter loads nothing of the SDK", async () => {
  const code = `
    import { registerHooks } from "node:module";
    const seen = [];
    registerHooks({ resolve(name, context, next) { if (/pi-ai|pi-coding-agent|typebox/.test(name)) seen.push(name); return next(name, context); } });
    for (const file of ${JSON.stringify([
      "src/adapters/pi.ts",
      ...readdirSync(join(root, "src/gateway"))
        .filter((name) => /^(chat|turns|sessions|echo|attempt|turn|health)\.ts$/.test(name))
        .map((name) => `src/gateway/${name}`),
    ])}) await import(${JSON.stringify(`${root}/`)} + file);
    process.stdout.write(JSON.stringify(seen));`;
  expect(await run(["--input-type=module", "-e", code])).toBe("[]");
});

function run(args: readonly string[]): Promise<string> {
  return new Promise((end, fail) => {
    const child = spawn(process.execPath, [...args], { stdio: ["ignore", "pipe", "inherit"] });
    let out = "";
    child.stdout.on("data", (part: Buffer) => (out += part.toString()));
    child.on("error", fail);
    child.on("close", () => end(out));
  });
}
