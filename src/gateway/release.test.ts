import { expect, test } from "vitest";
import type { AssistantMessage } from "../core/chat.ts";
import { fold, newDraft } from "../core/draft.ts";
import { NO_USAGE } from "../core/usage.ts";
import { eventsOf, read } from "./release.ts";

const call = { type: "toolCall", id: "1", name: "exec", arguments: { command: "ls" } } as const;
const answer = (...content: AssistantMessage["content"]): AssistantMessage => ({
  role: "assistant",
  content,
  api: "echo",
  provider: "p",
  model: "m",
  usage: NO_USAGE,
  stopReason: "stop",
  timestamp: 1,
});
const who = { agent: "a" };

test("the events of a whole answer fold to that answer again", () => {
  const message = answer({ type: "thinking", thinking: "hm" }, { type: "text", text: "yes" }, call, { type: "text", text: "" });
  const draft = newDraft({ api: "echo", provider: "p", model: "m", timestamp: 1 });
  for (const event of eventsOf(message)) fold(draft, event);
  expect(draft.content).toEqual(message.content);
});

test("a hook sees text, thinking and calls, and its text takes the place of all text", async () => {
  const seen: unknown[] = [];
  const message = answer({ type: "thinking", thinking: "hm" }, { type: "text", text: "a " }, call, { type: "text", text: "b" });
  const said = await read(async (input) => (seen.push(input), { text: "c" }), who, message);
  expect(seen).toEqual([
    { agent: "a", text: "a b", thinking: "hm", toolCalls: [{ name: "exec", arguments: { command: "ls" } }], provider: "p", model: "m" },
  ]);
  expect(said).toEqual({ message: { ...message, content: [{ type: "thinking", thinking: "hm" }, { type: "text", text: "c" }, call] } });
});

test("text for an answer that had none stands before its calls, and no text leaves none", async () => {
  expect(await read(async () => ({ text: "first" }), who, answer(call))).toEqual({
    message: answer({ type: "text", text: "first" }, call),
  });
  expect(await read(async () => ({ text: "" }), who, answer({ type: "text", text: "x" }, call))).toEqual({ message: answer(call) });
});

test("what no hook changes stays the same object, and a denial is handed on", async () => {
  const message = answer({ type: "text", text: "x" });
  expect(await read(async ({ text }) => ({ text }), who, message)).toEqual({ message });
  expect(await read(async () => undefined, who, message)).toEqual({ message });
  expect(await read(async () => ({ deny: "no" }), who, message)).toEqual({ deny: "no" });
});
