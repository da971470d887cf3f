import fc from "fast-check";
import { expect, test } from "vitest";
import type { Verdict } from "../core/kind.ts";
import { backoffMs, createQueue, QUEUE } from "./queue.ts";
import { manualClock, seededRandom, silentLog, turns } from "./fixture.ts";

const deps = (run: (key: string, signal: AbortSignal) => Promise<Verdict>) => {
  const clock = manualClock();
  return { clock, queue: createQueue({ run, clock, random: seededRandom(1), log: silentLog }) };
};

const gate = () => {
  const open: (() => void)[] = [];
  return { wait: () => new Promise<void>((resolve) => open.push(resolve)), release: () => open.shift()?.(), waiting: () => open.length };
};

test("a key that is added while it runs runs once more, not twice at once", async () => {
  const g = gate();
  let runs = 0;
  let most = 0;
  let now = 0;
  const { queue } = deps(async () => {
    runs += 1;
    now += 1;
    most = Math.max(most, now);
    await g.wait();
    now -= 1;
    return { next: "settled" };
  });
  queue.event("a");
  for (let i = 0; i < 5; i++) queue.event("a");
  await turns();
  g.release();
  await turns();
  g.release();
  await queue.idle();
  expect({ runs, most }).toEqual({ runs: 2, most: 1 });
});

test("no more than four keys run at once, and the first that came is the first that runs", async () => {
  const g = gate();
  const order: string[] = [];
  const { queue } = deps(async (key) => {
    order.push(key);
    await g.wait();
    return { next: "settled" };
  });
  for (let i = 0; i < 10; i++) queue.event(`k${i}`);
  await turns();
  expect(order).toEqual(["k0", "k1", "k2", "k3"]);
  for (let i = 0; i < 10; i++) {
    g.release();
    await turns();
  }
  expect(order).toEqual(Array.from({ length: 10 }, (_, i) => `k${i}`));
  expect(queue.busy()).toBe(0);
});

test("a nudge ends a wait, and wakes neither a key at rest nor one that backs off", async () => {
  const verdicts: Verdict[] = [
    { next: "wait", ms: 60_000 },
    { next: "settled" },
    { next: "retry", code: "unavailable", message: "", retryAfterMs: 60_000 },
  ];
  let runs = 0;
  const { queue } = deps(async () => {
    runs += 1;
    return verdicts.shift() ?? { next: "settled" };
  });
  const seen: number[] = [];
  for (const wake of [queue.nudge, queue.event, queue.nudge, queue.nudge, queue.event, queue.nudge]) {
    wake("a");
    await turns();
    seen.push(runs);
  }
  expect(seen).toEqual([0, 1, 2, 2, 3, 3]);
});

test("a failing key backs off, a hint does not shorten that, an event does", async () => {
  let runs = 0;
  const { queue, clock } = deps(async () => {
    runs += 1;
    return { next: "retry", code: "unavailable", message: "no" };
  });
  queue.event("a");
  await turns();
  for (let i = 0; i < 50; i++) queue.hint("a");
  await turns();
  expect(runs).toBe(1);
  queue.event("a");
  await turns();
  expect(runs).toBe(2);
  await clock.advance(200);
  expect(runs).toBeGreaterThan(2);
});

test("a failing pass that causes its own hints is no hot loop", async () => {
  let runs = 0;
  const { queue, clock } = deps(async () => {
    runs += 1;
    queue.hint("a");
    return { next: "retry", code: "unavailable", message: "no" };
  });
  queue.event("a");
  await turns(50);
  expect(runs).toBe(1);
  await clock.advance(60_000);
  expect(runs).toBeLessThan(40);
});

test("a wait runs at its time, and a hint before it runs at once", async () => {
  let runs = 0;
  const { queue, clock } = deps(async () => {
    runs += 1;
    return { next: "wait", ms: 1000 };
  });
  queue.event("a");
  await turns();
  await clock.advance(999);
  expect(runs).toBe(1);
  await clock.advance(1);
  expect(runs).toBe(2);
  queue.hint("a");
  await turns();
  expect(runs).toBe(3);
});

test("a pass that throws is a failure that backs off", async () => {
  let runs = 0;
  const { queue, clock } = deps(async () => {
    runs += 1;
    if (runs === 1) throw new Error("bug");
    return { next: "settled" };
  });
  queue.event("a");
  await turns();
  await clock.advance(200);
  expect(runs).toBe(2);
});

test("stop aborts what runs, ends within its grace and starts nothing any more", async () => {
  let runs = 0;
  let aborted = false;
  const { queue, clock } = deps(async (_key, signal) => {
    runs += 1;
    await new Promise<void>((resolve) => signal.addEventListener("abort", () => resolve()));
    aborted = true;
    return { next: "retry", code: "internal", message: "" };
  });
  queue.event("a");
  await turns();
  await queue.stop(1000);
  queue.event("a");
  await clock.advance(60_000);
  expect({ runs, aborted }).toEqual({ runs: 1, aborted: true });
});

test("stop does not wait for ever for a pass that ignores its signal", async () => {
  const { queue, clock } = deps(() => new Promise(() => undefined));
  queue.event("a");
  await turns();
  const stopped = queue.stop(1000);
  await clock.advance(1000);
  await stopped;
});

test("the backoff doubles up to its cap and lies anywhere below", () => {
  fc.assert(
    fc.property(fc.integer({ min: 1, max: 200 }), fc.integer(), (failures, seed) => {
      const ms = backoffMs(failures, seededRandom(seed), QUEUE);
      expect(ms).toBeGreaterThanOrEqual(0);
      expect(ms).toBeLessThanOrEqual(Math.min(30_000, 200 * 2 ** (failures - 1)));
    }),
  );
});

const step = fc.oneof(
  fc.record({ type: fc.constantFrom("event" as const, "hint" as const), key: fc.constantFrom("a", "b", "c", "d", "e", "f") }),
  fc.record({ type: fc.constant("advance" as const), ms: fc.integer({ min: 0, max: 40_000 }) }),
  fc.record({ type: fc.constant("release" as const) }),
);
const verdict = fc.constantFrom<Verdict>(
  { next: "settled" },
  { next: "wait", ms: 5000 },
  { next: "wait" },
  { next: "retry", code: "unavailable", message: "" },
);

test("whatever happens: one run a key at a time, at most four in all, and every event is followed by a run", async () => {
  await fc.assert(
    fc.asyncProperty(fc.array(step, { maxLength: 60 }), fc.array(verdict, { minLength: 1, maxLength: 10 }), async (steps, verdicts) => {
      const g = gate();
      const active = new Map<string, number>();
      const owed = new Set<string>();
      let count = 0;
      const { queue, clock } = deps(async (key) => {
        owed.delete(key);
        active.set(key, (active.get(key) ?? 0) + 1);
        expect(active.get(key)).toBe(1);
        expect([...active.values()].reduce((a, b) => a + b, 0)).toBeLessThanOrEqual(4);
        await g.wait();
        active.set(key, 0);
        return verdicts[count++ % verdicts.length] ?? { next: "settled" };
      });
      for (const s of steps) {
        if (s.type === "event") owed.add(s.key);
        if (s.type === "event") queue.event(s.key);
        if (s.type === "hint") queue.hint(s.key);
        if (s.type === "advance") await clock.advance(s.ms);
        if (s.type === "release") g.release();
        await turns();
      }
      for (let i = 0; i < 100 && queue.busy() > 0; i++) {
        g.release();
        await turns();
      }
      expect([...owed]).toEqual([]);
      expect(queue.busy()).toBe(0);
    }),
    { numRuns: 150 },
  );
});
