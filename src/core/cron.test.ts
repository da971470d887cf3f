import fc from "fast-check";
import { expect, test } from "vitest";
import { countWithin, cronProblem, lastWithin, nextAfter, zoneProblem } from "./cron.ts";
import { zonedText } from "./zone.ts";

/** The next times after an instant, as the zone's clock shows them. */
function following(cron: string, zone: string, after: string, count: number): readonly string[] {
  const times: string[] = [];
  for (let at = Date.parse(after); times.length < count; times.push(zonedText(zone, at))) at = nextAfter(cron, zone, at);
  return times;
}

test.each([
  // A gap: once, at its end.
  ["30 2 * * *", "America/New_York", "2026-03-07T12:00:00-05:00", ["2026-03-08T03:00:00-04:00", "2026-03-09T02:30:00-04:00"]],
  ["0 0 * * *", "Africa/Cairo", "2026-04-23T12:00:00Z", ["2026-04-24T01:00:00+03:00", "2026-04-25T00:00:00+03:00"]],
  ["15 2 * * *", "Australia/Lord_Howe", "2026-10-03T00:00:00Z", ["2026-10-04T02:30:00+11:00", "2026-10-05T02:15:00+11:00"]],
  ["30 2 * * *", "Europe/Vienna", "2026-03-28T12:00:00Z", ["2026-03-29T03:00:00+02:00", "2026-03-30T02:30:00+02:00"]],
  ["*/10 2 * * *", "Europe/Vienna", "2026-03-29T00:30:00Z", ["2026-03-29T03:00:00+02:00", "2026-03-30T02:00:00+02:00"]],
  ["0,30 2,3 * * *", "Europe/Vienna", "2026-03-29T00:30:00Z", ["2026-03-29T03:00:00+02:00", "2026-03-29T03:30:00+02:00"]],
  [
    "0 12 * * *",
    "Pacific/Apia",
    "2011-12-29T12:00:00Z",
    ["2011-12-29T12:00:00-10:00", "2011-12-31T00:00:00+14:00", "2011-12-31T12:00:00+14:00"],
  ],
  // A fold: once, the first time.
  ["30 1 * * *", "America/New_York", "2026-10-31T12:00:00-04:00", ["2026-11-01T01:30:00-04:00", "2026-11-02T01:30:00-05:00"]],
  ["30 2 * * *", "Europe/Vienna", "2026-10-24T12:00:00Z", ["2026-10-25T02:30:00+02:00", "2026-10-26T02:30:00+01:00"]],
  ["45 1 * * *", "Australia/Lord_Howe", "2026-04-03T20:00:00Z", ["2026-04-05T01:45:00+11:00", "2026-04-06T01:45:00+10:30"]],
  // No transition on the day, or one that does not matter.
  ["0 12 * * 0", "Europe/Berlin", "2022-03-24T00:00:00Z", ["2022-03-27T12:00:00+02:00", "2022-04-03T12:00:00+02:00"]],
  ["0 9 * * 1-5", "Europe/Vienna", "2026-10-23T12:00:00Z", ["2026-10-26T09:00:00+01:00", "2026-10-27T09:00:00+01:00"]],
  ["0 0 29 2 *", "UTC", "2096-03-01T00:00:00Z", ["2104-02-29T00:00:00Z"]],
  // Every hour means every real hour: no hole in the repeated one, no crowd after the skipped one.
  ["0 * * * *", "Europe/Vienna", "2026-10-25T00:00:00Z", ["2026-10-25T02:00:00+01:00", "2026-10-25T03:00:00+01:00"]],
  [
    "*/20 * * * *",
    "Europe/Vienna",
    "2026-10-25T00:30:00Z",
    ["2026-10-25T02:40:00+02:00", "2026-10-25T02:00:00+01:00", "2026-10-25T02:20:00+01:00"],
  ],
  [
    "*/30 * * * *",
    "Europe/Vienna",
    "2026-03-29T00:20:00Z",
    ["2026-03-29T01:30:00+01:00", "2026-03-29T03:00:00+02:00", "2026-03-29T03:30:00+02:00"],
  ],
  ["* * * * *", "Europe/Vienna", "2026-10-25T00:59:30Z", ["2026-10-25T02:00:00+01:00", "2026-10-25T02:01:00+01:00"]],
])("%s in %s after %s is next at %j (P109)", (cron, zone, after, times) => {
  expect(following(cron, zone, after, times.length)).toEqual(times);
});

test("every minute has no hole and no double over the end of summer time (P109)", () => {
  const zone = "Europe/Vienna";
  let at = Date.parse("2026-10-24T23:00:00Z");
  for (let i = 0; i < 240; i++) {
    const next = nextAfter("* * * * *", zone, at);
    expect(next - at).toBe(60_000);
    at = next;
  }
});

test.each([
  ["* * * *", /has 4 fields, expected 5/],
  ["* * * * * *", /has 6 fields/],
  ["@daily", /has 1 fields/],
  ["61 * * * *", /not valid.*61/],
  ["* 24 * * *", /not valid/],
  ["0 0 30 2 *", /never comes/],
  ["a b c d e", /not valid/],
  ["", /fields/],
])("the expression %j is refused with the reason", (cron, reason) => {
  expect(cronProblem(cron)).toMatch(reason);
  expect(() => nextAfter(cron, "UTC", 0)).toThrow(reason);
});

test.each(["0 9 * * 1-5", "0 0 * * MON-FRI", "*/5 * * * *", "0 0 1,15 * *", "0 0 31 1-12 *"])("the expression %j is good", (cron) => {
  expect(cronProblem(cron)).toBeUndefined();
});

test("an unknown zone and a bare offset are refused", () => {
  expect(zoneProblem("Mars/Olympus")).toMatch(/not known/);
  expect(zoneProblem("+02:00")).toMatch(/not known/);
  expect(zoneProblem("")).toMatch(/not known/);
  expect(zoneProblem("Europe/Vienna")).toBeUndefined();
});

test("the last time of a span is the one that nextAfter reaches last, and none is after it", () => {
  const zones = ["Europe/Vienna", "America/New_York", "Australia/Lord_Howe", "Africa/Cairo", "UTC"];
  const crons = ["0 9 * * 1-5", "30 2 * * *", "*/15 * * * *", "0 0 1 * *", "15 1,2,3 * * *"];
  const start = Date.parse("2026-01-01T00:00:00Z");
  fc.assert(
    fc.property(
      fc.constantFrom(...zones),
      fc.constantFrom(...crons),
      fc.integer({ min: 0, max: 365 * 86_400_000 }),
      fc.integer({ min: 0, max: 40 * 86_400_000 }),
      (zone, cron, offset, length) => {
        const afterMs = start + offset;
        const atMs = afterMs + length;
        const last = lastWithin(cron, zone, { afterMs, atMs });
        if (last === undefined) return nextAfter(cron, zone, afterMs) > atMs;
        return last > afterMs && last <= atMs && nextAfter(cron, zone, last) > atMs && nextAfter(cron, zone, last - 1) === last;
      },
    ),
    { numRuns: 300 },
  );
});

test("the next time is later and does not depend on where in between it is asked", () => {
  fc.assert(
    fc.property(
      fc.constantFrom("Europe/Vienna", "America/New_York", "Australia/Lord_Howe", "Pacific/Apia"),
      fc.constantFrom("30 2 * * *", "*/20 * * * *", "0 0 * * 0", "59 1-3 * * *"),
      fc.integer({ min: Date.parse("2026-01-01"), max: Date.parse("2027-01-01") }),
      fc.double({ min: 0, max: 0.999, noNaN: true }),
      (zone, cron, at, part) => {
        const next = nextAfter(cron, zone, at);
        const between = at + Math.floor((next - at) * part);
        return next > at && (between >= next || nextAfter(cron, zone, between) === next);
      },
    ),
    { numRuns: 300 },
  );
});

test("counting stops at the most that is asked for", () => {
  const span = { afterMs: 0, atMs: 86_400_000 };
  expect(countWithin("0 * * * *", "UTC", { ...span, most: 1000 })).toBe(24);
  expect(countWithin("* * * * *", "UTC", { ...span, most: 100 })).toBe(100);
});
