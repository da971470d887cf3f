import { expect, test } from "vitest";
import type { Plugin } from "../../core/resource.ts";
import { failed, guardsOf, promised } from "./guards.ts";

const call = { agent: "a", tool: "exec", args: [], callId: "1" };
const answer = { agent: "a", text: "t", thinking: "", toolCalls: [], provider: "p", model: "m" };

test("only guards are stood in for, and each asks the real one once that is there", async () => {
  const hooks = guardsOf(["preToolCall", "preResponse", "postResponse"], async () => ({
    preToolCall: async () => ({ deny: "no" }),
    preResponse: async ({ text }) => ({ text: `${text}!` }),
  }));
  expect(Object.keys(hooks)).toEqual(["preToolCall", "preResponse"]);
  expect(await hooks.preToolCall?.(call)).toEqual({ deny: "no" });
  expect(await hooks.preResponse?.(answer)).toEqual({ text: "t!" });
  expect(await guardsOf(["prePrompt"], async () => ({})).prePrompt?.({ agent: "a", text: "t" })).toBe(undefined);
});

test("a guard whose plugin cannot be had rejects with the plugin's name", async () => {
  await expect(guardsOf(["preToolCall"], () => failed("p")).preToolCall?.(call)).rejects.toThrow("plugin p failed");
});

test("what a plugin promised is read from its status, whatever stands there", () => {
  const of = (hooks: unknown): readonly string[] =>
    promised({ metadata: { name: "p" }, status: { observed: { hooks } } } as unknown as Plugin);
  expect(of(["preResponse", "preToolCall", "postResponse", 5])).toEqual(["preToolCall", "preResponse"]);
  expect([of("preToolCall"), of(undefined)]).toEqual([[], []]);
  expect(promised({ metadata: { name: "p" } } as Plugin)).toEqual([]);
});
