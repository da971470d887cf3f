import { expect, test } from "vitest";
import { createRunningCalls, WAIT_MS, WAITING_MAX } from "./running.ts";

const never = new AbortController().signal;

/** Timers that run when the test says so. */
function made() {
  const timers = new Set<{ readonly ms: number; readonly run: () => void }>();
  const idle: string[] = [];
  const clock = {
    after: (ms: number, run: () => void) => {
      const timer = { ms, run };
      timers.add(timer);
      return { cancel: () => void timers.delete(timer) };
    },
  };
  const pass = (ms: number): void => {
    for (const timer of timers) if (timer.ms === ms && timers.delete(timer)) timer.run();
  };
  return { calls: createRunningCalls({ clock, onIdle: (uid) => void idle.push(uid) }), timers, idle, pass };
}

test("held calls wait until they are admitted, those of other agents do not", async () => {
  const { calls, timers } = made();
  calls.hold("a", 1000);
  const order: string[] = [];
  const waiting = [1, 2].map((n) => calls.wait("a", never)?.then(() => order.push(`in ${n}`)));
  expect([calls.held("a"), calls.held("b"), calls.wait("b", never)]).toEqual([true, false, undefined]);
  order.push("switched");
  calls.admit("a");
  for (const one of waiting) await one;
  expect([order, calls.held("a"), calls.wait("a", never), timers.size]).toEqual([["switched", "in 1", "in 2"], false, undefined, 0]);
});

test("a hold that nobody ends is over after its time, and one that is renewed keeps who waits", async () => {
  const { calls, pass } = made();
  calls.hold("a", 1000);
  const waiting = calls.wait("a", never);
  calls.hold("a", 2000);
  pass(1000);
  expect(calls.held("a")).toBe(true);
  pass(2000);
  await waiting;
  expect(calls.held("a")).toBe(false);
});

test("who waits too long, and who is one too many, gets an error that says when to come again", async () => {
  const { calls, pass, timers } = made();
  calls.hold("a", 1_000_000);
  const waiting = Array.from({ length: WAITING_MAX }, () => calls.wait("a", never));
  await expect(calls.wait("a", never)).rejects.toMatchObject({
    code: "unavailable",
    retryAfterMs: 5000,
    message: expect.stringMatching(/being replaced, and 32 calls wait/) as string,
  });
  const late = waiting.map(async (one) => {
    await expect(one).rejects.toMatchObject({ code: "unavailable", retryAfterMs: 5000 });
  });
  pass(WAIT_MS);
  await Promise.all(late);
  // The gate's own timer is left, and there is room again.
  expect(timers.size).toBe(1);
  const again = calls.wait("a", never);
  calls.admit("a");
  await again;
});

test("who leaves while waiting is forgotten", async () => {
  const { calls, timers } = made();
  calls.hold("a", 1000);
  const leaving = new AbortController();
  const waiting = calls.wait("a", leaving.signal);
  leaving.abort(new Error("left"));
  await expect(waiting).rejects.toThrow("left");
  await expect(calls.wait("a", AbortSignal.abort(new Error("gone")))).rejects.toThrow("gone");
  expect(timers.size).toBe(1);
});

test("the end of an agent's last call is told, once, and that of one among others is not", () => {
  const { calls, idle } = made();
  const [one, two] = [calls.enter("a", never), calls.enter("a", never)];
  one?.leave();
  expect(idle).toEqual([]);
  two?.leave();
  two?.leave();
  expect([idle, calls.running("a")]).toEqual([["a"], 0]);
});
