// What is kept of agents besides their objects: the host user, the container that serves, the intent that outlives a pass.
import type { Intent } from "../../core/kind.ts";
import type { AgentState } from "../../core/world.ts";
import type { Seats } from "../../core/seat.ts";
import { transact, type Connection } from "./connection.ts";
import { createSeats } from "./seats.ts";

/** Host uids of sandboxes start here, above those of people and services. */
export const FIRST_HOST_UID = 20_000;
/** None that is taken over lies above: the next ones count on from the highest. */
const LAST_HOST_UID = 59_999;

export interface AgentRows extends AgentState {
  readonly seats: Seats;
  intent(uid: string): Intent | undefined;
  /** The object is gone, and its rows with it. */
  forget(uid: string): void;
}

interface Owner {
  readonly uid: number;
  readonly gid: number;
}

/** Whoever runs the gateway. As root every agent gets a user of its own. */
export const processOwner = (): Owner => ({ uid: process.getuid?.() ?? 0, gid: process.getgid?.() ?? 0 });

export function createAgents({ full }: Connection, owner: Owner = processOwner()): AgentRows {
  const user = full.prepare("SELECT host FROM users WHERE uid = ?");
  const lastUser = full.prepare("SELECT max(host) AS host FROM users");
  const takenUser = full.prepare("SELECT uid FROM users WHERE host = ?");
  const addUser = full.prepare("INSERT INTO users VALUES (?, ?)");
  // Every look at an agent asks: what the tables hold is kept in memory, and moves after each commit.
  const actives = new Map(
    full
      .prepare("SELECT uid, container FROM active")
      .all()
      .map((row) => [String(row["uid"]), String(row["container"])]),
  );
  const intents = new Map(
    full
      .prepare("SELECT uid, body FROM intents")
      .all()
      .map((row) => [String(row["uid"]), String(row["body"])]),
  );
  const users = new Map<string, Owner>();
  const setActive = full.prepare("INSERT OR REPLACE INTO active VALUES (?, ?)");
  const noActive = full.prepare("DELETE FROM active WHERE uid = ?");
  const setIntent = full.prepare("INSERT OR REPLACE INTO intents VALUES (?, ?)");
  const noIntent = full.prepare("DELETE FROM intents WHERE uid = ?");

  function hostUser(uid: string): Owner {
    if (owner.uid !== 0) return owner;
    const kept = users.get(uid) ?? allocated(uid);
    users.set(uid, kept);
    return kept;
  }

  function allocated(uid: string): Owner {
    const known = user.get(uid)?.["host"];
    if (known !== undefined) return { uid: Number(known), gid: Number(known) };
    return transact(full, () => {
      // Rows are never deleted, so that a number never names a second agent.
      const next = Number(lastUser.get()?.["host"] ?? FIRST_HOST_UID - 1) + 1;
      addUser.run(uid, next);
      return { uid: next, gid: next };
    });
  }

  function takeUser(uid: string, wanted: Owner): boolean {
    if (owner.uid !== 0) return wanted.uid === owner.uid && wanted.gid === owner.gid;
    return transact(full, () => {
      const known = user.get(uid)?.["host"];
      if (known !== undefined) return Number(known) === wanted.uid && wanted.gid === wanted.uid;
      const fits = wanted.uid >= FIRST_HOST_UID && wanted.uid <= LAST_HOST_UID && wanted.gid === wanted.uid;
      if (!fits || takenUser.get(wanted.uid) !== undefined) return false;
      addUser.run(uid, wanted.uid);
      return true;
    });
  }

  const seats = createSeats({
    full,
    users: owner.uid === 0,
    onClaim(seat, uid, container) {
      actives.set(uid, container);
      // The number goes with the seat: asked for again, it is read under its new name.
      users.delete(seat);
    },
  });

  return {
    seats,
    hostUser,
    takeUser,
    active: (uid) => actives.get(uid),
    setActive(uid, container) {
      transact(full, () => (container === undefined ? noActive.run(uid) : setActive.run(uid, container)));
      if (container === undefined) actives.delete(uid);
      else actives.set(uid, container);
    },
    setIntent(uid, value) {
      const body = value === undefined ? undefined : JSON.stringify(value);
      transact(full, () => (body === undefined ? noIntent.run(uid) : setIntent.run(uid, body)));
      if (body === undefined) intents.delete(uid);
      else intents.set(uid, body);
    },
    intent(uid) {
      const body = intents.get(uid);
      return body === undefined ? undefined : (JSON.parse(body) as Intent);
    },
    forget(uid) {
      actives.delete(uid);
      intents.delete(uid);
    },
  };
}
