// Firings of schedules: a row an object and slot, committed before the run, so that no slot fires twice.
import type { Clock, Firing, Firings } from "../../core/world.ts";
import { transact, type Connection } from "./connection.ts";

export const FIRINGS_KEPT = 100;

const firing = (row: Record<string, unknown>): Firing => ({
  slot: String(row["slot"]),
  claimedAt: Number(row["claimed"]),
  outcome: row["outcome"] as Firing["outcome"],
  ...(row["ended"] === null ? {} : { endedAt: Number(row["ended"]) }),
  ...(typeof row["message"] === "string" ? { message: row["message"] } : {}),
});

/** Runs that a dead gateway left open become `interrupted`. */
export function createFirings({ full }: Connection, clock: Clock): Firings {
  const last = full.prepare("SELECT slot, claimed, ended, outcome, message FROM firings WHERE uid = ? ORDER BY slot DESC LIMIT 1");
  const claim = full.prepare("INSERT OR IGNORE INTO firings VALUES (?, ?, ?, ?, ?, ?)");
  const finish = full.prepare("UPDATE firings SET ended = ?, outcome = ?, message = ? WHERE uid = ? AND slot = ? AND outcome = 'started'");
  const trim = full.prepare(
    "DELETE FROM firings WHERE uid = ?1 AND slot < (SELECT min(slot) FROM (SELECT slot FROM firings WHERE uid = ?1 ORDER BY slot DESC LIMIT ?2))",
  );
  full
    .prepare(
      "UPDATE firings SET ended = ?, outcome = 'interrupted', message = 'the gateway stopped during the run' WHERE outcome = 'started'",
    )
    .run(clock.now());
  return {
    last(uid) {
      const row = last.get(uid);
      return row === undefined ? undefined : firing(row);
    },
    claim(uid, slot, outcome, message) {
      const now = clock.now();
      return transact(full, () => {
        const taken = claim.run(uid, slot, now, outcome === "started" ? null : now, outcome, message ?? null);
        trim.run(uid, FIRINGS_KEPT);
        return taken.changes === 1;
      });
    },
    finish(uid, slot, outcome, message) {
      transact(full, () => finish.run(clock.now(), outcome, message ?? null, uid, slot));
    },
  };
}
