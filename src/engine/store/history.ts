// What changed, in order, for watches: the last rows in memory, more of them on the disk, and nothing without a bound.
import type { DatabaseSync } from "node:sqlite";
import type { Resource } from "../../core/resource.ts";

export type ChangeType = "ADDED" | "MODIFIED" | "DELETED";

export interface HistoryRow {
  readonly rv: number;
  readonly kind: string;
  readonly type: ChangeType;
  /** As it was at `rv`; of a DELETED one the last state, with the new version. */
  readonly object: Resource;
  /** Labels before the change, where the change moved them. */
  readonly before?: Readonly<Record<string, string>>;
}

export interface HistoryLimits {
  readonly rows: number;
  readonly bytes: number;
  /** Rows kept parsed in memory. */
  readonly recent: number;
}

export const HISTORY_LIMITS: HistoryLimits = { rows: 10_000, bytes: 64 * 1024 * 1024, recent: 2_000 };

export interface History {
  /** The version of the newest row, 0 in a new store. */
  version(): number;
  /**
   * Rows of a kind after a version, at most `limit`; undefined when rows between are no longer kept.
   * Who asks for what another just got gets the same list.
   */
  page(kind: string, after: number, limit: number): { readonly rows: readonly HistoryRow[]; readonly upTo: number } | undefined;
  /** Inside the caller's transaction on that connection. `body` is the object as JSON. */
  append(on: DatabaseSync, row: HistoryRow, body: string): void;
  /** After the commit: what memory serves from. */
  committed(rows: readonly HistoryRow[]): void;
  /** Drops the oldest rows beyond the limits; inside the caller's transaction on that connection. */
  trim(on: DatabaseSync): void;
  /** Before a change that may be rolled back: answers how to forget what was appended since. */
  mark(): () => void;
}

const PAGES_KEPT = 16;

interface Totals {
  oldest: number;
  newest: number;
  bytes: number;
}

function totals(db: DatabaseSync): Totals {
  const row = db.prepare("SELECT min(rv) AS oldest, max(rv) AS newest, sum(length(body)) AS bytes FROM history").get() ?? {};
  const newest = Number(row["newest"] ?? 0);
  return { oldest: Number(row["oldest"] ?? newest + 1), newest, bytes: Number(row["bytes"] ?? 0) };
}

const parse = (raw: Record<string, unknown>): HistoryRow => ({
  rv: Number(raw["rv"]),
  kind: String(raw["kind"]),
  type: raw["type"] as ChangeType,
  object: JSON.parse(String(raw["body"])) as Resource,
  ...(typeof raw["before"] === "string" ? { before: JSON.parse(raw["before"]) as Readonly<Record<string, string>> } : {}),
});

/** Rows of one kind from memory; undefined when memory does not reach back far enough. */
function fromMemory(recent: readonly HistoryRow[], wanted: { kind: string; after: number; limit: number }): HistoryRow[] | undefined {
  const oldest = recent[0];
  if (oldest === undefined || oldest.rv > wanted.after + 1) return undefined;
  const rows: HistoryRow[] = [];
  for (let i = wanted.after + 1 - oldest.rv; i < recent.length && rows.length < wanted.limit; i++) {
    const row = recent[i];
    if (row?.kind === wanted.kind) rows.push(row);
  }
  return rows;
}

export function createHistory(db: { full: DatabaseSync; quick: DatabaseSync }, limits: HistoryLimits = HISTORY_LIMITS): History {
  const select = db.quick.prepare("SELECT rv, kind, type, body, before FROM history WHERE rv > ? AND kind = ? ORDER BY rv LIMIT ?");
  const insertSql = "INSERT INTO history VALUES (?, ?, ?, ?, ?)";
  const inserts = new Map([db.full, db.quick].map((on) => [on, on.prepare(insertSql)] as const));
  let seen = totals(db.full);
  let served = seen.newest;
  let recent: HistoryRow[] = [];
  /** Pages since the last commit, from memory: watches side by side all ask for the same. */
  const pages = new Map<string, readonly HistoryRow[]>();
  function rowsOf(kind: string, after: number, limit: number): readonly HistoryRow[] {
    const key = `${kind} ${after} ${limit}`;
    const known = pages.get(key);
    if (known !== undefined) return known;
    const rows = fromMemory(recent, { kind, after, limit });
    if (rows === undefined) return select.all(after, kind, limit).map(parse);
    if (pages.size < PAGES_KEPT) pages.set(key, rows);
    return rows;
  }
  return {
    version: () => served,
    page(kind, after, limit) {
      if (after >= served) return after > served ? undefined : { rows: [], upTo: served };
      if (after + 1 < seen.oldest) return undefined;
      const rows = rowsOf(kind, after, limit);
      return { rows, upTo: rows.length === limit ? (rows.at(-1)?.rv ?? served) : served };
    },
    append(on, row, body) {
      inserts.get(on)?.run(row.rv, row.kind, row.type, body, row.before === undefined ? null : JSON.stringify(row.before));
      seen = { oldest: Math.min(seen.oldest, row.rv), newest: row.rv, bytes: seen.bytes + body.length };
    },
    committed(rows) {
      pages.clear();
      recent.push(...rows);
      if (recent.length > limits.recent * 1.25) recent = recent.slice(-limits.recent);
      served = seen.newest;
    },
    trim(on) {
      while (seen.newest > seen.oldest && (seen.newest - seen.oldest >= limits.rows || seen.bytes > limits.bytes)) {
        const step = Math.max(Math.ceil(limits.rows / 10), seen.newest - seen.oldest + 1 - limits.rows);
        const cut = Math.min(seen.oldest + step, seen.newest);
        const gone = on.prepare("SELECT sum(length(body)) AS bytes FROM history WHERE rv < ?").get(cut);
        on.prepare("DELETE FROM history WHERE rv < ?").run(cut);
        seen = { ...seen, oldest: cut, bytes: Math.max(0, seen.bytes - Number(gone?.["bytes"] ?? 0)) };
      }
    },
    mark() {
      const before = seen;
      return () => {
        seen = before;
      };
    },
  };
}
