import { expect, test } from "vitest";
import { BeigeError } from "../core/errors.ts";
import type { Plan } from "../core/kind.ts";
import type { Report } from "./controller.ts";
import { manualClock, turns } from "./fixture.ts";
import { follow, stateOf, type Followed } from "./follow.ts";
import { ref } from "./rig.ts";

const plan = (more: Partial<Plan>): Plan => ({ actions: [], ready: false, reason: "Why", message: "because", ...more });
const report = (more: Partial<Report>): Report => ({ ref: ref("a"), uid: "u", generation: 1, state: "done", ...more });
const never = (): boolean => false;
const action = { type: "t", impact: "create", why: "missing", summary: "do it" } as const;

test.each<[string, Report, string]>([
  ["ready", report({ plan: plan({ ready: true }) }), "ready"],
  ["ready and looking again in an hour", report({ plan: plan({ ready: true, wait: { ms: 3_600_000, on: [ref("b")] } }) }), "ready"],
  ["suspended", report({ plan: plan({ suspended: true }) }), "ready"],
  ["with actions left", report({ plan: plan({ ready: true, actions: [action] }) }), "working"],
  ["at work", report({ state: "working", doing: "do it", plan: plan({}) }), "working"],
  ["waiting for another object", report({ plan: plan({ wait: { on: [ref("b")] } }) }), "waiting"],
  ["looking again in a second", report({ plan: plan({ wait: { ms: 1_000 } }) }), "waiting"],
  ["looking again in half a minute", report({ plan: plan({ wait: { ms: 30_000 } }) }), "failed"],
  ["not ready with nothing to wait for", report({ plan: plan({}) }), "failed"],
  ["unknown", report({ plan: plan({ ready: "unknown" }) }), "waiting"],
  ["refused", report({ error: new BeigeError("denied", "no"), verdict: { next: "settled" } }), "failed"],
  [
    "backing off",
    report({ error: new BeigeError("unavailable", "no"), verdict: { next: "retry", code: "unavailable", message: "no" } }),
    "waiting",
  ],
  ["gone", report({ state: "gone" }), "gone"],
])("an object that is %s", (_name, told, state) => {
  expect(stateOf(told, never).state).toBe(state);
});

const followed = (name: string): Followed => ({ ref: ref(name), verb: "create", uid: `u-${name}`, generation: 2 });
const told = (name: string, more: Partial<Report>): Report => report({ ref: ref(name), uid: `u-${name}`, generation: 2, ...more });

function rig(names: readonly string[], stuck: (name: string) => boolean = never) {
  const clock = manualClock();
  let tell: (r: Report) => void = () => undefined;
  const subscribe = (listener: (r: Report) => void) => {
    tell = listener;
    return { unsubscribe: () => undefined };
  };
  const following = follow({ clock, subscribe, stuck: (r) => stuck(r.name) }, names.map(followed), 10_000);
  const got: string[] = [];
  let ended = false;
  const stop = new AbortController();
  const run = async (): Promise<void> => {
    for await (const event of following.events(stop.signal)) got.push(`${event.ref.name} ${event.state}`);
    ended = true;
  };
  void run();
  return { clock, got, ended: () => ended, stop, following, tell: async (r: Report) => (tell(r), turns()) };
}

test("it ends when all are at rest, and reports of older generations or other objects say nothing", async () => {
  const r = rig(["a", "b"]);
  await r.tell(told("a", { plan: plan({ ready: true }), generation: 1 }));
  await r.tell(told("a", { plan: plan({ ready: true }), uid: "before" }));
  await r.tell(told("c", { plan: plan({ ready: true }) }));
  expect(r.got).toEqual([]);
  await r.tell(told("a", { plan: plan({ ready: true }) }));
  await r.tell(told("b", { state: "working", doing: "x" }));
  await r.tell(told("b", { state: "working", doing: "x" }));
  expect(r.ended()).toBe(false);
  await r.tell(told("b", { state: "gone" }));
  expect(r.got).toEqual(["a ready", "b working", "b gone"]);
  expect(r.ended()).toBe(true);
});

test("nobody to follow ends at once; the deadline ends the rest", async () => {
  const none = rig([]);
  await turns();
  expect(none.ended()).toBe(true);
  const late = rig(["a"]);
  await late.clock.advance(9_999);
  expect(late.ended()).toBe(false);
  await late.clock.advance(1);
  expect(late.ended()).toBe(true);
});

test("who waits for one that fails later fails with it, and recovers with it", async () => {
  const r = rig(["a", "b", "c"]);
  await r.tell(told("b", { plan: plan({ wait: { on: [ref("a")] } }) }));
  await r.tell(told("a", { plan: plan({}) }));
  expect(r.got).toEqual(["b waiting", "a failed", "b failed"]);
  await r.tell(told("a", { plan: plan({ ready: true }) }));
  expect(r.got.slice(3)).toEqual(["a ready", "b waiting"]);
  await r.tell(told("b", { plan: plan({ ready: true }) }));
  await r.tell(told("c", { plan: plan({ ready: true }) }));
  expect(r.ended()).toBe(true);
});

test("who waits for an object outside the set that is stuck has failed", async () => {
  const r = rig(["a"], (name) => name === "old");
  await r.tell(told("a", { plan: plan({ wait: { on: [ref("old")] } }) }));
  expect([r.got, r.ended()]).toEqual([["a failed"], true]);
});

test("a slow reader gets the last state of each object only", async () => {
  const clock = manualClock();
  let tell: (r: Report) => void = () => undefined;
  const subscribe = (listener: (r: Report) => void) => ((tell = listener), { unsubscribe: () => undefined });
  const following = follow({ clock, subscribe, stuck: never }, [followed("a")], 10_000);
  for (let i = 0; i < 1_000; i++) tell(told("a", { state: "working", doing: `step ${i}` }));
  tell(told("a", { plan: plan({ ready: true }) }));
  const got: string[] = [];
  for await (const event of following.events(new AbortController().signal)) got.push(event.state);
  expect(got).toEqual(["ready"]);
  following.close();
});

test("a reader that leaves ends it", async () => {
  const r = rig(["a"]);
  await turns();
  r.stop.abort();
  await turns();
  expect(r.ended()).toBe(true);
});

test("what nothing was heard of when the time is over is still on its way, not done", async () => {
  const r = rig(["a", "b"]);
  await r.tell(told("a", { plan: plan({ ready: true }) }));
  await r.clock.advance(10_000);
  await turns();
  expect(r.ended()).toBe(true);
  expect([...r.following.states().values()].map((one) => `${one.ref.name} ${one.state}`)).toStrictEqual(["a ready", "b waiting"]);
});
