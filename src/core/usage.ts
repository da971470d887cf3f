// Tokens and their price. Pure.
import type { Usage } from "./chat.ts";
import type { ModelCost } from "../../schemas/types.ts";

export const NO_USAGE: Usage = {
  input: 0,
  output: 0,
  cacheRead: 0,
  cacheWrite: 0,
  totalTokens: 0,
  cost: { input: 0, output: 0, cacheRead: 0, cacheWrite: 0, total: 0 },
};

const count = (tokens: number): number => (Number.isFinite(tokens) && tokens > 0 ? tokens : 0);

/** The same tokens at a model's price (US dollars per million); without a price the cost is 0. */
export function priced(usage: Omit<Usage, "cost">, price: ModelCost | undefined): Usage {
  const tokens = {
    input: count(usage.input),
    output: count(usage.output),
    cacheRead: count(usage.cacheRead),
    cacheWrite: count(usage.cacheWrite),
  };
  const dollars = (kind: keyof typeof tokens): number => (tokens[kind] * (price?.[kind] ?? 0)) / 1_000_000;
  const cost = { input: dollars("input"), output: dollars("output"), cacheRead: dollars("cacheRead"), cacheWrite: dollars("cacheWrite") };
  return {
    ...tokens,
    totalTokens: count(usage.totalTokens) || tokens.input + tokens.output + tokens.cacheRead + tokens.cacheWrite,
    cost: { ...cost, total: cost.input + cost.output + cost.cacheRead + cost.cacheWrite },
  };
}

export function addUsage(a: Usage, b: Usage): Usage {
  return {
    input: a.input + b.input,
    output: a.output + b.output,
    cacheRead: a.cacheRead + b.cacheRead,
    cacheWrite: a.cacheWrite + b.cacheWrite,
    totalTokens: a.totalTokens + b.totalTokens,
    cost: {
      input: a.cost.input + b.cost.input,
      output: a.cost.output + b.cost.output,
      cacheRead: a.cost.cacheRead + b.cost.cacheRead,
      cacheWrite: a.cost.cacheWrite + b.cost.cacheWrite,
      total: a.cost.total + b.cost.total,
    },
  };
}
