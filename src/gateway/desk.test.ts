import { existsSync, readFileSync } from "node:fs";
import { afterEach, expect, test } from "vitest";
import { answer, cleanHomes, files, inbox, rig, type Rig } from "../../test/llm/rig.ts";
import * as w from "../../test/llm/world.ts";
import type { AssistantMessage, Llm } from "../core/chat.ts";
import type { SessionAsk } from "../core/session.ts";
import type { TurnEvent } from "../core/turn.ts";
import { NO_USAGE } from "../core/usage.ts";
import { createEcho } from "./echo.ts";

afterEach(cleanHomes);

const TOO_LONG: Omit<AssistantMessage, "timestamp"> = {
  role: "assistant",
  content: [],
  api: "echo",
  provider: "p",
  model: "m",
  usage: NO_USAGE,
  stopReason: "error",
  errorMessage: "too many tokens",
};

const two = [
  w.echoProvider("p", [
    { match: "slow", delayMs: 300, text: "p slow" },
    { match: "do", delayMs: 100, toolCall: { tool: "exec", args: { command: "id" } } },
    { match: ".", text: "p" },
  ]),
  w.echoProvider("q", [{ match: ".", text: "q" }]),
];
const agents = () => [
  w.agent("dev", [
    ["p", "m"],
    ["q", "n"],
  ]),
];
const askOf = (at: Rig, session = "cli:default"): SessionAsk => ({
  principal: { kind: "operator" },
  agent: w.idOf(at.agents[0] ?? w.agent("dev", [])),
  session,
});
const by = (events: readonly TurnEvent[]): string => {
  const last = events.at(-1);
  return last?.type === "done" ? `${last.provider}/${last.model}` : JSON.stringify(last);
};

test("two messages at once in one session are both answered, in order, each by the model that held when it was sent", async () => {
  const at = rig({ providers: two, agents: agents() });
  const order: string[] = [];
  const one = async (text: string): Promise<void> => void order.push(`${text}: ${by(await at.say(text))}`);
  const first = one("slow");
  at.door.desk.set(askOf(at), { model: { provider: "q", id: "n" } });
  const second = one("second");
  at.door.desk.set(askOf(at), { model: null });
  await Promise.all([first, second, one("third")]);
  expect(order).toEqual(["slow: p/m", "second: q/n", "third: p/m"]);
  await at.door.stop();
});

test("what is set for a session lies over its channel's and its agent's own, outlives the process, and is taken back with null", async () => {
  const given = agents();
  const [dev] = given;
  if (dev === undefined) throw new Error("no agent");
  const withChannel = [
    { ...dev, spec: { ...dev.spec, plugins: { telegram: { defaults: { verbose: true, thinking: "low", model: "nonsense" } } } } },
  ];
  const at = rig({ providers: two, agents: withChannel });
  const ask = askOf(at, "telegram:1");
  expect(at.door.desk.set(ask, {}).settings).toEqual({ model: { provider: "p", id: "m" }, thinking: "low", verbose: true });
  expect(at.door.desk.set(askOf(at), {}).settings).toEqual({ model: { provider: "p", id: "m" }, thinking: "off", verbose: false });
  at.door.desk.set(ask, { verbose: false, model: { provider: "q", id: "n" } });
  const again = rig({ providers: two, agents: withChannel, home: at.home, shelf: at.shelf });
  expect(again.door.desk.set(ask, { thinking: "high" }).settings).toEqual({
    model: { provider: "q", id: "n" },
    thinking: "high",
    verbose: false,
  });
  expect((await again.say("x", { session: "telegram:1" }))[0]).toMatchObject({ type: "session", verbose: false });
  expect(again.door.desk.set(ask, { verbose: null, model: null, thinking: null }).set).toEqual({});
  expect(() => again.door.desk.set(ask, { model: { provider: "evil", id: "m" } })).toThrow("not in the list");
  expect(() => again.door.desk.set({ ...ask, session: "no key" }, {})).toThrow("CHANNEL:ID");
});

test("commands are answered by the gateway, and the model never hears of them", async () => {
  const at = rig({ providers: two, agents: agents() });
  const said = async (text: string): Promise<string> => answer(await at.say(text));
  await said("hello");
  expect(by(await at.say("/status"))).toBe("beige/commands");
  expect(await said("/status")).toContain("Model: p/m");
  expect(await said("/model n")).toContain("q/n");
  expect(await said("hello")).toBe("q");
  expect(await said("/v on")).toBe("Verbose is on.");
  expect((await at.say("x"))[0]).toMatchObject({ verbose: true });
  expect(await said("/stop")).toBe("Nothing runs.");
  expect(await said("/start")).toContain("/verbose on|off");
  expect(files(at.home).length).toBe(1);
  expect(await said("/new")).toContain("new conversation");
  await said("fresh");
  expect(files(at.home).length).toBe(2);
  await said("/unknown word");
  await at.say("/new", { commands: false });
  const texts = files(at.home).map((file) => readFileSync(file, "utf8"));
  expect(texts.filter((text) => text.includes("/status") || text.includes("/verbose"))).toEqual([]);
  expect(texts.filter((text) => text.includes("/unknown word") && text.includes("/new"))).toHaveLength(1);
  expect(at.audit.rows.filter((row) => row.phase === "note").map((row) => row.tool)).toContain("/model");
  await at.door.stop();
});

test("who may not prompt may not command", async () => {
  const at = rig({ providers: two, agents: agents() });
  const events = await at.say("/stop", { principal: { kind: "viewer" } });
  expect(events).toMatchObject([{ type: "error", code: "denied" }]);
  expect(at.audit.rows).toMatchObject([{ phase: "denied" }]);
  expect(() => at.door.desk.abort({ ...askOf(at), principal: { kind: "viewer" } })).toThrow("viewer");
});

test("a message steers a turn that runs, is answered within it, and is no message of its own afterwards", async () => {
  const at = rig({ providers: two, agents: agents() });
  expect(() => at.door.desk.say(askOf(at), "steer", "early")).toThrow("nothing runs");
  expect(inbox(at)).toEqual([]);
  const events: TurnEvent[] = [];
  for await (const event of at.ask("do it")) {
    events.push(event);
    if (event.type === "tool_start") at.door.desk.say(askOf(at), "steer", "instead");
  }
  expect(events.map((event) => event.type)).toContain("user");
  expect(by(events)).toBe("p/m");
  await new Promise((done) => setTimeout(done, 50));
  expect(inbox(at)).toEqual([]);
  const { lines } = await at.door.desk.show(askOf(at));
  expect(lines.map((line) => line.role)).toEqual(["user", "assistant", "tool", "user", "assistant"]);
  expect(lines[3]?.text).toBe("instead");
});

test("a stop ends what runs and what waits, and the next message is answered", async () => {
  const at = rig({ providers: two, agents: agents() });
  const [first, second] = [at.say("slow one"), at.say("slow two")];
  await new Promise((done) => setTimeout(done, 50));
  expect(at.door.desk.list(askOf(at).agent)).toMatchObject([{ running: true, waiting: 1 }]);
  expect(answer(await at.say("/stop"))).toBe("Stopped: 2 messages.");
  for (const events of [await first, await second]) expect(events.at(-1)).toMatchObject({ type: "error", code: "unavailable" });
  expect(answer(await at.say("hello"))).toBe("p");
  expect(inbox(at)).toEqual([]);
});

test("sessions are listed newest first with their first words, searched, read as a file, and deleted", async () => {
  const at = rig({ providers: two, agents: agents() });
  await at.say("a trip to  Graz", { session: "cli:a" });
  await new Promise((done) => setTimeout(done, 5));
  await at.say("something else", { session: "cli:b" });
  const { agent } = askOf(at);
  expect(at.door.desk.list(agent).map((view) => [view.session, view.title, view.running])).toEqual([
    ["cli:b", "something else", false],
    ["cli:a", "a trip to Graz", false],
  ]);
  expect(await at.door.desk.search(agent, { text: "GRAZ", limit: 10 })).toMatchObject({
    whole: true,
    hits: [{ session: "cli:a", role: "user" }],
  });
  const ask = askOf(at, "cli:a");
  const parts: Uint8Array[] = [];
  for await (const part of at.door.desk.bytes(ask)) parts.push(part);
  expect(Buffer.concat(parts).toString()).toContain("Graz");
  await at.door.desk.remove(ask);
  expect(files(at.home).length).toBe(1);
  await expect(at.door.desk.show(ask)).rejects.toMatchObject({ code: "not_found" });
  expect((await at.door.desk.search(agent, { text: "graz", limit: 10 })).hits).toEqual([]);
});

test("a terminal's entries go into the file, and the next turn goes on from them; in the middle of a turn they are refused", async () => {
  const at = rig({ providers: two, agents: agents() });
  const ask = askOf(at, "tui:1");
  const entry = (id: string, parentId: string | null, text: string): object => ({
    type: "message",
    id,
    parentId,
    timestamp: new Date().toISOString(),
    message: { role: "user", content: [{ type: "text", text }], timestamp: 1 },
  });
  expect(await at.door.desk.append(ask, [entry("e1", null, "typed in a terminal")])).toEqual({ last: "e1" });
  await at.say("and now", { session: "tui:1" });
  expect((await at.door.desk.show(ask)).lines.map((line) => line.text)).toEqual(["typed in a terminal", "and now", "p"]);
  const slow = at.say("slow", { session: "tui:1" });
  await expect(at.door.desk.append(ask, [entry("e2", "e1", "x")])).rejects.toMatchObject({ code: "conflict" });
  await expect(at.door.desk.remove(ask)).rejects.toMatchObject({ code: "conflict" });
  await slow;
  await new Promise((done) => setTimeout(done, 20));
  await expect(at.door.desk.append(ask, [entry("e2", "nowhere", "x")])).rejects.toMatchObject({ code: "invalid" });
  expect(existsSync(files(at.home)[0] ?? "")).toBe(true);
});

test("a context that is too long is summarised on the one road, recorded and paid like every request, and asked once more", async () => {
  const echo = createEcho(w.clock);
  const asked: string[] = [];
  const llm: Llm = {
    async *stream(target, context, options, signal) {
      const text = JSON.stringify(context.messages);
      const summary = context.systemPrompt?.includes("You are a test.") !== true;
      asked.push(summary ? "summary" : text.includes("second") && text.length > 30_000 ? "too long" : "answer");
      const message = { ...TOO_LONG, timestamp: w.clock.now() };
      if (asked.at(-1) !== "too long") yield* echo.stream(target, context, options, signal);
      else yield { type: "error", message, failure: { status: 400, message: "too many tokens", overflow: true } };
    },
  };
  const providers = [
    w.echoProvider("p", [
      { match: "checkpoint|conversation", text: "SUMMARY" },
      { match: "second", text: "short again" },
      { match: ".", text: "long ".repeat(2000) },
    ]),
  ];
  const at = rig({ llm, providers, agents: [w.agent("dev", [["p", "m"]])] });
  for (const text of ["one", "two", "three", "four"]) await at.say(text);
  const events = await at.say("second");
  // Two summaries: of what was before, and of the turn that is cut in two.
  expect(asked.slice(4)).toEqual(["too long", "summary", "summary", "answer"]);
  expect(answer(events)).toBe("short again");
  expect(events.map((event) => event.type)).toContain("compaction");
  const ended = at.audit.rows.filter((row) => row.type === "llm" && row.phase === "end");
  expect(ended.slice(4).map((row) => [row.session, row.outcome])).toEqual([
    ["cli:default", "failed"],
    ["cli:default", "ok"],
    ["cli:default", "ok"],
    ["cli:default", "ok"],
  ]);
});
