import fc from "fast-check";
import { expect, test } from "vitest";
import { answerText, fold, newDraft, shows } from "./draft.ts";
import { addUsage, NO_USAGE, priced } from "./usage.ts";
import type { ChatEvent } from "./chat.ts";

const blank = { api: "a", provider: "p", model: "m", timestamp: 1 };

test("a draft grows to what the deltas say", () => {
  const draft = newDraft(blank);
  const events: ChatEvent[] = [
    { type: "start" },
    { type: "thinking_start", contentIndex: 0 },
    { type: "thinking_delta", contentIndex: 0, delta: "hm" },
    { type: "text_start", contentIndex: 1 },
    { type: "text_delta", contentIndex: 1, delta: "he" },
    { type: "text_delta", contentIndex: 1, delta: "y" },
    { type: "toolcall_start", contentIndex: 2 },
    { type: "toolcall_delta", contentIndex: 2, delta: "{" },
    { type: "toolcall_end", contentIndex: 2, toolCall: { type: "toolCall", id: "1", name: "exec", arguments: { command: "id" } } },
  ];
  for (const event of events) fold(draft, event);
  expect(draft.content).toEqual([
    { type: "thinking", thinking: "hm" },
    { type: "text", text: "hey" },
    { type: "toolCall", id: "1", name: "exec", arguments: { command: "id" } },
  ]);
  expect(answerText(draft)).toBe("hey");
});

test("indexes out of order or out of reason leave no holes and take no memory", () => {
  fc.assert(
    fc.property(fc.array(fc.record({ contentIndex: fc.oneof(fc.integer(), fc.double()), delta: fc.string() })), (deltas) => {
      const draft = newDraft(blank);
      for (const delta of deltas) fold(draft, { type: "text_delta", ...delta });
      return draft.content.length <= deltas.length && Object.keys(draft.content).length === draft.content.length;
    }),
  );
});

test("start, empty blocks and empty deltas show nothing; content does", () => {
  const nothing: ChatEvent[] = [
    { type: "start" },
    { type: "text_start", contentIndex: 0 },
    { type: "text_delta", contentIndex: 0, delta: "" },
    { type: "toolcall_start", contentIndex: 0 },
    { type: "text_end", contentIndex: 0, content: "" },
  ];
  expect(nothing.map(shows)).toEqual([false, false, false, false, false]);
  expect(shows({ type: "thinking_delta", contentIndex: 0, delta: "h" })).toBe(true);
  expect(shows({ type: "text_end", contentIndex: 0, content: "whole" })).toBe(true);
});

test("tokens cost what the model's price says, and add up", () => {
  const usage = priced(
    { ...NO_USAGE, input: 1_000_000, output: 500_000, cacheRead: 10 },
    { input: 3, output: 15, cacheRead: 0.3, cacheWrite: 3.75 },
  );
  expect(usage.cost).toEqual({ input: 3, output: 7.5, cacheRead: 0.000003, cacheWrite: 0, total: 10.500003 });
  expect(usage.totalTokens).toBe(1_500_010);
  expect(addUsage(usage, usage).cost.total).toBeCloseTo(21.000006);
  expect(priced({ ...NO_USAGE, input: Number.NaN, output: -5 }, undefined)).toEqual(NO_USAGE);
});
