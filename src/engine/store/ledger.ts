// The rows of what was spent, in state.db: written once a turn of the event loop, summed by scope and day, and pruned in steps.
import { nextTick } from "node:process";
import { setImmediate as later } from "node:timers";
import { NOTHING, dayOf, plus } from "../../core/budget.ts";
import type { Charge, LedgerBook, LedgerEnd, LedgerRow, Scope } from "../../core/ledger.ts";
import type { Clock, Log } from "../../core/world.ts";
import { transact, type Connection } from "./connection.ts";
import { createUsage } from "./usage.ts";

/** Thirteen months, so that a month can be held against the same one a year ago. */
export const KEPT_DAYS = 396;
const PRUNE_ROWS = 500;
/** How long, and how many, ends of requests may wait to be written. */
const LATE_MS = 50;
const LATE_ROWS = 1_000;

const TABLES = `
CREATE TABLE IF NOT EXISTS ledger (
  id INTEGER PRIMARY KEY, call TEXT NOT NULL, at INTEGER NOT NULL, agent TEXT, key TEXT, session TEXT, provider TEXT NOT NULL, model TEXT NOT NULL,
  priced INTEGER NOT NULL, reserved_tokens INTEGER NOT NULL, reserved_nano INTEGER NOT NULL, state TEXT NOT NULL,
  input INTEGER NOT NULL, output INTEGER NOT NULL, cache_read INTEGER NOT NULL, cache_write INTEGER NOT NULL,
  tokens INTEGER NOT NULL, nano INTEGER NOT NULL) STRICT;
CREATE INDEX IF NOT EXISTS ledger_at ON ledger (at);
CREATE INDEX IF NOT EXISTS ledger_open ON ledger (id) WHERE state = 'open';
CREATE TABLE IF NOT EXISTS spending (
  scope TEXT NOT NULL, day INTEGER NOT NULL, requests INTEGER NOT NULL, tokens INTEGER NOT NULL, nano INTEGER NOT NULL,
  PRIMARY KEY (scope, day)) STRICT, WITHOUT ROWID;
`;

export const scopesOf = (row: Pick<LedgerRow, "agent" | "key" | "provider">): readonly Scope[] => [
  ...(row.agent === undefined ? [] : [{ kind: "agent", name: row.agent } as const]),
  ...(row.key === undefined ? [] : [{ kind: "key", name: row.key } as const]),
  { kind: "provider", name: row.provider },
];
const keyOf = ({ kind, name }: Scope): string => `${kind}/${name}`;

interface Pending {
  readonly row: LedgerRow;
  end: LedgerEnd | undefined;
  /** Whether the row is in the table already. */
  readonly written: boolean;
}

function statements({ quick }: Connection) {
  return {
    insert: quick.prepare("INSERT INTO ledger VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"),
    update: quick.prepare(
      "UPDATE ledger SET state = ?, input = ?, output = ?, cache_read = ?, cache_write = ?, tokens = ?, nano = ? WHERE id = ? AND state = 'open'",
    ),
    add: quick.prepare(
      `INSERT INTO spending VALUES (?, ?, ?, ?, ?) ON CONFLICT (scope, day) DO UPDATE
       SET requests = requests + excluded.requests, tokens = tokens + excluded.tokens, nano = nano + excluded.nano`,
    ),
    sum: quick.prepare(
      "SELECT sum(requests) AS requests, sum(tokens) AS tokens, sum(nano) AS nano FROM spending WHERE scope = ? AND day BETWEEN ? AND ?",
    ),
    prune: quick.prepare("DELETE FROM ledger WHERE id IN (SELECT id FROM ledger WHERE at < ? ORDER BY at LIMIT ?)"),
    pruneDays: quick.prepare("DELETE FROM spending WHERE day < ?"),
  };
}

/** Rows that a dead gateway left open are settled at their reserve, which is what they were counted as. */
export function createLedgerBook(connection: Connection, clock: Clock, log: Log): LedgerBook {
  const { quick } = connection;
  quick.exec(TABLES);
  const lost = quick
    .prepare("UPDATE ledger SET state = 'lost', tokens = reserved_tokens, nano = reserved_nano WHERE state = 'open'")
    .run().changes;
  if (lost > 0) log.warn("requests of a gateway that ended are charged at their reserve", { requests: Number(lost) });
  const sql = statements(connection);
  let id = Number(quick.prepare("SELECT max(id) AS id FROM ledger").get()?.["id"] ?? 0);
  let pending = new Map<number, Pending>();
  let scheduled = false;
  let waiting = false;
  let closed = false;
  let failed = false;
  let prunedDay = 0;

  function write({ row, end, written }: Pending, changes: Map<string, Charge>): void {
    const { reserved } = row;
    const charged = end ?? { input: 0, output: 0, cacheRead: 0, cacheWrite: 0, ...reserved };
    const ended = [
      end?.state ?? "open",
      charged.input,
      charged.output,
      charged.cacheRead,
      charged.cacheWrite,
      charged.tokens,
      charged.nano,
    ];
    if (written) sql.update.run(...ended, row.id);
    else {
      const who = [row.agent ?? null, row.key ?? null, row.session ?? null, row.provider, row.model];
      sql.insert.run(row.id, row.call, row.at, ...who, row.priced ? 1 : 0, reserved.tokens, reserved.nano, ...ended);
    }
    const before = written ? { requests: 1, ...reserved } : NOTHING;
    const [tokens, nano] = [charged.tokens - before.tokens, charged.nano - before.nano];
    const change: Charge = { requests: 1 - before.requests, tokens, nano };
    for (const scope of scopesOf(row)) {
      const key = `${dayOf(row.at)} ${keyOf(scope)}`;
      changes.set(key, plus(changes.get(key) ?? NOTHING, change));
    }
  }

  /** One write a scope and day, however many rows came together. */
  function writeSums(changes: ReadonlyMap<string, Charge>): void {
    for (const [key, { requests, tokens, nano }] of changes) {
      const space = key.indexOf(" ");
      sql.add.run(key.slice(space + 1), Number(key.slice(0, space)), requests, tokens, nano);
    }
  }

  /** A bounded step; the next flush goes on when it was not enough. */
  function prune(): void {
    const today = dayOf(clock.now());
    if (prunedDay === today) return;
    const gone = sql.prune.run((today - KEPT_DAYS) * 86_400_000, PRUNE_ROWS).changes;
    if (gone < PRUNE_ROWS) {
      sql.pruneDays.run(today - KEPT_DAYS);
      prunedDay = today;
    }
  }

  function flush(): void {
    if (pending.size === 0 || closed) return;
    try {
      transact(quick, () => {
        const changes = new Map<string, Charge>();
        for (const each of pending.values()) write(each, changes);
        writeSums(changes);
        prune();
      });
    } catch (error) {
      failed = true;
      throw error;
    }
    failed = false;
    pending = new Map();
  }

  function flushOrSay(): void {
    try {
      flush();
    } catch (error) {
      log.error("the ledger cannot be written", { error: String(error), rows: pending.size });
    }
  }

  function soon(): void {
    if (scheduled) return;
    scheduled = true;
    // Behind what else this request has asked for in this turn: its audit row is on its way to the disk meanwhile.
    nextTick(() =>
      later(() => {
        scheduled = false;
        flushOrSay();
      }),
    );
  }

  /** Until an end is written its row counts at its reserve, which is safe: it rides with the next row that opens, or waits a moment. */
  function inTime(): void {
    if (pending.size > LATE_ROWS) soon();
    if (waiting) return;
    waiting = true;
    clock.after(LATE_MS, () => {
      waiting = false;
      flushOrSay();
    });
  }

  return {
    next: () => (id += 1),
    open(row) {
      pending.set(row.id, { row, end: undefined, written: false });
      soon();
    },
    close(row, end) {
      const known = pending.get(row.id);
      if (known === undefined) pending.set(row.id, { row, end, written: true });
      else known.end ??= end;
      inTime();
    },
    charged(scope, from, to) {
      flush();
      const row = sql.sum.get(keyOf(scope), from, to) ?? {};
      const sum: Charge = { requests: Number(row["requests"] ?? 0), tokens: Number(row["tokens"] ?? 0), nano: Number(row["nano"] ?? 0) };
      return plus(sum, NOTHING);
    },
    usage: createUsage(quick, flush),
    flush,
    end() {
      flushOrSay();
      closed = true;
    },
    failing: () => failed,
  };
}
