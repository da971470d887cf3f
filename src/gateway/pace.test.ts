import { expect, test } from "vitest";
import { createPace } from "./pace.ts";

function rig() {
  const due: (() => void)[] = [];
  const pace = createPace({
    after: (_ms, run) => {
      due.push(run);
      return { cancel: () => undefined };
    },
  });
  const source = () => {
    const seen = { paused: false, pause: () => (seen.paused = true), resume: () => (seen.paused = false) };
    return seen;
  };
  return { pace, source, timers: () => due.length, step: () => due.shift()?.() };
}

test("what is little is never made to wait", () => {
  const { pace, source, step, timers } = rig();
  const one = source();
  for (let round = 0; round < 10; round += 1) {
    pace.take(1024 * 1024, one);
    expect(one.paused).toBe(false);
    step();
  }
  expect(timers()).toBe(0);
});

test("a flood waits until the next step, and so does whoever comes in the same one", () => {
  const { pace, source, step, timers } = rig();
  const [flood, other] = [source(), source()];
  pace.take(2 * 1024 * 1024, flood);
  pace.take(1, other);
  expect([flood.paused, other.paused]).toEqual([true, true]);
  expect(timers()).toBe(1);
  step();
  expect([flood.paused, other.paused]).toEqual([false, false]);
  pace.take(1, other);
  expect(other.paused).toBe(false);
  step();
  expect(timers()).toBe(0);
});
