// The wanted objects in memory, as the disk holds them: by name, by uid, and as sorted lists.
import type { DatabaseSync } from "node:sqlite";
import { refKey, refOf, type Resource } from "../../core/resource.ts";
import type { HistoryRow } from "./history.ts";

export const freeze = <T>(value: T): T => {
  if (typeof value !== "object" || value === null || Object.isFrozen(value)) return value;
  for (const part of Object.values(value)) freeze(part);
  return Object.freeze(value);
};

const byName = (a: Resource, b: Resource): number =>
  a.metadata.namespace < b.metadata.namespace
    ? -1
    : a.metadata.namespace > b.metadata.namespace
      ? 1
      : a.metadata.name < b.metadata.name
        ? -1
        : Number(a.metadata.name > b.metadata.name);

export interface Memory {
  readonly objects: Map<string, Resource>;
  readonly uids: Map<string, Resource>;
  readonly origins: Map<string, string>;
  readonly lists: Map<string, readonly Resource[]>;
}

export function load(db: DatabaseSync): Memory {
  const memory: Memory = { objects: new Map(), uids: new Map(), origins: new Map(), lists: new Map() };
  for (const row of db.prepare("SELECT body, origin FROM objects").iterate()) {
    const object = freeze(JSON.parse(String(row["body"])) as Resource);
    memory.objects.set(refKey(refOf(object)), object);
    memory.uids.set(object.metadata.uid, object);
    if (typeof row["origin"] === "string") memory.origins.set(refKey(refOf(object)), row["origin"]);
  }
  return memory;
}

/** Answers how to undo it. */
export function remember(memory: Memory, row: HistoryRow, origin: string | undefined): () => void {
  const key = refKey(refOf(row.object));
  const before = memory.objects.get(key);
  const folder = memory.origins.get(key);
  const set = (object: Resource | undefined, from: string | undefined): void => {
    const old = memory.objects.get(key);
    if (old !== undefined) memory.uids.delete(old.metadata.uid);
    if (object === undefined) memory.objects.delete(key);
    else {
      memory.objects.set(key, object);
      memory.uids.set(object.metadata.uid, object);
    }
    if (from === undefined) memory.origins.delete(key);
    else memory.origins.set(key, from);
    memory.lists.delete(row.kind);
    memory.lists.delete("");
  };
  if (row.type === "DELETED") set(undefined, undefined);
  else set(row.object, origin ?? folder);
  return () => set(before, folder);
}

export function listed(memory: Memory, kind: string): readonly Resource[] {
  const known = memory.lists.get(kind);
  if (known !== undefined) return known;
  const found = [...memory.objects.values()].filter((o) => kind === "" || o.kind === kind).toSorted(byName);
  memory.lists.set(kind, found);
  return found;
}
