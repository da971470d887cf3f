import { expect, test } from "vitest";
import { createPace } from "./pace.ts";

test("workers side by side give the loop away together: no stretch is longer than one", async () => {
  let now = 0;
  const clock = { now: () => now, monotonic: () => now, sleep: async () => undefined, after: () => ({ cancel: () => undefined }) };
  const pace = createPace(clock, 20);
  let sinceTurn = 0;
  let longest = 0;
  let going = true;
  const turn = (): void => {
    sinceTurn = 0;
    if (going) setImmediate(turn);
  };
  turn();
  const worker = async (): Promise<void> => {
    for (let at = 0; at < 20; at += 1) {
      await pace();
      // A piece of work of 5 ms.
      now += 5;
      sinceTurn += 5;
      longest = Math.max(longest, sinceTurn);
    }
  };
  await Promise.all(Array.from({ length: 32 }, worker));
  going = false;
  // Each worker that was let go does one piece before it asks again.
  expect(longest).toBeLessThanOrEqual(20 + 32 * 5);
});
