// What is kept of agents besides their objects: the host user, the container that serves, the intent that outlives a pass.
import type { Intent } from "../../core/kind.ts";
import type { AgentState } from "../../core/world.ts";
import { transact, type Connection } from "./connection.ts";

/** Host uids of sandboxes start here, above those of people and services. */
export const FIRST_HOST_UID = 20_000;

export interface AgentRows extends AgentState {
  intent(uid: string): Intent | undefined;
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
  const addUser = full.prepare("INSERT INTO users VALUES (?, ?)");
  const active = full.prepare("SELECT container FROM active WHERE uid = ?");
  const setActive = full.prepare("INSERT OR REPLACE INTO active VALUES (?, ?)");
  const noActive = full.prepare("DELETE FROM active WHERE uid = ?");
  const intent = full.prepare("SELECT body FROM intents WHERE uid = ?");
  const setIntent = full.prepare("INSERT OR REPLACE INTO intents VALUES (?, ?)");
  const noIntent = full.prepare("DELETE FROM intents WHERE uid = ?");

  function hostUser(uid: string): Owner {
    if (owner.uid !== 0) return owner;
    const known = user.get(uid)?.["host"];
    if (known !== undefined) return { uid: Number(known), gid: Number(known) };
    return transact(full, () => {
      // Rows are never deleted, so that a number never names a second agent.
      const next = Number(lastUser.get()?.["host"] ?? FIRST_HOST_UID - 1) + 1;
      addUser.run(uid, next);
      return { uid: next, gid: next };
    });
  }

  return {
    hostUser,
    active: (uid) => active.get(uid)?.["container"] as string | undefined,
    setActive(uid, container) {
      transact(full, () => (container === undefined ? noActive.run(uid) : setActive.run(uid, container)));
    },
    setIntent(uid, value) {
      transact(full, () => (value === undefined ? noIntent.run(uid) : setIntent.run(uid, JSON.stringify(value))));
    },
    intent(uid) {
      const body = intent.get(uid)?.["body"];
      return body === undefined ? undefined : (JSON.parse(String(body)) as Intent);
    },
  };
}
