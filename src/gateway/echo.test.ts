import { expect, test } from "vitest";
import { all, clock, facts } from "../../test/llm/world.ts";
import type { AssistantMessage, ChatContext, ChatEvent, ChatTarget, Message } from "../core/chat.ts";
import { NO_USAGE } from "../core/usage.ts";
import type { EchoStep } from "../../schemas/types.ts";
import { createEcho } from "./echo.ts";

const echo = createEcho(clock);
const user = (content: string): Message => ({ role: "user", content, timestamp: 1 });
const tool = (text: string): Message => ({
  role: "toolResult",
  toolCallId: "1",
  toolName: "exec",
  content: [{ type: "text", text }],
  isError: false,
  timestamp: 1,
});
const said = (text: string, more: Partial<AssistantMessage> = {}): Message => ({
  role: "assistant",
  content: [{ type: "text", text }],
  api: "echo",
  provider: "p",
  model: "m",
  usage: NO_USAGE,
  stopReason: "stop",
  timestamp: 1,
  ...more,
});

async function ask(
  steps: readonly Partial<EchoStep>[],
  messages: readonly Message[],
  signal = new AbortController().signal,
): Promise<ChatEvent[]> {
  const full = steps.map((step) => ({ match: ".", from: "user" as const, delayMs: 0, ...step }));
  const target: ChatTarget = {
    provider: "p",
    api: "echo",
    model: facts("m", { cost: { input: 1, output: 1, cacheRead: 0, cacheWrite: 0 } }),
    timeoutMs: 1000,
    echo: { steps: full },
  };
  const context: ChatContext = { systemPrompt: "sys", messages };
  return await all(echo.stream(target, context, { thinking: "off" }, signal));
}
async function answer(
  steps: readonly Partial<EchoStep>[],
  messages: readonly Message[],
): Promise<AssistantMessage["content"][number] | undefined> {
  const last = (await ask(steps, messages)).at(-1);
  return last?.type === "done" ? last.message.content[0] : undefined;
}
const text = (value: string): unknown => ({ type: "text", text: value });

test("without a fitting step the last message comes back, the same way every time", async () => {
  const once = await ask([], [user("hello wörld 🎉")]);
  const { message: first, ...again } = (await ask([], [user("hello wörld 🎉")])).at(-1) as Extract<ChatEvent, { type: "done" }>;
  expect(once.map((event) => ("delta" in event ? event.delta : "")).join("")).toBe("hello wörld 🎉");
  expect(once.length).toBeGreaterThan(4);
  expect(again).toEqual({ type: "done" });
  expect(first.usage).toMatchObject({ input: 5, output: 4, totalTokens: 9 });
  expect(first.usage.cost.total).toBeCloseTo(9e-6);
});

test("the first step that fits answers, with the message and its groups put in", async () => {
  const steps = [
    { match: "^never$", text: "no" },
    { match: "say (\\w+) and (\\w+)", text: "$2, $1! ($0) costs $$1$9" },
    { match: ".", text: "late" },
  ];
  expect(await answer(steps, [user("say yes and no")])).toEqual(text("no, yes! (say yes and no) costs $1"));
  expect(await answer(steps, [user("other")])).toEqual(text("late"));
});

test("a step for tools sees tool results only, one for users the user's words only", async () => {
  const steps = [
    { match: "x", from: "tool" as const, text: "tool: $0" },
    { match: "x", text: "user: $0" },
  ];
  expect(await answer(steps, [user("x")])).toEqual(text("user: x"));
  expect(await answer(steps, [user("x"), said(""), tool("xx")])).toEqual(text("tool: xx"));
});

test("a step fires once a turn and again in the next one", async () => {
  const steps = [
    { match: "go", toolCall: { tool: "exec" as const, args: { command: "id" } } },
    { match: "uid", from: "tool" as const, toolCall: { tool: "read" as const, args: { path: "a" } } },
    { match: "uid", from: "tool" as const, text: "done: $0" },
  ];
  const turn: Message[] = [user("go")];
  expect(await answer(steps, turn)).toMatchObject({ type: "toolCall", name: "exec", arguments: { command: "id" } });
  turn.push(said("", { content: [{ type: "toolCall", id: "a", name: "exec", arguments: {} }] }), tool("uid=0"));
  expect(await answer(steps, turn)).toMatchObject({ type: "toolCall", name: "read" });
  turn.push(said(""), tool("uid=1"));
  expect(await answer(steps, turn)).toEqual(text("done: uid=1"));
  turn.push(said("done"), user("go"));
  expect(await answer(steps, turn)).toMatchObject({ name: "exec" });
});

test("two calls of one conversation have different ids", async () => {
  const steps = [{ match: "go", toolCall: { tool: "exec" as const, args: {} } }];
  const ids = [await answer(steps, [user("go")]), await answer(steps, [user("go"), said("x"), user("go")])].map((part) =>
    part?.type === "toolCall" ? part.id : "",
  );
  expect(new Set(ids).size).toBe(2);
});

test("a step can fail as a provider would", async () => {
  const [event] = await ask([{ error: { status: 429, retryAfterMs: 7 } }], [user("x")]);
  expect(event).toMatchObject({ type: "error", failure: { status: 429, retryAfterMs: 7 }, message: { stopReason: "error" } });
});

test("a pattern that would run for ever matches nothing, within a second or so", async () => {
  const since = performance.now();
  expect(
    await answer(
      [
        { match: "^(a+)+$", text: "never" },
        { match: ".", text: "next" },
      ],
      [user(`${"a".repeat(5000)}!`)],
    ),
  ).toEqual(text("next"));
  expect(await answer([{ match: "(x+x+)+y", text: "never" }], [user("x".repeat(4000))])).toEqual(text("x".repeat(4000)));
  expect(await answer([{ match: "([", text: "never" }], [user("hi")])).toEqual(text("hi"));
  expect(await answer([{ match: "a{2000,}b", text: "never" }], [user("a".repeat(100_000))])).toMatchObject({ type: "text" });
  expect(performance.now() - since).toBeLessThan(2500);
});

test("a delayed step waits, and an abort ends the wait and says so", async () => {
  const since = performance.now();
  expect(await answer([{ delayMs: 40, text: "late" }], [user("x")])).toEqual(text("late"));
  expect(performance.now() - since).toBeGreaterThanOrEqual(35);
  const gone = new AbortController();
  setTimeout(() => gone.abort(), 20);
  const events = await ask([{ delayMs: 60_000, text: "never" }], [user("x")], gone.signal);
  expect(events).toMatchObject([{ type: "error", message: { stopReason: "aborted" } }]);
});

test("a script full of patterns that never end takes the time of one, and harmless steps behind them still answer", async () => {
  const steps = [...Array.from({ length: 20 }, (_, n) => ({ match: `^(a+)+${n}$`, text: "never" })), { match: "a", text: "harmless" }];
  const began = performance.now();
  const events = await ask(steps, [user(`${"a".repeat(60)}!`)]);
  expect(JSON.stringify(events.at(-1))).toContain("harmless");
  expect(performance.now() - began).toBeLessThan(3000);
});
