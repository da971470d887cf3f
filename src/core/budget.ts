// Whether a request fits into a budget, when its periods begin and end, and how that is said. Pure.
import { BeigeError } from "./errors.ts";
import type { Budget, BudgetLimits } from "../../schemas/types.ts";
import type { Charge, Measure, Period, Scope } from "./ledger.ts";

export const DAY_MS = 86_400_000;
const NANO = 1_000_000_000;
export const PERIODS: readonly Period[] = ["daily", "monthly"];
export const MEASURES: readonly Measure[] = ["usd", "tokens", "requests"];
export const NOTHING: Charge = { requests: 0, tokens: 0, nano: 0 };

export const plus = (a: Charge, b: Charge): Charge => ({
  requests: a.requests + b.requests,
  tokens: a.tokens + b.tokens,
  nano: a.nano + b.nano,
});
export const minus = (a: Charge, b: Charge): Charge => plus(a, { requests: -b.requests, tokens: -b.tokens, nano: -b.nano });

/** Rounded up: what is counted is never less than what is paid. Bounded, so that sums stay exact. */
export const nanoOf = (usd: number): number => (usd > 0 ? Math.min(Math.ceil(usd * NANO - 1e-6), 1_000_000 * NANO) : 0);
export const wholeOf = (count: number): number => (count > 0 ? Math.min(Math.ceil(count), 1_000_000_000_000) : 0);
export const dayOf = (at: number): number => Math.floor(at / DAY_MS);

/** The UTC days of a period, both in it. */
export function daysOf(period: Period, at: number): { readonly from: number; readonly to: number } {
  if (period === "daily") return { from: dayOf(at), to: dayOf(at) };
  const date = new Date(at);
  const first = (months: number): number => dayOf(Date.UTC(date.getUTCFullYear(), date.getUTCMonth() + months, 1));
  return { from: first(0), to: first(1) - 1 };
}

/** Milliseconds since the epoch of the next period's begin. */
export const resetsAt = (period: Period, at: number): number => (daysOf(period, at).to + 1) * DAY_MS;

export const limitOf = (budget: Budget, period: Period, measure: Measure): number | undefined => budget[period]?.[measure];

/** In the unit of the limit. */
export const amountOf = (charge: Charge, measure: Measure): number => (measure === "usd" ? charge.nano / NANO : charge[measure]);

/** Compared in whole units. */
const exactOf = (charge: Charge, measure: Measure): number => (measure === "usd" ? charge.nano : charge[measure]);
const exactLimit = (limit: number, measure: Measure): number => (measure === "usd" ? Math.round(limit * NANO) : limit);

export interface Standing {
  readonly spent: Charge;
  /** By requests that run now. */
  readonly reserved: Charge;
}

export interface Overrun {
  readonly period: Period;
  readonly measure: Measure;
  readonly limit: number;
}

/** The first limit that this request would break; undefined when it fits. */
export function overrun(budget: Budget, standing: (period: Period) => Standing, wanted: Charge): Overrun | undefined {
  for (const period of PERIODS) {
    if (budget[period] === undefined) continue;
    const { spent, reserved } = standing(period);
    for (const measure of MEASURES) {
      const limit = limitOf(budget, period, measure);
      if (limit === undefined) continue;
      const sum = exactOf(spent, measure) + exactOf(reserved, measure) + exactOf(wanted, measure);
      if (sum > exactLimit(limit, measure)) return { period, measure, limit };
    }
  }
  return undefined;
}

const isObject = (value: unknown): value is Readonly<Record<string, unknown>> =>
  typeof value === "object" && value !== null && !Array.isArray(value);

/** A budget that comes without a manifest, such as that of a key. Throws `invalid`. */
export function parseBudget(value: unknown): Budget {
  const wrong = (what: string): BeigeError =>
    new BeigeError("invalid", `budget: ${what}`, { hint: '{"daily": {"usd": 5}, "monthly": {"tokens": 1000000}}' });
  if (!isObject(value)) throw wrong("it must be an object");
  const { unknownPrice = "refuse", ...periods } = value;
  if (unknownPrice !== "refuse" && unknownPrice !== "allow") throw wrong("unknownPrice is refuse or allow");
  const parsed: Partial<Record<Period, BudgetLimits>> = {};
  for (const [key, limits] of Object.entries(periods)) {
    const period = PERIODS.find((each) => each === key);
    if (period === undefined) throw wrong(`there is no ${JSON.stringify(key.slice(0, 40))}; daily and monthly are`);
    parsed[period] = parseLimits(limits, (what) => wrong(`${period} ${what}`));
  }
  return { ...parsed, unknownPrice };
}

function parseLimits(value: unknown, wrong: (what: string) => BeigeError): BudgetLimits {
  if (!isObject(value)) throw wrong("must be an object");
  const parsed: Partial<Record<Measure, number>> = {};
  for (const [key, limit] of Object.entries(value)) {
    const measure = MEASURES.find((each) => each === key);
    if (measure === undefined) throw wrong(`has no ${JSON.stringify(key.slice(0, 40))}; usd, tokens and requests are`);
    const fits = typeof limit === "number" && limit >= 0 && limit <= (measure === "usd" ? 1_000_000 : 1_000_000_000_000);
    if (!fits || (measure !== "usd" && !Number.isInteger(limit)))
      throw wrong(`${measure} must be a ${measure === "usd" ? "" : "whole "}number from 0`);
    parsed[measure] = limit;
  }
  return parsed;
}

/** Whether a limit in dollars forbids a model whose price nobody knows. */
export const needsPrice = (budget: Budget): boolean =>
  budget.unknownPrice === "refuse" && PERIODS.some((period) => budget[period]?.usd !== undefined);

/** $5.00, $0.0123, <$0.0001. */
export function usdText(usd: number): string {
  if (usd > 0 && usd < 0.0001) return "<$0.0001";
  const [whole = "0", part = ""] = usd.toFixed(4).split(".");
  return `$${whole}.${part.replace(/0{1,2}$/, "")}`;
}

const count = (value: number, word: string): string => `${value} ${value === 1 ? word.slice(0, -1) : word}`;
export const amountText = (value: number, measure: Measure): string => (measure === "usd" ? usdText(value) : count(value, measure));

export const scopeText = ({ kind, name }: Scope): string => `${kind === "key" ? "API key" : kind} '${name}'`;

/** The line or command that raises a limit. */
export const raiseHint = ({ kind, name }: Scope, { period, measure }: Pick<Overrun, "period" | "measure">): string =>
  kind === "key"
    ? `revoke it and make one with a larger --budget-${period}-${measure}: beige key create`
    : `raise spec.budget.${period}.${measure} of ${kind === "agent" ? "Agent" : "Provider"} ${name} and apply`;

export interface RefusedSpend {
  readonly scope: Scope;
  readonly over: Overrun;
  readonly standing: Standing;
  readonly wanted: Charge;
  readonly now: number;
}

/** A budget that is used up: other than a rate limit it is not waited for. */
export class BudgetError extends BeigeError {
  readonly scope: Scope["kind"];
  constructor(scope: Scope["kind"], message: string, details: { readonly hint: string; readonly retryAfterMs: number }) {
    super("exhausted", message, details);
    this.scope = scope;
  }
}

/** Which budget, its limit, what is spent and reserved, when it resets, and what raises it. */
export function usedUp({ scope, over, standing, wanted, now }: RefusedSpend): BudgetError {
  const { period, measure, limit } = over;
  const text = (charge: Charge): string => amountText(amountOf(charge, measure), measure);
  const resets = resetsAt(period, now);
  const fits = exactOf(standing.spent, measure) + exactOf(wanted, measure) <= exactLimit(limit, measure);
  const reserved = exactOf(standing.reserved, measure) === 0 ? "" : `, ${text(standing.reserved)} reserved by running requests`;
  const message =
    `the ${period} budget of ${scopeText(scope)} ${fits ? "is reserved" : "is used up"}: ${text(standing.spent)} of ` +
    `${amountText(limit, measure)} spent${reserved}, this request may take ${text(wanted)}; it resets at ${new Date(resets).toISOString()}`;
  // What is only reserved may come back as soon as a running request ends.
  return new BudgetError(scope.kind, message, { hint: raiseHint(scope, over), retryAfterMs: fits ? 1000 : Math.max(1000, resets - now) });
}

export const unpriced = (scope: Scope, provider: string, model: string): BeigeError =>
  new BeigeError("invalid", `the price of model '${provider}/${model}' is not known, and ${scopeText(scope)} has a budget in US dollars`, {
    hint: `set spec.models[].cost of '${model}' in Provider ${provider}, or budget.unknownPrice: allow`,
  });

/** Share of the limit that is spent, from 0; a limit of nothing is used up from the start. */
export const shareOf = (spent: Charge, limit: number, measure: Measure): number =>
  limit === 0 ? 1 : exactOf(spent, measure) / exactLimit(limit, measure);
