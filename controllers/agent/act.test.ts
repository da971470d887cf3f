import { expect, test } from "vitest";
import { BeigeError } from "../../src/core/errors.ts";
import type { World } from "../../src/core/world.ts";
import { actAgent } from "./act.ts";
import { step, SPEC, type AgentAction } from "./action.ts";

/** As much of a world as starting a container needs; `intents` is what the store remembers. */
function world(start: (signal: AbortSignal | undefined) => Promise<void>): { readonly w: World; readonly intents: unknown[] } {
  const intents: unknown[] = [];
  const w = {
    clock: { now: () => 1000 },
    sandbox: { start: (_id: string, signal?: AbortSignal) => start(signal) },
    state: { setIntent: (_uid: string, intent: unknown) => intents.push(intent) },
  };
  return { w: w as unknown as World, intents };
}
const action: AgentAction = step(SPEC, "start", {
  type: "start",
  agent: { uid: "u", namespace: "default", name: "a" },
  which: { id: "c1" },
  replacing: "key",
});

test("a replacement that the engine refuses is remembered, so that it is not tried again at once", async () => {
  const { w, intents } = world(() => Promise.reject(new BeigeError("invalid", "no such runtime")));
  await expect(actAgent(w, action, new AbortController().signal)).rejects.toThrow("no such runtime");
  expect(intents).toMatchObject([{ type: "replace-failed", data: { key: "key", message: "no such runtime" } }]);
});

test.each<[string, unknown]>([
  ["the plain abort", undefined],
  ["a word of its own", new BeigeError("conflict", "stopping")],
  ["an error that the engine threw because of it", new Error("socket hang up")],
])("a replacement that the gateway's own end stops midway (%s) has not failed: the next start goes on with it", async (_name, reason) => {
  const stop = new AbortController();
  const { w, intents } = world((signal) => {
    stop.abort(reason);
    return Promise.reject(reason ?? signal?.reason);
  });
  await expect(actAgent(w, action, stop.signal)).rejects.toBeDefined();
  expect(intents).toStrictEqual([]);
});

test.each(["unavailable", "timeout", "exhausted"] as const)("an engine that is %s has judged nothing", async (code) => {
  const { w, intents } = world(() => Promise.reject(new BeigeError(code, "busy")));
  await expect(actAgent(w, action, new AbortController().signal)).rejects.toThrow("busy");
  expect(intents).toStrictEqual([]);
});
