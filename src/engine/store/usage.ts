// Sums over the ledger's rows, read in steps so that a long history does not hold up the event loop.
import type { DatabaseSync } from "node:sqlite";
import { setImmediate as breathe } from "node:timers/promises";
import { nanoOf } from "../../core/budget.ts";
import type { UsageAsk, UsageBy, UsageLine, UsageReport } from "../../core/ledger.ts";

const STEP_ROWS = 2_000;
/** Names kept while summing; beyond them the others become one line at once. */
const NAMES_MAX = 20_000;
const OTHERS = "(others)";

const NAMES: Readonly<Record<UsageBy, string>> = {
  agent: "coalesce(agent, '-')",
  model: "provider || '/' || model",
  provider: "provider",
  key: "coalesce(key, '-')",
  session: "coalesce(agent, '-') || ' ' || coalesce(session, '-')",
};

const empty = (name: string): UsageLine => ({
  name,
  requests: 0,
  input: 0,
  output: 0,
  cacheRead: 0,
  cacheWrite: 0,
  tokens: 0,
  usd: 0,
  unpriced: 0,
  open: 0,
});

/** Dollars are added as whole billionths. */
function add(a: UsageLine, b: UsageLine): UsageLine {
  return {
    name: a.name,
    requests: a.requests + b.requests,
    input: a.input + b.input,
    output: a.output + b.output,
    cacheRead: a.cacheRead + b.cacheRead,
    cacheWrite: a.cacheWrite + b.cacheWrite,
    tokens: a.tokens + b.tokens,
    usd: (nanoOf(a.usd) + nanoOf(b.usd)) / 1e9,
    unpriced: a.unpriced + b.unpriced,
    open: a.open + b.open,
  };
}

const lineOf = (row: Record<string, unknown>): UsageLine => ({
  name: String(row["name"]),
  requests: Number(row["requests"]),
  input: Number(row["input"]),
  output: Number(row["output"]),
  cacheRead: Number(row["cache_read"]),
  cacheWrite: Number(row["cache_write"]),
  tokens: Number(row["tokens"]),
  usd: Number(row["nano"]) / 1e9,
  unpriced: Number(row["unpriced"]),
  open: Number(row["open"]),
});

const sumsBy = (by: UsageBy): string =>
  `SELECT ${NAMES[by]} AS name, count(*) AS requests, sum(input) AS input, sum(output) AS output, sum(cache_read) AS cache_read,
   sum(cache_write) AS cache_write, sum(tokens) AS tokens, sum(nano) AS nano, sum(priced = 0) AS unpriced, sum(state = 'open') AS open
   FROM (SELECT * FROM ledger WHERE (at, id) > (?1, ?2) AND (at, id) <= (?3, ?4)) GROUP BY 1`;

interface Place {
  readonly at: number;
  readonly id: number;
}

const dearest = (a: UsageLine, b: UsageLine): number =>
  b.usd - a.usd || b.tokens - a.tokens || b.requests - a.requests || (a.name < b.name ? -1 : 1);

export function createUsage(db: DatabaseSync, flush: () => void): (ask: UsageAsk) => Promise<UsageReport> {
  const end = db.prepare("SELECT at, id FROM ledger WHERE (at, id) > (?1, ?2) AND at < ?3 ORDER BY at, id LIMIT 1 OFFSET ?4");
  const last = db.prepare("SELECT at, id FROM ledger WHERE (at, id) > (?1, ?2) AND at < ?3 ORDER BY at DESC, id DESC LIMIT 1");
  const placeOf = (row: Record<string, unknown> | undefined): Place | undefined =>
    row === undefined ? undefined : { at: Number(row["at"]), id: Number(row["id"]) };

  return async (ask) => {
    flush();
    const sums = db.prepare(sumsBy(ask.by));
    const lines = new Map<string, UsageLine>();
    let total = empty("total");
    let from: Place = { at: ask.since, id: -1 };
    while (true) {
      const full = placeOf(end.get(from.at, from.id, ask.until, STEP_ROWS - 1));
      const to = full ?? placeOf(last.get(from.at, from.id, ask.until));
      if (to === undefined) break;
      for (const row of sums.all(from.at, from.id, to.at, to.id)) {
        const line = lineOf(row);
        total = add(total, line);
        const name = lines.has(line.name) || lines.size < NAMES_MAX ? line.name : OTHERS;
        lines.set(name, add(lines.get(name) ?? empty(name), line));
      }
      if (full === undefined) break;
      from = to;
      await breathe();
    }
    return { by: ask.by, since: iso(ask.since), until: iso(ask.until), items: top([...lines.values()], ask.limit), total };
  };
}

const iso = (ms: number): string => new Date(ms).toISOString();

function top(lines: readonly UsageLine[], limit: number): readonly UsageLine[] {
  const sorted = lines.toSorted(dearest);
  if (sorted.length <= limit) return sorted;
  const rest = sorted.slice(limit).reduce(add, empty(OTHERS));
  return [...sorted.slice(0, limit), rest];
}
