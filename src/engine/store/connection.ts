// The two connections of state.db: `full` survives a power cut, `quick` a crash of the process.
import { DatabaseSync, type StatementSync } from "node:sqlite";
import { BeigeError } from "../../core/errors.ts";
import { privateFile } from "./place.ts";
import { prepareTables } from "./tables.ts";

export interface Connection {
  readonly full: DatabaseSync;
  readonly quick: DatabaseSync;
  readonly path: string;
  close(): void;
}

const reasonOf = (error: unknown): string => (error instanceof Error ? error.message : String(error));

function damaged(path: string, cause: unknown): BeigeError {
  return new BeigeError("unavailable", `the store ${path} is damaged: ${reasonOf(cause)}`, {
    hint: `nothing was changed; put a backup in its place, or move it away (mv ${path} ${path}.damaged) and apply the manifests again`,
    cause,
  });
}

/** Nobody else writes here; whoever looks in by hand may hold the file for a moment, and the event loop waits with us. */
const BUSY_MS = 200;
/**
 * The commit that reaches it brings the log into the tables and waits for the disk, some 10 ms for every request under way. The log
 * of a busy gateway holds the same few pages again and again: of many commits it costs little more than of few.
 */
const LOG_PAGES = 8_000;

function open(path: string, synchronous: "FULL" | "NORMAL"): DatabaseSync {
  const db = new DatabaseSync(path, { timeout: BUSY_MS, enableForeignKeyConstraints: false });
  db.exec(
    `PRAGMA journal_mode = WAL; PRAGMA synchronous = ${synchronous}; PRAGMA wal_autocheckpoint = ${LOG_PAGES}; PRAGMA trusted_schema = OFF`,
  );
  return db;
}

function check(db: DatabaseSync, path: string): void {
  const found = db.prepare("PRAGMA quick_check(1)").get()?.["quick_check"];
  if (found !== "ok") throw damaged(path, String(found));
}

/** Throws `unavailable` for a damaged file (which is left as it is) or one of a newer beige. */
export function connect(home: string, newId: () => string): Connection {
  const path = `${home}/state.db`;
  privateFile(path);
  let full: DatabaseSync | undefined;
  let quick: DatabaseSync | undefined;
  try {
    full = open(path, "FULL");
    check(full, path);
    prepareTables(full, path, newId);
    quick = open(path, "NORMAL");
  } catch (error) {
    full?.close();
    quick?.close();
    if (error instanceof BeigeError) throw error;
    throw damaged(path, error);
  }
  const both = { full, quick };
  return {
    ...both,
    path,
    close: () => {
      both.quick.close();
      both.full.close();
    },
  };
}

interface Ends {
  readonly begin: StatementSync;
  readonly commit: StatementSync;
}
/** Made once a connection: most transactions are as short as the time it takes to read these words. */
const ends = new WeakMap<DatabaseSync, Ends>();
function endsOf(db: DatabaseSync): Ends {
  let known = ends.get(db);
  if (known === undefined) {
    known = { begin: db.prepare("BEGIN IMMEDIATE"), commit: db.prepare("COMMIT") };
    ends.set(db, known);
  }
  return known;
}

/** One transaction: all of it or nothing. What SQLite refuses becomes `unavailable`. */
export function transact<T>(db: DatabaseSync, run: () => T): T {
  const { begin, commit } = endsOf(db);
  try {
    begin.run();
  } catch (cause) {
    throw refused(cause);
  }
  try {
    const answer = run();
    commit.run();
    return answer;
  } catch (cause) {
    if (db.isTransaction) db.exec("ROLLBACK");
    throw refused(cause);
  }
}

function refused(cause: unknown): unknown {
  const sqlite = (cause as { code?: unknown }).code === "ERR_SQLITE_ERROR";
  if (!sqlite) return cause;
  return new BeigeError("unavailable", `the store cannot be written: ${reasonOf(cause)}`, { hint: "df -h; beige doctor", cause });
}
