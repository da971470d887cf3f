import fc from "fast-check";
import { expect, test } from "vitest";
import { afterFailure, nextStep, PASSES, pauseMs, startFallback, WAIT_MAX_MS } from "./fallback.ts";

/** Plays a request in which every attempt fails; cooldowns as `cool` says at each moment. */
function play(
  models: number,
  cool: (model: number, attempts: number) => number | undefined,
): { tried: number[]; passes: number[]; waits: number[]; end: ReturnType<typeof nextStep> } {
  let state = startFallback(models);
  const tried: number[] = [];
  const passes: number[] = [];
  const waits: number[] = [];
  let now = 1000;
  while (true) {
    const step = nextStep(state, (model) => cool(model, tried.length), now);
    if (step.next === "exhausted") return { tried, passes, waits, end: step };
    if (step.next === "wait") {
      waits.push(step.ms);
      now += step.ms;
      state = step.state;
      continue;
    }
    tried.push(step.model);
    passes.push(step.pass);
    state = afterFailure(step.state, step.model);
  }
}

test("two models that fail are asked six times, in order, in three passes", () => {
  const { tried, passes, end } = play(2, () => undefined);
  expect(tried).toEqual([0, 1, 0, 1, 0, 1]);
  expect(passes).toEqual([1, 1, 2, 2, 3, 3]);
  expect(end).toEqual({ next: "exhausted", allCooling: false });
});

test("a model that cools is passed over, and comes back when its time is over", () => {
  expect(play(2, (model) => (model === 0 ? 5000 : undefined)).tried).toEqual([1, 1, 1]);
  expect(play(2, (model, attempts) => (model === 0 && attempts < 2 ? 50_000 : undefined)).tried).toEqual([1, 1, 0, 1]);
});

test("when all are cooling nobody is asked, and the soonest end is told", () => {
  expect(play(3, (model) => 20_000 + model * 100)).toEqual({
    tried: [],
    passes: [],
    waits: [],
    end: { next: "exhausted", allCooling: true, retryAfterMs: 19_000 },
  });
});

test("an end that is near is waited for when nobody else is left, and every wait costs a pass", () => {
  expect(play(1, () => 3000)).toMatchObject({ tried: [0, 0], passes: [2, 3], waits: [2000] });
  expect(play(2, (model, attempts) => (model === 1 ? 90_000 : 1500 + attempts * 2000))).toMatchObject({
    tried: [0, 0],
    waits: [500, 2000],
  });
  // One that has failed three times is not waited for.
  expect(play(2, (model, attempts) => (model === 1 ? 90_000 : attempts === 3 ? 1500 : undefined))).toMatchObject({
    tried: [0, 0, 0],
    waits: [],
  });
  expect(play(1, () => 1000 + WAIT_MAX_MS + 1)).toMatchObject({ tried: [], waits: [], end: { retryAfterMs: WAIT_MAX_MS + 1 } });
});

test("when only some are cooling it is no question of time, though the time is told", () => {
  expect(play(2, (model) => (model === 0 ? 4000 : undefined)).end).toEqual({ next: "exhausted", allCooling: false, retryAfterMs: 3000 });
});

test("a cooldown that ends this very millisecond is over", () => {
  expect(play(1, () => 1000).tried).toEqual([0, 0, 0]);
});

test("no list, no cooldown and no history leads to more than three asks of a model, or out of order within a pass", () => {
  fc.assert(
    fc.property(
      fc.integer({ min: 0, max: 6 }),
      fc.array(fc.option(fc.integer({ min: 0, max: 3000 }), { nil: undefined })),
      (models, times) => {
        const { tried, passes } = play(models, (model, attempts) => times[(model * 7 + attempts) % Math.max(1, times.length)]);
        const perModel = Array.from({ length: models }, (_, model) => tried.filter((other) => other === model).length);
        const ordered = tried.every(
          (model, index) => index === 0 || passes[index] !== passes[index - 1] || model > (tried[index - 1] ?? -1),
        );
        return tried.length <= models * PASSES && perModel.every((count) => count <= 3) && ordered;
      },
    ),
  );
});

test("the first pass starts at once, later ones after a bounded pause with jitter", () => {
  expect(pauseMs(1, 0.9)).toBe(0);
  fc.assert(
    fc.property(fc.integer({ min: 2, max: 40 }), fc.double({ min: 0, max: 0.999, noNaN: true }), (pass, random) => {
      const ms = pauseMs(pass, random);
      return ms >= 250 && ms <= 4000;
    }),
  );
});
