// The one record of what LLM requests spend: reserves before each attempt, settles after it, and says no when a budget would break.
import { amountOf, daysOf, limitOf, MEASURES, minus, nanoOf, needsPrice, NOTHING, overrun, PERIODS, plus } from "../core/budget.ts";
import { amountText, raiseHint, resetsAt, scopeText, shareOf, unpriced, usedUp, wholeOf, type Standing } from "../core/budget.ts";
import { BeigeError } from "../core/errors.ts";
import type { Accounts, BudgetLine, Charge, LedgerBook, LedgerEnd, LedgerRow, Measure, Period, Scope } from "../core/ledger.ts";
import { nsName } from "../core/resource.ts";
import type { Usage } from "../core/chat.ts";
import type { Ledger, Spend } from "../core/road.ts";
import type { Clock } from "../core/world.ts";
import type { Budget } from "../../schemas/types.ts";

/** A budget is nearly used up, or is: said once a period. */
export interface BudgetNotice {
  readonly scope: Scope;
  readonly reason: "BudgetLow" | "BudgetUsedUp";
  readonly message: string;
}

export interface LedgerDeps {
  readonly book: LedgerBook;
  readonly clock: Pick<Clock, "now">;
  readonly budgetOf: (scope: Scope) => Budget | undefined;
  /** Everybody who may have a budget. */
  readonly scopes: () => Iterable<Scope>;
  readonly tell: (notice: BudgetNotice) => void;
}

const LOW = 0.8;
/** Scopes whose sums are kept in memory; the others are read again when they are needed. */
const CELLS_MAX = 5_000;
/** What clients may choose is kept this long, in characters. */
const TEXT_MAX = 256;
/** Whose limits are listed at once. */
const LISTED_MAX = 1_000;

interface Sum {
  readonly from: number;
  spent: Charge;
  reserved: Charge;
  /** Limits of which was told already. */
  readonly told: Set<string>;
}
type Cell = Partial<Record<Period, Sum>>;

interface Open {
  readonly row: LedgerRow;
  readonly charge: Charge;
  readonly sums: readonly Sum[];
  readonly scopes: readonly Scope[];
}

const scopesOf = (spend: Spend): readonly Scope[] => [
  ...(spend.agent === undefined ? [] : [{ kind: "agent", name: nsName(spend.agent.namespace, spend.agent.name) } as const]),
  ...(spend.key === undefined ? [] : [{ kind: "key", name: spend.key } as const]),
  { kind: "provider", name: spend.provider },
];

export function createLedger(deps: LedgerDeps): Ledger & Accounts {
  const { book, clock } = deps;
  const cells = new Map<string, Cell>();
  const open = new Map<string, Open>();

  /** The sums of the period that is now; those of another are read from the store. */
  function sumOf(scope: Scope, period: Period, now: number): Sum {
    const key = `${scope.kind}/${scope.name}`;
    let cell = cells.get(key);
    if (cell === undefined) {
      if (cells.size >= CELLS_MAX) dropIdle(cells);
      cell = {};
      cells.set(key, cell);
    }
    const { from, to } = daysOf(period, now);
    const known = cell[period];
    if (known?.from === from) return known;
    const made: Sum = { from, spent: book.charged(scope, from, to), reserved: NOTHING, told: new Set() };
    cell[period] = made;
    const budget = deps.budgetOf(scope);
    // What was told before the gateway was started again is not told once more.
    if (budget !== undefined) for (const { mark } of reached(budget, period, made.spent)) made.told.add(mark);
    return made;
  }

  const standing =
    (scope: Scope, now: number) =>
    (period: Period): Standing =>
      sumOf(scope, period, now);

  function check(scope: Scope, spend: Spend, wanted: Charge): void {
    const budget = deps.budgetOf(scope);
    if (budget === undefined) return;
    if (spend.usd === undefined && needsPrice(budget)) throw unpriced(scope, spend.provider, spend.model);
    const now = clock.now();
    const over = overrun(budget, standing(scope, now), wanted);
    if (over === undefined) return;
    const sum = sumOf(scope, over.period, now);
    const error = usedUp({ scope, over, standing: sum, wanted, now });
    once(sum, `${over.measure} BudgetUsedUp`, { scope, reason: "BudgetUsedUp", message: `requests are refused: ${error.message}` });
    throw error;
  }

  function once(sum: Sum, mark: string, notice: BudgetNotice): void {
    if (sum.told.has(mark)) return;
    sum.told.add(mark);
    deps.tell(notice);
  }

  /** Says so when a limit is nearly, or wholly, spent. */
  function watch(scope: Scope): void {
    const budget = deps.budgetOf(scope);
    if (budget === undefined) return;
    const now = clock.now();
    for (const period of PERIODS) {
      if (budget[period] === undefined) continue;
      const sum = sumOf(scope, period, now);
      for (const { mark, reason, measure, limit } of reached(budget, period, sum.spent)) {
        const spent = amountText(amountOf(sum.spent, measure), measure);
        const message =
          `${spent} of the ${period} budget of ${scopeText(scope)}, ${amountText(limit, measure)}, is spent; ` +
          `it resets at ${new Date(resetsAt(period, now)).toISOString()}; ${raiseHint(scope, { period, measure })}`;
        once(sum, mark, { scope, reason, message });
      }
    }
  }

  /** A store that cannot be read must not cost the answer that is being settled. */
  function watchQuietly(scope: Scope): void {
    try {
      watch(scope);
    } catch (error) {
      if (!(error instanceof BeigeError)) throw error;
    }
  }

  return {
    reserve(spend) {
      if (open.has(spend.call)) throw new BeigeError("internal", `call ${spend.call} is reserved already`);
      // While nothing can be written nothing may be spent: after a crash it would not have been.
      if (book.failing()) book.flush();
      const charge: Charge = { requests: 1, tokens: wholeOf(spend.tokens), nano: nanoOf(spend.usd ?? 0) };
      const scopes = scopesOf(spend);
      for (const scope of scopes) check(scope, spend, charge);
      const now = clock.now();
      const sums = scopes.flatMap((scope) => PERIODS.map((period) => sumOf(scope, period, now)));
      const row = rowOf(spend, { id: book.next(), at: now, charge });
      // May throw, and then nothing is reserved.
      book.open(row);
      for (const sum of sums) sum.reserved = plus(sum.reserved, charge);
      open.set(spend.call, { row, charge, sums, scopes });
    },
    settle(call, usage, how) {
      const known = open.get(call);
      if (known === undefined) return;
      open.delete(call);
      const end = endOf(known.row, usage, how);
      for (const sum of known.sums) {
        sum.reserved = minus(sum.reserved, known.charge);
        sum.spent = plus(sum.spent, { requests: 1, tokens: end.tokens, nano: end.nano });
      }
      book.close(known.row, end);
      for (const scope of known.scopes) watchQuietly(scope);
    },
    usage: (ask) => book.usage(ask),
    budgets(scope) {
      const now = clock.now();
      const all = scope === undefined ? [...deps.scopes()].filter((each) => deps.budgetOf(each) !== undefined) : [scope];
      return all.slice(0, LISTED_MAX).flatMap((each) => linesOf(each, deps.budgetOf(each), { now, standing: standing(each, now) }));
    },
  };
}

function dropIdle(cells: Map<string, Cell>): void {
  for (const [key, cell] of cells) if (PERIODS.every((period) => (cell[period]?.reserved.requests ?? 0) === 0)) cells.delete(key);
}

function rowOf(spend: Spend, given: { readonly id: number; readonly at: number; readonly charge: Charge }): LedgerRow {
  const { agent, key, session, call, provider, model } = spend;
  return {
    id: given.id,
    at: given.at,
    call,
    provider,
    model: model.slice(0, TEXT_MAX),
    ...(agent !== undefined && { agent: nsName(agent.namespace, agent.name) }),
    ...(key !== undefined && { key }),
    ...(session !== undefined && { session: session.slice(0, TEXT_MAX) }),
    reserved: { tokens: given.charge.tokens, nano: given.charge.nano },
    priced: spend.usd !== undefined,
  };
}

/** An answer of which nobody said what it used stands at its reserve; a failure, or an abort, costs what the road says. */
function endOf(row: LedgerRow, usage: Usage, how: "answered" | "failed" | "cancelled"): LedgerEnd {
  const [input, output, cacheRead, cacheWrite] = [usage.input, usage.output, usage.cacheRead, usage.cacheWrite].map(wholeOf);
  const parts = { input: input ?? 0, output: output ?? 0, cacheRead: cacheRead ?? 0, cacheWrite: cacheWrite ?? 0 };
  const tokens = Math.max(wholeOf(usage.totalTokens), parts.input + parts.output + parts.cacheRead + parts.cacheWrite);
  const nano = nanoOf(usage.cost.total);
  if (tokens === 0 && nano === 0 && how === "answered") return { state: "estimated", ...parts, ...row.reserved };
  return { state: how, ...parts, tokens, nano };
}

interface Reached {
  readonly mark: string;
  readonly reason: BudgetNotice["reason"];
  readonly measure: Measure;
  readonly limit: number;
}

function reached(budget: Budget, period: Period, spent: Charge): readonly Reached[] {
  return MEASURES.flatMap((measure): readonly Reached[] => {
    const limit = limitOf(budget, period, measure);
    const share = limit === undefined ? 0 : shareOf(spent, limit, measure);
    if (limit === undefined || share < LOW || limit === 0) return [];
    const reason = share < 1 ? "BudgetLow" : "BudgetUsedUp";
    return [{ mark: `${measure} ${reason}`, reason, measure, limit }];
  });
}

interface At {
  readonly now: number;
  readonly standing: (period: Period) => Standing;
}

function linesOf(scope: Scope, budget: Budget | undefined, at: At): readonly BudgetLine[] {
  if (budget === undefined) return [];
  return PERIODS.flatMap((period) =>
    MEASURES.flatMap((measure): readonly BudgetLine[] => {
      const limit = limitOf(budget, period, measure);
      if (limit === undefined) return [];
      const { spent, reserved } = at.standing(period);
      const resets = new Date(resetsAt(period, at.now)).toISOString();
      return [{ scope, period, measure, limit, spent: amountOf(spent, measure), reserved: amountOf(reserved, measure), resetsAt: resets }];
    }),
  );
}
