// Which place that was made ready beforehand is which agent's: one row a seat, in the file that also says what serves.
import type { DatabaseSync } from "node:sqlite";
import type { AgentId } from "../../core/call.ts";
import type { Seat, Seats } from "../../core/seat.ts";
import { transact } from "./connection.ts";

// An older beige does not look at it, so the file's format stays.
const TABLE = `CREATE TABLE IF NOT EXISTS seats (
  seat TEXT PRIMARY KEY, holder TEXT UNIQUE, namespace TEXT NOT NULL, name TEXT NOT NULL) STRICT, WITHOUT ROWID`;

export interface SeatDeps {
  readonly full: DatabaseSync;
  /** Whether sandboxes have users of their own, which then move with the seat. */
  readonly users: boolean;
  /** After the commit: what is kept in memory of the agent moves. */
  readonly onClaim: (seat: string, agent: string, container: string) => void;
}

export function createSeats({ full, users, onClaim }: SeatDeps): Seats {
  full.exec(TABLE);
  const add = full.prepare("INSERT OR IGNORE INTO seats VALUES (?, NULL, '', '')");
  const take = full.prepare("UPDATE seats SET holder = ?, namespace = ?, name = ? WHERE seat = ? AND holder IS NULL");
  const remove = full.prepare("DELETE FROM seats WHERE seat = ?");
  const user = full.prepare("SELECT host FROM users WHERE uid = ?");
  const moveUser = full.prepare("UPDATE users SET uid = ? WHERE uid = ?");
  const active = full.prepare("SELECT container FROM active WHERE uid = ?");
  const setActive = full.prepare("INSERT INTO active VALUES (?, ?)");
  const seats = new Map<string, Seat>();
  const byHolder = new Map<string, string>();
  for (const row of full.prepare("SELECT seat, holder, namespace, name FROM seats ORDER BY seat").all()) {
    const id = String(row["seat"]);
    const uid = row["holder"];
    if (typeof uid !== "string") seats.set(id, { id });
    else remember(id, { uid, namespace: String(row["namespace"]), name: String(row["name"]) });
  }

  function remember(id: string, holder: AgentId): void {
    seats.set(id, { id, holder });
    byHolder.set(holder.uid, id);
  }

  const fresh = (uid: string): boolean => !byHolder.has(uid) && user.get(uid) === undefined && active.get(uid) === undefined;

  return {
    of: (uid) => byHolder.get(uid) ?? (seats.get(uid)?.holder === undefined && seats.has(uid) ? uid : undefined),
    holder: (seat) => seats.get(seat)?.holder?.uid,
    all: () => [...seats.values()],
    fresh,
    make(seat) {
      transact(full, () => add.run(seat));
      if (!seats.has(seat)) seats.set(seat, { id: seat });
    },
    claim(seat, { uid, namespace, name }, container) {
      const done = transact(full, () => {
        if (!fresh(uid)) return false;
        if (Number(take.run(uid, namespace, name, seat).changes) !== 1) return false;
        if (users) moveUser.run(uid, seat);
        setActive.run(uid, container);
        return true;
      });
      if (!done) return false;
      remember(seat, { uid, namespace, name });
      onClaim(seat, uid, container);
      return true;
    },
    drop(seat) {
      transact(full, () => remove.run(seat));
      const holder = seats.get(seat)?.holder;
      seats.delete(seat);
      if (holder !== undefined) byHolder.delete(holder.uid);
    },
  };
}
