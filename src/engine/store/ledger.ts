// The rows of what was spent, in state.db: those of a moment in one write, summed by scope and day, and pruned in steps.
import { setImmediate as later } from "node:timers";
import { NOTHING, dayOf, plus } from "../../core/budget.ts";
import type { Charge, LedgerBook, LedgerEnd, LedgerRow, Scope } from "../../core/ledger.ts";
import type { Clock, Log } from "../../core/world.ts";
import { transact, type Connection } from "./connection.ts";
import { openOpened } from "./opened.ts";
import { createUsage } from "./usage.ts";

/** Thirteen months, so that a month can be held against the same one a year ago. */
export const KEPT_DAYS = 396;
const PRUNE_ROWS = 500;
const MARK_STEP = 1_000;
/** How long, and how many, rows may wait to be written. Those that open are in a file meanwhile; an end that is lost leaves the reserve. */
const LATE_MS = 50;
const LATE_ROWS = 1_000;

const TABLES = `
CREATE TABLE IF NOT EXISTS ledger (
  id INTEGER PRIMARY KEY, call TEXT NOT NULL, at INTEGER NOT NULL, agent TEXT, key TEXT, session TEXT, provider TEXT NOT NULL, model TEXT NOT NULL,
  priced INTEGER NOT NULL, reserved_tokens INTEGER NOT NULL, reserved_nano INTEGER NOT NULL, state TEXT NOT NULL,
  input INTEGER NOT NULL, output INTEGER NOT NULL, cache_read INTEGER NOT NULL, cache_write INTEGER NOT NULL,
  tokens INTEGER NOT NULL, nano INTEGER NOT NULL) STRICT;
CREATE INDEX IF NOT EXISTS ledger_at ON ledger (at);
DROP INDEX IF EXISTS ledger_open;
CREATE TABLE IF NOT EXISTS ledger_mark (one INTEGER PRIMARY KEY CHECK (one = 1), id INTEGER NOT NULL) STRICT;
INSERT OR IGNORE INTO ledger_mark VALUES (1, 0);
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
    insert: quick.prepare("INSERT OR IGNORE INTO ledger VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"),
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
    lose: quick.prepare(
      `UPDATE ledger SET state = 'lost', tokens = reserved_tokens, nano = reserved_nano
       WHERE id >= (SELECT id FROM ledger_mark) AND state = 'open'`,
    ),
    mark: quick.prepare("UPDATE ledger_mark SET id = ?"),
    prune: quick.prepare("DELETE FROM ledger WHERE id IN (SELECT id FROM ledger WHERE at < ? ORDER BY at LIMIT ?)"),
    pruneDays: quick.prepare("DELETE FROM spending WHERE day < ?"),
  };
}

/** Rows that a dead gateway left open are settled at their reserve, which is what they were counted as. */
export function createLedgerBook(connection: Connection, clock: Clock, log: Log): LedgerBook {
  const { quick } = connection;
  quick.exec(TABLES);
  const sql = statements(connection);
  const opened = openOpened(`${connection.path}-opened`);
  recover();
  let id = Number(quick.prepare("SELECT max(id) AS id FROM ledger").get()?.["id"] ?? 0);
  let pending = new Map<number, Pending>();
  const open = new Set<number>();
  let mark = 0;
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
      const { changes: made } = sql.insert.run(
        row.id,
        row.call,
        row.at,
        ...who,
        row.priced ? 1 : 0,
        reserved.tokens,
        reserved.nano,
        ...ended,
      );
      if (made === 0) return;
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

  /** Of the gateway before this one. */
  function recover(): void {
    const lost = transact(quick, () => {
      const changes = new Map<string, Charge>();
      for (const row of opened.left) write({ row, end: undefined, written: false }, changes);
      writeSums(changes);
      return Number(sql.lose.run().changes);
    });
    opened.clear();
    if (lost > 0) log.warn("requests of a gateway that ended are charged at their reserve", { requests: lost });
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

  /** No open row is below it, so that a start need not look through all of them. An index of the open ones would be written twice a request. */
  function moveMark(): void {
    const [oldest = id + 1] = open;
    if (oldest - mark < MARK_STEP) return;
    sql.mark.run(oldest);
    mark = oldest;
  }

  function flush(): void {
    if (pending.size === 0 || closed) return;
    try {
      transact(quick, () => {
        const changes = new Map<string, Charge>();
        for (const each of pending.values()) write(each, changes);
        writeSums(changes);
        moveMark();
        prune();
      });
    } catch (error) {
      failed = true;
      throw error;
    }
    failed = false;
    pending = new Map();
    opened.clear();
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
    later(() => {
      scheduled = false;
      flushOrSay();
    });
  }

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
      opened.add(row);
      open.add(row.id);
      pending.set(row.id, { row, end: undefined, written: false });
      inTime();
    },
    close(row, end) {
      open.delete(row.id);
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
      opened.close();
    },
    failing: () => failed,
  };
}
