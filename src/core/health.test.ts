import fc from "fast-check";
import { expect, test } from "vitest";
import { answered, cooling, failed, HARD_COOLDOWN_MS, HEALTHY, judge, parseHealth, SOFT_COOLDOWN_MS } from "./health.ts";

test.each([408, 409, 425, 500, 502, 503, 504, 520, 529, 599])("status %i falls back and cools nobody", (status) => {
  expect(judge({ status, message: "no" })).toEqual({ next: "fallback" });
});

test.each([
  [400, "invalid"],
  [401, "denied"],
  [402, "exhausted"],
  [403, "denied"],
  [404, "not_found"],
  [413, "invalid"],
  [422, "invalid"],
  [302, "invalid"],
])("status %i never falls back, whatever its words", (status, code) => {
  expect(judge({ status, message: "rate limit overloaded" })).toEqual({ next: "stop", code });
});

test("a 429 cools for what the provider says, else for five minutes", () => {
  expect(judge({ status: 429, message: "x", retryAfterMs: 7000 })).toEqual({ next: "fallback", coolMs: 7000 });
  expect(judge({ status: 429, message: "overloaded" })).toEqual({ next: "fallback", coolMs: HARD_COOLDOWN_MS });
});

test.each(["rate_limit_error", "Rate limit exceeded", "Too Many Requests", "too_many_requests"])(
  "the words %j without a 429 cool for a minute",
  (message) => {
    expect(judge({ message })).toEqual({ next: "fallback", coolMs: SOFT_COOLDOWN_MS });
    expect(judge({ status: 503, message, retryAfterMs: 5 })).toEqual({ next: "fallback", coolMs: 5 });
  },
);

test.each(["Overloaded", "at capacity", "temporarily unavailable", "Connection error.: other side closed", ""])(
  "%j is this session's trouble only",
  (message) => {
    expect(judge({ message })).toEqual({ next: "fallback" });
  },
);

test("a context that is too long is never tried again", () => {
  expect(judge({ status: 400, message: "too long", overflow: true })).toEqual({ next: "stop", code: "invalid" });
  expect(judge({ message: "too long", overflow: true })).toEqual({ next: "stop", code: "invalid" });
});

test("a cooldown never shrinks while it lasts, whatever happens", () => {
  const step = fc.oneof(
    fc.record({
      coolMs: fc.option(fc.integer({ min: 0, max: 1_000_000 }), { nil: undefined }),
      passMs: fc.integer({ min: 0, max: 50_000 }),
    }),
    fc.record({ ok: fc.constant(true), passMs: fc.integer({ min: 0, max: 50_000 }) }),
  );
  fc.assert(
    fc.property(fc.array(step), (steps) => {
      let health = HEALTHY;
      let now = 1000;
      for (const one of steps) {
        now += one.passMs;
        const before = cooling(health, now);
        const coolMs = "coolMs" in one ? one.coolMs : undefined;
        health = "ok" in one ? answered(health, now) : failed(health, { message: "x", ...(coolMs === undefined ? {} : { coolMs }) }, now);
        if (before !== undefined && (cooling(health, now) ?? 0) < before) return false;
        if (coolMs !== undefined && coolMs > 0 && (cooling(health, now) ?? 0) < now + coolMs) return false;
      }
      return true;
    }),
  );
});

test("an answer forgets failures but not a cooldown that still lasts", () => {
  const health = failed(failed(HEALTHY, { message: "a" }, 0), { message: "b", coolMs: 100 }, 0);
  expect(health).toEqual({ failures: 2, lastError: "b", coolingUntil: 100 });
  expect(answered(health, 50)).toEqual({ failures: 0, coolingUntil: 100 });
  expect(answered(health, 100)).toEqual(HEALTHY);
});

test("a stored row comes back; a broken one is forgotten; a cooldown that is over is dropped", () => {
  const health = failed(HEALTHY, { message: "slow down", coolMs: 500 }, 1000);
  expect(parseHealth(JSON.stringify(health), 1000)).toEqual(health);
  expect(parseHealth(JSON.stringify(health), 1500)).toEqual({ failures: 1, lastError: "slow down" });
  for (const text of ["", "{", "null", "[]", '"x"', '{"failures":"a","coolingUntil":"b"}']) expect(parseHealth(text, 0)).toEqual(HEALTHY);
});
