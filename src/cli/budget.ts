// The flags of a key's budget: one for each period and measure.
import { MEASURES, PERIODS, parseBudget } from "../core/budget.ts";
import type { Budget } from "../../schemas/types.ts";
import type { Flag, Input } from "./flags.ts";
import { word } from "./flags.ts";

const WORDS = { usd: "US dollars", tokens: "tokens", requests: "LLM requests" } as const;
const DAYS = { daily: "a day", monthly: "a month" } as const;

export const budgetFlags: readonly Flag[] = PERIODS.flatMap((period) =>
  MEASURES.map((measure) => ({
    name: `budget-${period}-${measure}`,
    value: "N",
    summary: `${WORDS[measure]} ${DAYS[period]} (UTC), at most`,
  })),
);

/** Undefined where no flag is given. Throws `invalid`. */
export function budgetOf(input: Input): Budget | undefined {
  const periods = PERIODS.flatMap((period) => {
    const limits = MEASURES.flatMap((measure) => {
      const text = word(input, `budget-${period}-${measure}`);
      return text === undefined ? [] : [[measure, /^\d{1,13}(\.\d{1,9})?$/.test(text) ? Number(text) : text]];
    });
    return limits.length === 0 ? [] : [[period, Object.fromEntries(limits) as unknown]];
  });
  return periods.length === 0 ? undefined : parseBudget(Object.fromEntries(periods));
}
