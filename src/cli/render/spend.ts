// Amounts of tokens and money, and how a budget stands, as people read them.
import { amountText, usdText } from "../../core/budget.ts";
import type { BudgetLine } from "../../core/ledger.ts";

/** 950, 12.3k, 4.5M. */
export function tokensText(tokens: number): string {
  if (tokens < 1000) return String(tokens);
  const [value, unit] = tokens < 999_950 ? [tokens / 1000, "k"] : [tokens / 1_000_000, "M"];
  return `${value.toFixed(1)}${unit}`;
}

/** What was used where not every model has a price: a part, or nothing that is known. */
export const costText = (usd: number, unpriced: number): string =>
  unpriced > 0 && usd === 0 ? "unknown" : `${usdText(usd)}${unpriced > 0 ? "+" : ""}`;

/** `$4.98 of $5.00 a day (99 %)`. */
export function budgetText(line: BudgetLine): string {
  const share = line.limit === 0 ? "" : ` (${Math.floor(((line.spent + line.reserved) / line.limit) * 100)} %)`;
  const spent = line.measure === "usd" ? usdText(line.spent) : tokensText(line.spent);
  const reserved = line.reserved === 0 ? "" : `, ${line.measure === "usd" ? usdText(line.reserved) : tokensText(line.reserved)} reserved`;
  const period = line.period === "daily" ? "a day" : "a month";
  return `${spent} of ${amountText(line.limit, line.measure)} ${period}${reserved}${share}`;
}
