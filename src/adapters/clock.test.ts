import { expect, test } from "vitest";
import { systemClock } from "./clock.ts";

const wait = (ms: number): Promise<void> => new Promise((done) => setTimeout(done, ms));

test("a sleep lasts about as long as asked", async () => {
  const from = systemClock.monotonic();
  await systemClock.sleep(30);
  expect(systemClock.monotonic() - from).toBeGreaterThanOrEqual(28);
});

test("a timer of months does not fire at once", async () => {
  let fired = false;
  const timer = systemClock.after(2 ** 31 * 5, () => (fired = true));
  const never = systemClock.after(Number.POSITIVE_INFINITY, () => (fired = true));
  await wait(30);
  timer.cancel();
  never.cancel();
  expect(fired).toBe(false);
});

test("a cancelled timer never fires, negative and absurd lengths fire soon", async () => {
  const fired: string[] = [];
  systemClock.after(5, () => fired.push("cancelled")).cancel();
  systemClock.after(-5, () => fired.push("negative"));
  systemClock.after(Number.NaN, () => fired.push("nan"));
  await wait(30);
  expect(fired.toSorted()).toEqual(["nan", "negative"]);
});

test("an aborted sleep rejects with the reason, before and during", async () => {
  const reason = new Error("stop");
  await expect(systemClock.sleep(1_000, AbortSignal.abort(reason))).rejects.toBe(reason);
  const abort = new AbortController();
  const sleeping = systemClock.sleep(10_000, abort.signal);
  abort.abort(reason);
  await expect(sleeping).rejects.toBe(reason);
});
