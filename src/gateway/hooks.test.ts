import { expect, test } from "vitest";
import { systemClock } from "../adapters/clock.ts";
import type { Hooks } from "../core/plugin.ts";
import type { Clock, Log } from "../core/world.ts";
import { createHooks, type HookRunner } from "./hooks.ts";

const said: string[] = [];
const note = (message: string, fields?: object): void => void said.push(`${message} ${JSON.stringify(fields)}`);
const log: Log = { debug: note, info: note, warn: note, error: note };
const redact = (text: string): string => text.replaceAll("hunter22", "[secret]");
const fast: Pick<Clock, "after"> = { after: (ms, run) => systemClock.after(ms / 100, run) };
const runner = (...hooks: readonly Hooks[]): HookRunner =>
  createHooks({ plugins: { hooks: () => hooks.map((each, at) => ({ plugin: `p${at}`, hooks: each })) }, clock: fast, log, redact });
const call = { agent: "travel", tool: "exec", args: ["ls"], callId: "c" };

test("a call passes when no guard objects, and stops at the first that does", async () => {
  expect(await runner({}, { preToolCall: async () => undefined }).guardCall(call)).toBeUndefined();
  let asked = 0;
  const late: Hooks = {
    preToolCall: async () => {
      asked += 1;
      return undefined;
    },
  };
  expect(await runner({ preToolCall: async () => ({ deny: "no" }) }, late).guardCall(call)).toEqual({ deny: "no" });
  expect(asked).toBe(0);
});

test("a guard that throws, hangs or answers nonsense denies, without telling secrets", async () => {
  const guards: readonly Hooks["preToolCall"][] = [
    async () => Promise.reject(new Error("key hunter22")),
    () => {
      throw new Error("sync");
    },
    () => new Promise(() => undefined),
    async () => ({ deny: 5 }) as never,
    async () => "no" as never,
    async () => true as never,
    async () => ["no"] as never,
    async () => Object.defineProperty({}, "deny", { get: () => JSON.parse("{") as never }) as never,
  ];
  for (const preToolCall of guards) {
    const verdict = await runner(preToolCall === undefined ? {} : { preToolCall }).guardCall(call);
    expect(verdict?.deny).toMatch(/^guard preToolCall of plugin p0 failed: /);
    expect(verdict?.deny).not.toContain("hunter22");
  }
  expect(said.join("\n")).not.toContain("hunter22");
});

test("a condition that did not hold objects to nothing", async () => {
  const quiet: Hooks = {
    preToolCall: async () => false as never,
    preResponse: async () => false as never,
    prePrompt: async () => null as never,
  };
  const text = { agent: "a", text: "hi" };
  expect(await runner(quiet).guardCall(call)).toBeUndefined();
  expect(await runner(quiet).prePrompt(text)).toEqual({ text: "hi" });
  expect(await runner(quiet).preResponse({ ...text, thinking: "", toolCalls: [], provider: "p", model: "m" })).toEqual({ text: "hi" });
});

test("an empty reason still denies", async () => {
  expect(await runner({ preToolCall: async () => ({ deny: "" }) }).guardCall(call)).toEqual({ deny: "denied" });
});

test("answers are changed by one plugin after the other, and one that fails, hangs or says nonsense withholds", async () => {
  const input = { agent: "a", text: "key hunter22", thinking: "", toolCalls: [], provider: "p", model: "m" };
  const hide: Hooks = { preResponse: async ({ text }) => ({ text: text.replace("hunter22", "***") }) };
  const mark: Hooks = { preResponse: async ({ text }) => ({ text: `${text}!` }) };
  expect(await runner(hide, { preResponse: async () => undefined }, mark).preResponse(input)).toEqual({ text: "key ***!" });
  expect(await runner(hide, { preResponse: async () => ({ deny: "no" }) }, mark).preResponse(input)).toEqual({ deny: "no" });
  for (const preResponse of [
    async () => Promise.reject(new Error("gone")),
    () => new Promise<never>(() => undefined),
    async () => ({ text: 5 }) as never,
    async () => "a better answer" as never,
    async () => Object.defineProperty({}, "text", { get: () => JSON.parse("{") as never }) as never,
    async () => ({ text: "x".repeat(4 * 1024 * 1024 + 1) }),
  ])
    expect(await runner({ preResponse }).preResponse(input)).toMatchObject({ deny: expect.stringContaining("preResponse of plugin p0") });
  expect([runner().holds(), runner(hide).holds(), runner(hide).reads()]).toEqual([false, true, true]);
});

test("prompts are changed by one plugin after the other, and a failing one denies", async () => {
  const up: Hooks = { prePrompt: async ({ text }) => ({ text: text.toUpperCase() }) };
  const mark: Hooks = { prePrompt: async ({ text }) => ({ text: `${text}!` }) };
  const input = { agent: "travel", text: "hi" };
  expect(await runner(up, { prePrompt: async () => undefined }, mark).prePrompt(input)).toEqual({ text: "HI!" });
  expect(await runner(up, { prePrompt: async () => ({ deny: "no" }) }, mark).prePrompt(input)).toEqual({ deny: "no" });
  expect(await runner({ prePrompt: () => new Promise(() => undefined) }).prePrompt(input)).toMatchObject({
    deny: expect.stringContaining("failed"),
  });
  expect(await runner().prePrompt(input)).toEqual({ text: "hi" });
});

test("observers see everything, hold nobody up and break nothing", async () => {
  const seen: unknown[] = [];
  const all = runner(
    { postToolCall: () => new Promise(() => undefined) },
    { postToolCall: async () => Promise.reject(new Error("hunter22")) },
    {
      postToolCall: async (input) => void seen.push(input),
      modelSwitched: async (input) => void seen.push(input),
      postResponse: async (input) => void seen.push(input),
    },
  );
  await all.observeCall({ ...call, exitCode: 0, durationMs: 1 });
  await all.modelSwitched({ agent: "travel", from: "a", to: "b" });
  await all.postResponse({ agent: "travel", text: "t", provider: "p", model: "m" });
  expect(seen).toHaveLength(3);
  expect(said.join("\n")).not.toContain("hunter22");
});

test("observers that never end are bounded in number", async () => {
  let started = 0;
  const stuck = createHooks({
    plugins: { hooks: () => [{ plugin: "p", hooks: { postToolCall: () => ((started += 1), new Promise(() => undefined)) } }] },
    clock: systemClock,
    log,
    redact,
  });
  for (let at = 0; at < 1_000; at += 1) void stuck.observeCall({ ...call, exitCode: 0, durationMs: 1 });
  await systemClock.sleep(20);
  expect(started).toBe(256);
});
