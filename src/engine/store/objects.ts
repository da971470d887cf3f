// The wanted objects: all of them in memory, every change in one transaction with its history, revisions and inventory.
import type { DatabaseSync } from "node:sqlite";
import { isDeepStrictEqual } from "node:util";
import { refKey, refOf, type Ref, type Resource } from "../../core/resource.ts";
import type { Clock, Log } from "../../core/world.ts";
import { transact, type Connection } from "./connection.ts";
import { createGroup, type Together } from "./group.ts";
import type { ChangeType, History, HistoryRow } from "./history.ts";
import { freeze, listed, load, remember } from "./memory.ts";
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
  /**
   * Runs what looks at objects and writes them, at once, in one `full` transaction with others of the same moment. Answers after
   * the commit; what it throws undoes what it wrote, and nothing else. Nothing but objects may be written in it.
   */
  readonly together: Together;
  /** Called after every commit, in order. A listener that throws is logged. */
  subscribe(listener: (rows: readonly HistoryRow[]) => void): { unsubscribe(): void };
}

const withVersion = (object: Resource, rv: number): Resource => ({
  ...object,
  metadata: { ...object.metadata, resourceVersion: String(rv) },
});

const same = (a: Resource, b: Resource): boolean => isDeepStrictEqual(withVersion(a, 0), withVersion(b, 0));

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

  /** Inside a transaction on that connection; what it changed is not in memory yet. */
  function writeAll(changes: readonly Change[], on: Durability, rv: number): readonly (readonly [HistoryRow, string | undefined])[] {
    const written: (readonly [HistoryRow, string | undefined])[] = [];
    for (const change of changes) {
      const row = one(change, rv + written.length, on);
      if (row !== undefined) written.push([row, change.type === "put" ? change.origin : undefined]);
    }
    return written;
  }

  /** What the open group wrote so far, and how to take it out of memory again. */
  let open: { readonly row: HistoryRow; readonly undo: () => void }[] | undefined;
  let forgetGroup = (): void => undefined;
  const rewind = (length: number): void => {
    for (const { undo } of open?.splice(length).toReversed() ?? []) undo();
  };

  const together = createGroup(connection.full, deps.clock, {
    begin() {
      open = [];
      forgetGroup = history.mark();
    },
    mark() {
      const length = open?.length ?? 0;
      const forget = history.mark();
      return () => {
        rewind(length);
        forget();
      };
    },
    closing: () => history.trim(connection.full),
    committed() {
      const rows = (open ?? []).map(({ row }) => row);
      open = undefined;
      history.committed(rows);
      if (rows.length > 0) tell(rows);
    },
    aborted() {
      rewind(0);
      open = undefined;
      forgetGroup();
    },
  });

  function write(changes: readonly Change[], durability: Durability): readonly HistoryRow[] {
    if (open !== undefined) {
      const group = open;
      const written = writeAll(changes, "full", history.version() + group.length + 1);
      for (const [row, origin] of written) group.push({ row, undo: remember(memory, row, origin) });
      return written.map(([row]) => row);
    }
    // Revisions, inventory and removals always survive a power cut.
    const plain = changes.every((change) => change.type === "put" && change.revision === undefined);
    const on = plain ? durability : "full";
    const forget = history.mark();
    let written: ReturnType<typeof writeAll>;
    try {
      written = transact(connection[on], () => {
        const all = writeAll(changes, on, history.version() + 1);
        history.trim(connection[on]);
        return all;
      });
    } catch (error) {
      forget();
      throw error;
    }
    const rows = written.map(([row]) => row);
    history.committed(rows);
    for (const [row, origin] of written) remember(memory, row, origin);
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
    together,
    subscribe(listener) {
      listeners.add(listener);
      return { unsubscribe: () => void listeners.delete(listener) };
    },
  };
}
