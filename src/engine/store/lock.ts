// One writer a home: a lock that the kernel drops when its process dies, however it dies.
import { readFileSync, writeFileSync } from "node:fs";
import { DatabaseSync } from "node:sqlite";
import { BeigeError } from "../../core/errors.ts";
import { privateFile } from "./place.ts";

export interface StoreLock {
  release(): void;
}

/** The pid is kept beside the lock, never in it: closing any other descriptor of a locked file would drop the lock. */
const pidPath = (home: string): string => `${home}/state.pid`;

function holder(home: string): string {
  try {
    const pid = /^\d{1,10}/.exec(readFileSync(pidPath(home), "utf8"))?.[0];
    return pid === undefined ? "another process" : `process ${pid}`;
  } catch {
    return "another process";
  }
}

/** Throws `conflict` when another process, or another store of this one, holds the home. */
export function lockStore(home: string): StoreLock {
  const path = `${home}/state.lock`;
  privateFile(path);
  const db = new DatabaseSync(path, { timeout: 0 });
  try {
    db.exec("BEGIN EXCLUSIVE");
  } catch (cause) {
    db.close();
    throw new BeigeError("conflict", `${home} is in use by ${holder(home)}`, {
      hint: "stop the other gateway (beige gateway stop), or set BEIGE_HOME to another folder",
      cause,
    });
  }
  privateFile(pidPath(home));
  writeFileSync(pidPath(home), `${process.pid}\n`);
  return { release: () => db.close() };
}
