import { expect, test } from "vitest";
import { amountText, dayOf, daysOf, nanoOf, needsPrice, overrun, parseBudget, resetsAt, usdText, usedUp } from "./budget.ts";
import type { Charge } from "./ledger.ts";

const at = (time: string): number => Date.parse(time);
const charge = (part: Partial<Charge>): Charge => ({ requests: 0, tokens: 0, nano: 0, ...part });

test("a day and a month are those of UTC, over the end of a year and of February too", () => {
  expect(daysOf("daily", at("2026-11-30T23:59:59.999Z")).to).toBe(dayOf(at("2026-11-30T00:00:00Z")));
  expect(new Date(resetsAt("daily", at("2026-11-30T23:59:59.999Z"))).toISOString()).toBe("2026-12-01T00:00:00.000Z");
  expect(new Date(resetsAt("monthly", at("2026-12-31T12:00:00Z"))).toISOString()).toBe("2027-01-01T00:00:00.000Z");
  expect(new Date(resetsAt("monthly", at("2028-02-29T12:00:00Z"))).toISOString()).toBe("2028-03-01T00:00:00.000Z");
  const { from, to } = daysOf("monthly", at("2028-02-29T12:00:00Z"));
  expect(to - from + 1).toBe(29);
});

test("money is counted in whole billionths of a dollar and never less than it is", () => {
  expect(nanoOf(0.1) + nanoOf(0.2)).toBe(nanoOf(0.3));
  expect(nanoOf(1e-12)).toBe(1);
  expect([nanoOf(-1), nanoOf(Number.NaN), nanoOf(0)]).toEqual([0, 0, 0]);
  expect(nanoOf(Number.POSITIVE_INFINITY)).toBe(1e15);
});

test("a limit is met by what is spent, reserved and wanted together; the last cent may be used", () => {
  const budget = { daily: { usd: 0.45 }, unknownPrice: "refuse" } as const;
  const standing = (nano: number) => () => ({ spent: charge({ nano: nanoOf(0.15) }), reserved: charge({ nano }) });
  const wanted = charge({ nano: nanoOf(0.15) });
  expect(overrun(budget, standing(nanoOf(0.15)), wanted)).toBeUndefined();
  expect(overrun(budget, standing(nanoOf(0.15) + 1), wanted)).toEqual({ period: "daily", measure: "usd", limit: 0.45 });
  expect(overrun({ monthly: { requests: 0 }, unknownPrice: "allow" }, standing(0), charge({ requests: 1 }))).toMatchObject({
    measure: "requests",
  });
});

test("a price is needed only for a limit in dollars", () => {
  expect(needsPrice({ daily: { usd: 1 }, unknownPrice: "refuse" })).toBe(true);
  expect(needsPrice({ daily: { tokens: 1 }, unknownPrice: "refuse" })).toBe(false);
  expect(needsPrice({ monthly: { usd: 1 }, unknownPrice: "allow" })).toBe(false);
});

test("a refusal names budget, limit, spent, reserved, reset and the line that raises it", () => {
  const now = at("2026-11-30T23:59:00Z");
  const refused = {
    scope: { kind: "agent", name: "ops.travel" },
    over: { period: "daily", measure: "usd", limit: 5 },
    standing: { spent: charge({ nano: nanoOf(4.98) }), reserved: charge({ nano: nanoOf(0.0145) }) },
    wanted: charge({ nano: nanoOf(0.2) }),
    now,
  } as const;
  const error = usedUp(refused);
  expect(error.message).toBe(
    "the daily budget of agent 'ops.travel' is used up: $4.98 of $5.00 spent, $0.0145 reserved by running requests, " +
      "this request may take $0.20; it resets at 2026-12-01T00:00:00.000Z",
  );
  expect(error).toMatchObject({
    code: "exhausted",
    hint: "raise spec.budget.daily.usd of Agent ops.travel and apply",
    retryAfterMs: 60_000,
  });
  const soon = usedUp({ ...refused, standing: { spent: charge({}), reserved: charge({ nano: nanoOf(5) }) } });
  expect([soon.retryAfterMs, soon.message.includes("is reserved")]).toEqual([1000, true]);
});

test("amounts read as people write them", () => {
  expect([usdText(5), usdText(0.5), usdText(0.01234), usdText(0.00001), usdText(0), usdText(1234.5)]).toEqual([
    "$5.00",
    "$0.50",
    "$0.0123",
    "<$0.0001",
    "$0.00",
    "$1234.50",
  ]);
  expect([amountText(1, "requests"), amountText(2, "tokens")]).toEqual(["1 request", "2 tokens"]);
});

test("a budget without a manifest is held to the same fields, and what is odd is named", () => {
  expect(parseBudget({ daily: { usd: 0.5, requests: 3 } })).toEqual({ daily: { usd: 0.5, requests: 3 }, unknownPrice: "refuse" });
  for (const odd of [
    null,
    [],
    "5",
    { weekly: {} },
    { daily: 5 },
    { daily: { eur: 1 } },
    { daily: { usd: -1 } },
    { daily: { tokens: 1.5 } },
  ]) {
    expect(() => parseBudget(odd)).toThrow(/^budget: /);
  }
  expect(() => parseBudget({ daily: { usd: Number.NaN } })).toThrow("usd must be a number");
  expect(() => parseBudget({ unknownPrice: "maybe" })).toThrow("refuse or allow");
});
