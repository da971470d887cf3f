// What is kept beside the objects: their last revisions, and which set of manifests each belongs to.
import type { DatabaseSync } from "node:sqlite";
import type { Ref, Resource } from "../../core/resource.ts";

export const REVISIONS_KEPT = 10;

export interface Revision {
  readonly revision: number;
  /** Milliseconds since the epoch. */
  readonly at: number;
  readonly manager: string;
  readonly fields: readonly string[];
  readonly spec: unknown;
}

/** The writers run inside a transaction of the `full` connection. */
export interface Records {
  revise(object: Resource, change: { readonly manager: string; readonly fields: readonly string[] }, at: number): void;
  /** Newest first. */
  revisions(uid: string): readonly Revision[];
  inventory(change: { readonly type: "hold" | "release"; readonly manager: string; readonly ref: Ref }): void;
  /** Drops the object from every set. */
  releaseAll(ref: Ref): void;
  /** What a set holds. */
  held(manager: string): readonly Ref[];
  holders(ref: Ref): readonly string[];
}

export function createRecords(db: DatabaseSync): Records {
  const insert = db.prepare("INSERT OR REPLACE INTO revisions VALUES (?, ?, ?, ?, ?, ?)");
  const drop = db.prepare("DELETE FROM revisions WHERE uid = ? AND revision <= ?");
  const select = db.prepare("SELECT revision, at, manager, fields, spec FROM revisions WHERE uid = ? ORDER BY revision DESC");
  const hold = db.prepare("INSERT OR IGNORE INTO inventory VALUES (?, ?, ?, ?)");
  const release = db.prepare("DELETE FROM inventory WHERE manager = ? AND kind = ? AND namespace = ? AND name = ?");
  const releaseAll = db.prepare("DELETE FROM inventory WHERE kind = ? AND namespace = ? AND name = ?");
  const held = db.prepare("SELECT kind, namespace, name FROM inventory WHERE manager = ? ORDER BY kind, namespace, name");
  const holders = db.prepare("SELECT manager FROM inventory WHERE kind = ? AND namespace = ? AND name = ? ORDER BY manager");
  return {
    revise(object, change, at) {
      const { uid, generation } = object.metadata;
      insert.run(uid, generation, at, change.manager, JSON.stringify(change.fields), JSON.stringify(object.spec));
      if (generation > REVISIONS_KEPT) drop.run(uid, generation - REVISIONS_KEPT);
    },
    revisions: (uid) =>
      select.all(uid).map((row) => ({
        revision: Number(row["revision"]),
        at: Number(row["at"]),
        manager: String(row["manager"]),
        fields: JSON.parse(String(row["fields"])) as readonly string[],
        spec: JSON.parse(String(row["spec"])) as unknown,
      })),
    inventory({ type, manager, ref }) {
      (type === "hold" ? hold : release).run(manager, ref.kind, ref.namespace, ref.name);
    },
    releaseAll: (ref) => void releaseAll.run(ref.kind, ref.namespace, ref.name),
    held: (manager) =>
      held.all(manager).map((row) => ({ kind: String(row["kind"]), namespace: String(row["namespace"]), name: String(row["name"]) })),
    holders: (ref) => holders.all(ref.kind, ref.namespace, ref.name).map((row) => String(row["manager"])),
  };
}
