// A lock across processes that dies with its holder: SQLite's file lock, since Node has no flock.
import { chmodSync, mkdirSync } from "node:fs";
import { dirname } from "node:path";
import { DatabaseSync } from "node:sqlite";
import { BeigeError } from "../core/errors.ts";
import type { Clock } from "../core/world.ts";

const WAIT_MAX_MS = 10_000;

function open(path: string): DatabaseSync {
  mkdirSync(dirname(path), { recursive: true, mode: 0o700 });
  const db = new DatabaseSync(path, { timeout: 0 });
  chmodSync(path, 0o600);
  return db;
}

const busy = (error: unknown): boolean => {
  const code = (error as { errcode?: number }).errcode;
  return code !== undefined && (code & 0xff) === 5;
};

/** Whether the lock was had. */
function tryLock(db: DatabaseSync): boolean {
  try {
    db.exec("BEGIN EXCLUSIVE");
    return true;
  } catch (error) {
    if (busy(error)) return false;
    throw error;
  }
}

/** What holds a lock is never collected: a database that nobody refers to closes, and its lock goes with it. */
const holding = new Set<DatabaseSync>();

/** Takes a lock for the life of the process. Throws `conflict` when another process holds it. */
export function takeLock(path: string): { release(): void } {
  const db = open(path);
  if (!tryLock(db)) {
    db.close();
    throw new BeigeError("conflict", `another process holds ${path}`, { hint: "beige gateway status" });
  }
  holding.add(db);
  return {
    release: () => {
      if (!holding.delete(db)) return;
      db.exec("ROLLBACK");
      db.close();
    },
  };
}

export interface Lock {
  /** Runs alone among all processes. Throws `unavailable` when the lock is not had within 10 s. */
  hold<T>(run: () => Promise<T>): Promise<T>;
  close(): void;
}

/** A lock that is taken for moments. */
export function createLock(path: string, clock: Pick<Clock, "sleep" | "monotonic">): Lock {
  const db = open(path);
  return {
    hold: async (run) => {
      const end = clock.monotonic() + WAIT_MAX_MS;
      for (let waitMs = 1; !tryLock(db); waitMs = Math.min(waitMs * 2, 8)) {
        if (clock.monotonic() > end) throw new BeigeError("unavailable", `lock ${path} is held by another process`);
        await clock.sleep(waitMs);
      }
      try {
        return await run();
      } finally {
        db.exec("ROLLBACK");
      }
    },
    close: () => db.close(),
  };
}
