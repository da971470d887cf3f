// The SDK's stream is what the gateway's deltas say, and it always ends.
import { expect, test } from "vitest";
import { BeigeError } from "../core/errors.ts";
import { NO_USAGE } from "../core/usage.ts";
import type { AssistantMessage } from "../core/chat.ts";
import type { ChatAsk, ChatLine, Gateway } from "./gateway.ts";
import { createScreen } from "./screen.ts";
import { roadStream } from "./stream.ts";

const answer: AssistantMessage = {
  role: "assistant",
  content: [{ type: "text", text: "hello" }],
  api: "echo",
  provider: "real",
  model: "m2",
  usage: NO_USAGE,
  stopReason: "stop",
  timestamp: 1,
};

async function heard(lines: () => AsyncGenerator<ChatLine>, signal?: AbortSignal) {
  const asked: ChatAsk[] = [];
  const fallbacks: string[] = [];
  const chat: Gateway["chat"] = (_, ask) => (asked.push(ask), lines());
  const stream = roadStream({ chat } as unknown as Gateway, () => ({ agent: "a", session: "tui:1" }), {
    onFallback: (model) => fallbacks.push(model),
    screen: createScreen(),
  });
  const model = { id: "first/m1", api: "beige-road", provider: "beige" };
  const context = { messages: [{ role: "user", content: "hi", timestamp: 1 }] };
  const events: { readonly type: string; readonly [more: string]: unknown }[] = [];
  for await (const event of await stream(model as never, context as never, { reasoning: "xhigh", ...(signal && { signal }) }))
    events.push(structuredClone(event) as never);
  return { events, asked, fallbacks };
}

test("deltas grow into one message, a call is shown once it is whole, and who answered is in the end", async () => {
  const { events, asked, fallbacks } = await heard(async function* () {
    yield { type: "start", provider: "real", model: "m2", fallback: true };
    yield { type: "model_fallback", provider: "real", model: "m2" };
    yield { type: "text_start", contentIndex: 0 };
    yield { type: "text_delta", contentIndex: 0, delta: "hel" };
    yield { type: "text_delta", contentIndex: 0, delta: "lo" };
    yield { type: "text_end", contentIndex: 0, content: "hello" };
    yield { type: "toolcall_start", contentIndex: 1 };
    yield { type: "toolcall_delta", contentIndex: 1, delta: '{"a' };
    yield { type: "toolcall_end", contentIndex: 1, toolCall: { type: "toolCall", id: "c", name: "exec", arguments: { a: 1 } } };
    yield { type: "done", message: answer };
  });
  expect(events.map((event) => event.type)).toEqual([
    "start",
    "text_start",
    "text_delta",
    "text_delta",
    "text_end",
    "toolcall_start",
    "toolcall_end",
    "done",
  ]);
  expect(events[3]?.["partial"]).toMatchObject({ content: [{ type: "text", text: "hello" }] });
  expect(events[5]?.["partial"]).toMatchObject({ content: [{}, { type: "toolCall", id: "c", name: "exec", arguments: { a: 1 } }] });
  expect(events.at(-1)?.["message"]).toMatchObject({ provider: "real", model: "m2" });
  expect(asked[0]).toMatchObject({ model: "first/m1", options: { thinking: "high" } });
  expect(fallbacks).toEqual(["real/m2"]);
});

test("refusals come with what mends them, and too long a conversation in words that the loop knows", async () => {
  const failed = (failure: object) =>
    async function* (): AsyncGenerator<ChatLine> {
      yield { type: "error", message: { ...answer, content: [], stopReason: "error", errorMessage: "raw" }, failure: failure as never };
    };
  const denied = await heard(failed({ code: "exhausted", message: "the budget is used up", hint: "beige usage" }));
  expect(denied.events.at(-1)).toMatchObject({ type: "error", error: { errorMessage: "the budget is used up (beige usage)" } });
  const long = await heard(failed({ message: "130000 > 128000", overflow: true }));
  expect(long.events.at(-1)).toMatchObject({ error: { errorMessage: "prompt is too long: 130000 > 128000" } });
});

test("a gateway that is gone, a cut answer and an answer without an end are errors of the stream, never thrown", async () => {
  const gone = await heard(async function* () {
    yield* [];
    throw new BeigeError("unavailable", "no gateway answers", { hint: "beige gateway start" });
  });
  expect(gone.events).toEqual([expect.objectContaining({ type: "error", reason: "error" })]);
  expect(gone.events[0]?.["error"]).toMatchObject({ errorMessage: "no gateway answers (beige gateway start)" });
  const cut = await heard(async function* () {
    yield { type: "text_delta", contentIndex: 0, delta: "half" };
  });
  expect(cut.events.at(-1)).toMatchObject({
    type: "error",
    error: { errorMessage: "the answer ended before its end", content: [{ text: "half" }] },
  });
  const controller = new AbortController();
  const left = await heard(async function* () {
    controller.abort();
    yield* [];
    throw new BeigeError("timeout", "interrupted");
  }, controller.signal);
  expect(left.events.at(-1)).toMatchObject({ type: "error", reason: "aborted" });
});

test("what a model says reaches the terminal without what steers it, and the next request as it was", async () => {
  const evil = "a\u001b]52;c;aGFjaw==\u0007b\u009b31m";
  const call = { type: "toolCall" as const, id: "c1", name: "exec", arguments: { command: `printf '${evil}'` } };
  const message: AssistantMessage = { ...answer, content: [{ type: "text", text: evil }, call], stopReason: "toolUse" };
  const screen = createScreen();
  const asked: ChatAsk[] = [];
  const chat: Gateway["chat"] = async function* (_, ask) {
    asked.push(ask);
    yield { type: "text_delta", contentIndex: 0, delta: evil };
    yield { type: "toolcall_end", contentIndex: 1, toolCall: call };
    yield { type: "done", message };
  };
  const stream = roadStream({ chat } as unknown as Gateway, () => ({ agent: "a", session: "s" }), { onFallback: () => undefined, screen });
  const events: unknown[] = [];
  const model = { id: "p/m", api: "x", provider: "beige" } as never;
  for await (const event of await stream(model, { messages: [] } as never, {})) events.push(structuredClone(event));
  // eslint-disable-next-line no-control-regex -- what must not be there
  expect(JSON.stringify(events)).not.toMatch(/\\u001b|\\u0007|[\u0080-\u009f]/);
  const { message: seen } = events.at(-1) as { message: { content: readonly { id?: string; arguments?: unknown }[] } };
  expect(screen.argumentsOf("c1", seen.content[1]?.arguments)).toEqual(call.arguments);
  for await (const _ of await stream(model, { messages: [seen] } as never, {}));
  expect(asked[1]?.context.messages[0]).toMatchObject({ content: [{ text: evil }, { arguments: call.arguments }] });
  const entry = { type: "message", id: "1", parentId: null, message: { role: "user", content: evil } };
  expect(screen.shownEntry(entry)["message"]).toEqual({ role: "user", content: "a]52;c;aGFjaw==b31m" });
  expect(screen.wholeEntry(screen.shownEntry(entry))).toEqual(entry);
});

test("the newest pictures go with a request, as many as it takes; older ones are named in words", async () => {
  const asked: ChatAsk[] = [];
  const chat: Gateway["chat"] = async function* (_, ask) {
    asked.push(ask);
    yield { type: "done", message: answer };
  };
  const heard = { onFallback: () => undefined, screen: createScreen() };
  const stream = roadStream({ chat } as unknown as Gateway, () => ({ agent: "a", session: "s" }), heard);
  const picture = (letter: string) => ({ type: "image", mimeType: "image/png", data: letter.repeat(3 * 1024 * 1024) });
  const result = (letter: string) => ({
    role: "toolResult",
    toolCallId: letter,
    content: [{ type: "text", text: letter }, picture(letter)],
  });
  const messages = [result("a"), { role: "user", content: "and" }, result("b"), result("c")];
  for await (const _ of await stream({ id: "p/m", api: "x", provider: "beige" } as never, { messages } as never, {}));
  const sent = asked[0]?.context.messages.map(({ content }) => (typeof content === "string" ? content : content.map(({ type }) => type)));
  expect(sent).toEqual([["text", "text"], "and", ["text", "image"], ["text", "image"]]);
  expect(JSON.stringify(asked).length).toBeLessThan(8 * 1024 * 1024);
});
