// The wanted objects: all of them in memory, every change in one transaction with its history, revisions and inventory.
import type { DatabaseSync } from "node:sqlite";
import { isDeepStrictEqual } from "node:util";
import { refKey, refOf, type Ref, type Resource } from "../../core/resource.ts";
import type { Clock, Log } from "../../core/world.ts";
import { transact, type Connection } from "./connection.ts";
import type { ChangeType, History, HistoryRow } from "./history.ts";
import type { Records } from "./records.ts";

/** One change of a transaction. The resourceVersion of a given object does not matter: the store writes the next one. */
export type Change =
  | {
      readonly type: "put";
      readonly object: Resource;
      /** Folder of the manifest; absent keeps what is stored. */
      readonly origin?: string;
      /** Who changed the spec, and which fields: kept as a revision when the generation moves. */
      readonly revision?: { readonly manager: string; readonly fields: readonly string[] };
    }
  | { readonly type: "remove"; readonly ref: Ref }
  | { readonly type: "hold" | "release"; readonly manager: string; readonly ref: Ref };

/** `full` survives a power cut: specs, finalizers, claims. `quick` is for status. */
export type Durability = "full" | "quick";

export interface Objects {
  readonly get: (ref: Ref) => Resource | undefined;
  readonly byUid: (uid: string) => Resource | undefined;
  /** Of one kind, or of all; by namespace and name. */
  readonly list: (kind?: string) => readonly Resource[];
  readonly origin: (ref: Ref) => string | undefined;
  readonly version: () => number;
  /** All or nothing. Objects that would not change are left alone, version included. Answers the rows that were written. */
  write(changes: readonly Change[], durability: Durability): readonly HistoryRow[];
  /** Called after every commit, in order. A listener that throws is logged. */
  subscribe(listener: (rows: readonly HistoryRow[]) => void): { unsubscribe(): void };
}

const freeze = <T>(value: T): T => {
  if (typeof value !== "object" || value === null || Object.isFrozen(value)) return value;
  for (const part of Object.values(value)) freeze(part);
  return Object.freeze(value);
};

const withVersion = (object: Resource, rv: number): Resource => ({
  ...object,
  metadata: { ...object.metadata, resourceVersion: String(rv) },
});

const same = (a: Resource, b: Resource): boolean => isDeepStrictEqual(withVersion(a, 0), withVersion(b, 0));

const byName = (a: Resource, b: Resource): number =>
  a.metadata.namespace < b.metadata.namespace
    ? -1
    : a.metadata.namespace > b.metadata.namespace
      ? 1
      : a.metadata.name < b.metadata.name
        ? -1
        : Number(a.metadata.name > b.metadata.name);

interface Memory {
  readonly objects: Map<string, Resource>;
  readonly uids: Map<string, Resource>;
  readonly origins: Map<string, string>;
  readonly lists: Map<string, readonly Resource[]>;
}

function load(db: DatabaseSync): Memory {
  const memory: Memory = { objects: new Map(), uids: new Map(), origins: new Map(), lists: new Map() };
  for (const row of db.prepare("SELECT body, origin FROM objects").iterate()) {
    const object = freeze(JSON.parse(String(row["body"])) as Resource);
    memory.objects.set(refKey(refOf(object)), object);
    memory.uids.set(object.metadata.uid, object);
    if (typeof row["origin"] === "string") memory.origins.set(refKey(refOf(object)), row["origin"]);
  }
  return memory;
}

function remember(memory: Memory, row: HistoryRow, origin: string | undefined): void {
  const key = refKey(refOf(row.object));
  memory.lists.delete(row.kind);
  memory.lists.delete("");
  if (row.type === "DELETED") {
    memory.objects.delete(key);
    memory.uids.delete(row.object.metadata.uid);
    memory.origins.delete(key);
    return;
  }
  const before = memory.objects.get(key);
  if (before !== undefined) memory.uids.delete(before.metadata.uid);
  memory.objects.set(key, row.object);
  memory.uids.set(row.object.metadata.uid, row.object);
  if (origin !== undefined) memory.origins.set(key, origin);
}

function listed(memory: Memory, kind: string): readonly Resource[] {
  const known = memory.lists.get(kind);
  if (known !== undefined) return known;
  const found = [...memory.objects.values()].filter((o) => kind === "" || o.kind === kind).toSorted(byName);
  memory.lists.set(kind, found);
  return found;
}

/** The statements of one connection. */
function statements(db: DatabaseSync) {
  return {
    put: db.prepare(
      "INSERT INTO objects VALUES (?, ?, ?, ?, ?, ?) ON CONFLICT (uid) DO UPDATE SET body = excluded.body, origin = coalesce(excluded.origin, origin)",
    ),
    remove: db.prepare("DELETE FROM objects WHERE uid = ?"),
    forget: ["intents", "active", "revisions"].map((table) => db.prepare(`DELETE FROM ${table} WHERE uid = ?`)),
  };
}

export interface ObjectsDeps {
  readonly connection: Connection;
  readonly history: History;
  readonly records: Records;
  readonly clock: Clock;
  readonly log: Log;
}

export function createObjects(deps: ObjectsDeps): Objects {
  const { connection, history, records, log } = deps;
  const memory = load(connection.full);
  const prepared = { full: statements(connection.full), quick: statements(connection.quick) };
  const listeners = new Set<(rows: readonly HistoryRow[]) => void>();

  function put(change: Change & { type: "put" }, rv: number, on: Durability): HistoryRow | undefined {
    const before = memory.objects.get(refKey(refOf(change.object)));
    const sameFolder = change.origin === undefined || change.origin === memory.origins.get(refKey(refOf(change.object)));
    const body = JSON.stringify(withVersion(change.object, rv));
    // What a reader gets is what the disk holds, and freezing never reaches what the caller still has.
    const object = freeze(JSON.parse(body) as Resource);
    if (before !== undefined && sameFolder && same(before, object)) return undefined;
    const { metadata } = object;
    prepared[on].put.run(metadata.uid, object.kind, metadata.namespace, metadata.name, body, change.origin ?? null);
    const moved = before !== undefined && !isDeepStrictEqual(before.metadata.labels, metadata.labels);
    const type: ChangeType = before === undefined ? "ADDED" : "MODIFIED";
    const row = { rv, kind: object.kind, type, object, ...(moved ? { before: before.metadata.labels ?? {} } : {}) };
    history.append(connection[on], row, body);
    if (before?.metadata.generation !== metadata.generation && change.revision !== undefined) {
      records.revise(object, change.revision, deps.clock.now());
    }
    return row;
  }

  function remove(ref: Ref, rv: number, on: Durability): HistoryRow | undefined {
    const before = memory.objects.get(refKey(ref));
    if (before === undefined) return undefined;
    prepared[on].remove.run(before.metadata.uid);
    for (const forget of prepared[on].forget) forget.run(before.metadata.uid);
    records.releaseAll(ref);
    const object = freeze(withVersion(before, rv));
    const row: HistoryRow = { rv, kind: ref.kind, type: "DELETED", object };
    history.append(connection[on], row, JSON.stringify(object));
    return row;
  }

  function one(change: Change, rv: number, on: Durability): HistoryRow | undefined {
    if (change.type === "put") return put(change, rv, on);
    if (change.type === "remove") return remove(change.ref, rv, on);
    records.inventory(change);
    return undefined;
  }

  function tell(rows: readonly HistoryRow[]): void {
    for (const listener of listeners) {
      try {
        listener(rows);
      } catch (error) {
        log.error("a listener of the store failed", { error: String(error) });
      }
    }
  }

  function write(changes: readonly Change[], durability: Durability): readonly HistoryRow[] {
    // Revisions, inventory and removals always survive a power cut.
    const plain = changes.every((change) => change.type === "put" && change.revision === undefined);
    const on = plain ? durability : "full";
    const rows: HistoryRow[] = [];
    const origins = new Map<HistoryRow, string>();
    try {
      transact(connection[on], () => {
        for (const change of changes) {
          const row = one(change, history.version() + rows.length + 1, on);
          if (row === undefined) continue;
          rows.push(row);
          if (change.type === "put" && change.origin !== undefined) origins.set(row, change.origin);
        }
        history.trim(connection[on]);
      });
    } catch (error) {
      history.recount();
      throw error;
    }
    history.committed(rows);
    for (const row of rows) remember(memory, row, origins.get(row));
    if (rows.length > 0) tell(rows);
    return rows;
  }

  return {
    get: (ref) => memory.objects.get(refKey(ref)),
    byUid: (uid) => memory.uids.get(uid),
    list: (kind) => listed(memory, kind ?? ""),
    origin: (ref) => memory.origins.get(refKey(ref)),
    version: () => history.version(),
    write,
    subscribe(listener) {
      listeners.add(listener);
      return { unsubscribe: () => void listeners.delete(listener) };
    },
  };
}
