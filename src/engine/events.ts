// Events: what happened to objects, in a closed set of reasons, counted instead of repeated.
import type { EventRecord } from "../core/control.ts";
import type { Action } from "../core/kind.ts";
import type { Ref } from "../core/resource.ts";
import type { Clock } from "../core/world.ts";
import { transact, type Connection } from "./store/connection.ts";

export const REASONS = [
  "Created",
  "Updated",
  "Replaced",
  "Removed",
  "Adopted",
  "Done",
  "Repaired",
  "Failed",
  "Refused",
  "Unreachable",
  "Degraded",
  "Drifted",
  "Deleting",
  "Deleted",
  "ForceDeleted",
  "BudgetLow",
  "BudgetUsedUp",
  "OutOfMemory",
] as const;
export type EventReason = (typeof REASONS)[number];

export interface EventInput {
  readonly ref: Ref;
  readonly uid: string;
  readonly type: "Normal" | "Warning";
  readonly reason: EventReason;
  readonly message: string;
}

export interface EventLog {
  record(event: EventInput): void;
  /** Newest last. */
  list(filter: { readonly ref?: Ref; readonly namespace?: string; readonly limit?: number }): readonly EventRecord[];
}

const BY_IMPACT: Readonly<Record<Action["impact"], EventReason>> = {
  create: "Created",
  update: "Updated",
  replace: "Replaced",
  delete: "Removed",
  adopt: "Adopted",
  live: "Done",
};

/** The reason of an action that was done: whatever mends the world says so. */
export const reasonOf = (action: Action): EventReason =>
  action.why === "drift" || action.why === "missing" ? (action.impact === "delete" ? "Removed" : "Repaired") : BY_IMPACT[action.impact];

export interface EventLimits {
  readonly rows: number;
  readonly ageMs: number;
  /** Longest message, in characters. */
  readonly message: number;
}
export const EVENT_LIMITS: EventLimits = { rows: 5_000, ageMs: 7 * 24 * 3_600_000, message: 1_000 };

const rfc3339 = (ms: unknown): string => new Date(Number(ms)).toISOString();

const record = (row: Record<string, unknown>): EventRecord => ({
  name: `${String(row["name"])}.${Number(row["id"]).toString(16)}`,
  ref: { kind: String(row["kind"]), namespace: String(row["namespace"]), name: String(row["name"]) },
  uid: String(row["uid"]),
  type: row["type"] as EventRecord["type"],
  reason: String(row["reason"]),
  message: String(row["message"]),
  count: Number(row["count"]),
  first: rfc3339(row["first"]),
  last: rfc3339(row["last"]),
});

const cut = (text: string, limit: number): string => (text.length <= limit ? text : `${text.slice(0, limit - 1)}…`);

export function createEvents({ quick }: Connection, clock: Clock, limits: EventLimits = EVENT_LIMITS): EventLog {
  const put = quick.prepare(
    `INSERT INTO events (uid, kind, namespace, name, type, reason, message, count, first, last) VALUES (?, ?, ?, ?, ?, ?, ?, 1, ?, ?)
     ON CONFLICT (uid, type, reason, message) DO UPDATE SET count = count + 1, last = excluded.last`,
  );
  const age = quick.prepare("DELETE FROM events WHERE last < ?");
  const count = quick.prepare("SELECT count(*) AS n FROM events");
  const oldest = quick.prepare("DELETE FROM events WHERE id IN (SELECT id FROM events ORDER BY last, id LIMIT ?)");
  const select = quick.prepare(
    `SELECT * FROM (SELECT * FROM events WHERE (?1 IS NULL OR kind = ?1) AND (?2 IS NULL OR namespace = ?2) AND (?3 IS NULL OR name = ?3)
     ORDER BY last DESC, id DESC LIMIT ?4) ORDER BY last, id`,
  );
  let sinceTrim = Number.POSITIVE_INFINITY;

  function trim(now: number): void {
    age.run(now - limits.ageMs);
    const excess = Number(count.get()?.["n"] ?? 0) - limits.rows;
    if (excess > 0) oldest.run(excess);
    sinceTrim = 0;
  }

  return {
    record({ ref, uid, type, reason, message }) {
      const now = clock.now();
      transact(quick, () => {
        put.run(uid, ref.kind, ref.namespace, ref.name, type, reason, cut(message, limits.message), now, now);
        sinceTrim += 1;
        if (sinceTrim > limits.rows / 20) trim(now);
      });
    },
    list({ ref, namespace, limit }) {
      const where = ref === undefined ? [null, namespace ?? null, null] : [ref.kind, ref.namespace, ref.name];
      return select.all(...where, limit ?? limits.rows).map(record);
    },
  };
}
