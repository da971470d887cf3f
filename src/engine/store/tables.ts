// The tables of state.db and their version.
import type { DatabaseSync } from "node:sqlite";
import { BeigeError } from "../../core/errors.ts";

export const SCHEMA_VERSION = 1;

const TABLES = `
CREATE TABLE meta (key TEXT PRIMARY KEY, value TEXT NOT NULL) STRICT, WITHOUT ROWID;
CREATE TABLE objects (
  uid TEXT PRIMARY KEY, kind TEXT NOT NULL, namespace TEXT NOT NULL, name TEXT NOT NULL,
  body TEXT NOT NULL, origin TEXT, UNIQUE (kind, namespace, name)) STRICT;
CREATE TABLE history (
  rv INTEGER PRIMARY KEY, kind TEXT NOT NULL, type TEXT NOT NULL, body TEXT NOT NULL, before TEXT) STRICT;
CREATE TABLE revisions (
  uid TEXT NOT NULL, revision INTEGER NOT NULL, at INTEGER NOT NULL, manager TEXT NOT NULL, fields TEXT NOT NULL, spec TEXT NOT NULL,
  PRIMARY KEY (uid, revision)) STRICT, WITHOUT ROWID;
CREATE TABLE inventory (
  manager TEXT NOT NULL, kind TEXT NOT NULL, namespace TEXT NOT NULL, name TEXT NOT NULL,
  PRIMARY KEY (manager, kind, namespace, name)) STRICT, WITHOUT ROWID;
CREATE INDEX inventory_object ON inventory (kind, namespace, name);
CREATE TABLE intents (uid TEXT PRIMARY KEY, body TEXT NOT NULL) STRICT, WITHOUT ROWID;
CREATE TABLE active (uid TEXT PRIMARY KEY, container TEXT NOT NULL) STRICT, WITHOUT ROWID;
CREATE TABLE users (uid TEXT PRIMARY KEY, host INTEGER NOT NULL UNIQUE) STRICT, WITHOUT ROWID;
CREATE TABLE events (
  id INTEGER PRIMARY KEY, uid TEXT NOT NULL, kind TEXT NOT NULL, namespace TEXT NOT NULL, name TEXT NOT NULL,
  type TEXT NOT NULL, reason TEXT NOT NULL, message TEXT NOT NULL, count INTEGER NOT NULL, first INTEGER NOT NULL, last INTEGER NOT NULL,
  UNIQUE (uid, type, reason, message)) STRICT;
CREATE INDEX events_last ON events (last);
CREATE TABLE firings (
  uid TEXT NOT NULL, slot TEXT NOT NULL, claimed INTEGER NOT NULL, ended INTEGER, outcome TEXT NOT NULL, message TEXT,
  PRIMARY KEY (uid, slot)) STRICT, WITHOUT ROWID;
CREATE TABLE shelf (key TEXT PRIMARY KEY, value TEXT NOT NULL) STRICT, WITHOUT ROWID;
`;

/** Makes the tables of a new file. Throws `unavailable` for a file that a newer beige wrote. */
export function prepareTables(db: DatabaseSync, path: string, newId: () => string): void {
  const version = Number(db.prepare("PRAGMA user_version").get()?.["user_version"] ?? 0);
  if (version === SCHEMA_VERSION) return;
  if (version > SCHEMA_VERSION) {
    throw new BeigeError("unavailable", `${path} was written by a newer beige (format ${version}, this one reads ${SCHEMA_VERSION})`, {
      hint: "start the newer beige again, or set BEIGE_HOME to another folder",
    });
  }
  db.exec("BEGIN IMMEDIATE");
  try {
    db.exec(TABLES);
    db.prepare("INSERT INTO meta VALUES ('store', ?)").run(newId());
    db.exec(`PRAGMA user_version = ${SCHEMA_VERSION}`);
    db.exec("COMMIT");
  } catch (error) {
    db.exec("ROLLBACK");
    throw error;
  }
}
