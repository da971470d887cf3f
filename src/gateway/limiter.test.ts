import { expect, test } from "vitest";
import { clock } from "../../test/llm/world.ts";
import { createLimiter } from "./limiter.ts";

const never = new AbortController().signal;
const tick = (): Promise<void> => new Promise((done) => setImmediate(done));

test("one who waits gets the slot when it is given back, in the order of asking", async () => {
  const limiter = createLimiter(clock);
  const order: number[] = [];
  const first = await limiter.slot("p", 1, never);
  const others = [1, 2, 3, 4].map(async (n) => {
    using slot = await limiter.slot("p", 1, never);
    expect(slot.waitedMs).toBeGreaterThanOrEqual(0);
    order.push(n);
    await tick();
  });
  expect(limiter.seen("p")).toEqual({ used: 1, waiting: 4, limit: 1 });
  first[Symbol.dispose]();
  await Promise.all(others);
  expect(order).toEqual([1, 2, 3, 4]);
  expect(limiter.seen("p")).toEqual({ used: 0, waiting: 0, limit: 1 });
});

test("nobody overtakes one who waits, even when a slot is free at that moment", async () => {
  const limiter = createLimiter(clock);
  const order: string[] = [];
  const held = await limiter.slot("p", 1, never);
  const early = limiter.slot("p", 1, never).then((slot) => (order.push("early"), slot));
  held[Symbol.dispose]();
  const late = limiter.slot("p", 1, never).then((slot) => (order.push("late"), slot));
  (await early)[Symbol.dispose]();
  (await late)[Symbol.dispose]();
  expect(order).toEqual(["early", "late"]);
});

test("giving back twice frees one slot", async () => {
  const limiter = createLimiter(clock);
  const [a, b] = [await limiter.slot("p", 2, never), await limiter.slot("p", 2, never)];
  a[Symbol.dispose]();
  a[Symbol.dispose]();
  expect(limiter.seen("p").used).toBe(1);
  b[Symbol.dispose]();
  expect(limiter.seen("p").used).toBe(0);
});

test("one who gives up while waiting leaves the line with their reason, and holds nothing", async () => {
  const limiter = createLimiter(clock);
  const held = await limiter.slot("p", 1, never);
  const leaver = new AbortController();
  const left = limiter.slot("p", 1, leaver.signal);
  const stays = limiter.slot("p", 1, never);
  leaver.abort(new Error("enough"));
  await expect(left).rejects.toThrow("enough");
  held[Symbol.dispose]();
  (await stays)[Symbol.dispose]();
  expect(limiter.seen("p")).toEqual({ used: 0, waiting: 0, limit: 1 });
  await expect(limiter.slot("p", 1, leaver.signal)).rejects.toThrow("enough");
});

test("no limit lets everybody through; providers do not share", async () => {
  const limiter = createLimiter(clock);
  const slots = await Promise.all(Array.from({ length: 500 }, () => limiter.slot("p", -1, never)));
  expect(limiter.seen("p").used).toBe(500);
  const other = await limiter.slot("q", 1, never);
  for (const slot of [...slots, other]) slot[Symbol.dispose]();
  expect(limiter.seen("p").used + limiter.seen("q").used).toBe(0);
});

test("a raised limit lets waiting requests go, a lowered one holds back until enough was given back", async () => {
  const limiter = createLimiter(clock);
  const first = await limiter.slot("p", 1, never);
  const second = limiter.slot("p", 1, never);
  limiter.limit("p", 2);
  const held = await second;
  limiter.limit("p", 1);
  let third = false;
  const waiting = limiter.slot("p", 1, never).then((slot) => ((third = true), slot));
  first[Symbol.dispose]();
  await tick();
  expect(third).toBe(false);
  held[Symbol.dispose]();
  (await waiting)[Symbol.dispose]();
  expect(limiter.seen("p")).toEqual({ used: 0, waiting: 0, limit: 1 });
});

test("the wait is told", async () => {
  const limiter = createLimiter(clock);
  const held = await limiter.slot("p", 1, never);
  setTimeout(() => held[Symbol.dispose](), 30);
  using slot = await limiter.slot("p", 1, never);
  expect(slot.waitedMs).toBeGreaterThanOrEqual(25);
});

test("10,000 mixed calls end with nothing held, never more than the limit at once, and in order", async () => {
  const limiter = createLimiter(clock);
  let now = 0;
  let most = 0;
  const granted: number[] = [];
  const call = async (n: number): Promise<void> => {
    const gone = new AbortController();
    if (n % 7 === 0) setImmediate(() => gone.abort(new Error("left")));
    using slot = await limiter.slot("p", 5, gone.signal);
    if (slot.waitedMs < 0) throw new Error("waited backwards");
    granted.push(n);
    now += 1;
    most = Math.max(most, now);
    try {
      if (n % 3 === 0) await tick();
      if (n % 5 === 0) throw new Error("provider failed");
    } finally {
      now -= 1;
    }
  };
  const results = await Promise.allSettled(Array.from({ length: 10_000 }, (_, n) => call(n)));
  expect(results.filter((result) => result.status === "fulfilled").length).toBeGreaterThan(6000);
  expect(most).toBeLessThanOrEqual(5);
  expect(granted).toEqual(granted.toSorted((a, b) => a - b));
  expect(limiter.seen("p")).toEqual({ used: 0, waiting: 0, limit: 5 });
});
