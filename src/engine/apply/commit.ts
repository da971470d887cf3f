// The one transaction of an apply: objects, inventory and deletions, all or nothing.
import { refKey, refName, refOf, type Ref, type Resource } from "../../core/resource.ts";
import { wantedDigest } from "../interest.ts";
import type { Change } from "../store/objects.ts";
import type { Store } from "../store.ts";
import type { Staged } from "./stage.ts";

export interface Pruned {
  /** To be deleted. */
  readonly remove: readonly Resource[];
  /** Of the set, no longer in the manifests, and staying. */
  readonly left: readonly Ref[];
  /** No longer in the manifests and gone, or held by another set: only forgotten. */
  readonly release: readonly Ref[];
}

/** How much of a set a prune may delete. */
export interface PruneGuard {
  /** Percent such as "30%", then always at least one, or a number of objects. */
  readonly maxDeletes: string | number;
  /** All of it, when nothing is wanted any more. */
  readonly allowEmpty: boolean;
  /** What else lets it pass, besides deleting by name. */
  readonly hint?: string | ((deletes: number, all: boolean) => string);
}
export const PRUNE: PruneGuard = { maxDeletes: "30%", allowEmpty: false };

const mayDelete = (held: number, { maxDeletes }: PruneGuard): number =>
  typeof maxDeletes === "number" ? maxDeletes : Math.max(1, Math.floor((held * Number.parseInt(maxDeletes, 10)) / 100));

/** What left the set. */
export function pruned(store: Store, manager: string, wanted: { readonly keep: readonly Ref[]; readonly prune: boolean }): Pruned {
  const keep = new Set(wanted.keep.map(refKey));
  const away = store.records.held(manager).filter((ref) => !keep.has(refKey(ref)));
  const there = away.flatMap((ref) => store.objects.get(ref) ?? []).filter((o) => o.metadata.deletionTimestamp === undefined);
  if (!wanted.prune) return { remove: [], left: there.map(refOf), release: [] };
  const remove = there.filter((o) => store.records.holders(refOf(o)).every((holder) => holder === manager));
  const removed = new Set(remove.map((o) => refKey(refOf(o))));
  return { remove, left: [], release: away.filter((ref) => !removed.has(refKey(ref))) };
}

/** Why a prune would take too much of a set; undefined when it may. */
export function guardPrune(
  store: Store,
  manager: string,
  what: { readonly kept: number; readonly pruned: Pruned; readonly guard: PruneGuard },
): { readonly message: string; readonly hint: string } | undefined {
  const { remove } = what.pruned;
  const held = store.records.held(manager).length;
  const may = what.kept > 0 ? remove.length <= mayDelete(held, what.guard) : what.guard.allowEmpty;
  if (remove.length === 0 || may) return undefined;
  const names = remove.slice(0, 3).map((o) => refName(refOf(o)));
  const all = what.kept === 0 ? "the manifests are empty, so that all" : `${remove.length} of`;
  const byName = `delete them by name: beige delete ${names.join(" ")}${remove.length > 3 ? " ..." : ""}`;
  const { hint } = what.guard;
  const said = typeof hint === "function" ? hint(remove.length, what.kept === 0) : hint;
  return {
    message: `pruning refused: ${all} ${held} objects of ${manager} would be deleted`,
    hint: said === undefined ? byName : `${said}, or ${byName}`,
  };
}

/** Sets the time from which an object is on its way out. */
export const markDeleted = (object: Resource, now: number): Resource =>
  object.metadata.deletionTimestamp !== undefined
    ? object
    : { ...object, metadata: { ...object.metadata, deletionTimestamp: new Date(now).toISOString() } };

/** Keys of the objects that the loop looks at because of what was written. Nothing to change, no transaction. */
export function commit(
  store: Store,
  manager: string,
  what: { readonly staged: readonly Staged[]; readonly pruned: Pruned; readonly now: number },
): ReadonlySet<string> {
  const held = new Set(store.records.held(manager).map(refKey));
  const puts = what.staged
    .filter((s) => s.changed)
    .map(({ ref, after, before, origin }): Change => {
      // The status may have moved since the plan was made.
      const status = before === undefined ? undefined : store.objects.get(ref)?.status;
      const object = status === undefined ? after : { ...after, status };
      const revision = { manager, fields: changedPaths(before, after) };
      return { type: "put", object, revision, ...(origin === undefined ? {} : { origin }) };
    });
  const changes: readonly Change[] = [
    ...puts,
    ...what.staged.filter((s) => !held.has(refKey(s.ref))).map((s): Change => ({ type: "hold", manager, ref: s.ref })),
    ...what.pruned.remove.flatMap((old): Change[] => {
      const object = store.objects.get(refOf(old));
      return object === undefined ? [] : [{ type: "put", object: markDeleted(object, what.now) }];
    }),
    ...what.pruned.release.map((ref): Change => ({ type: "release", manager, ref })),
  ];
  if (changes.length === 0) return new Set();
  const before = new Map(what.staged.map((s) => [refKey(s.ref), s.before] as const));
  const rows = store.objects.write(changes, "full").map((row) => ({ key: refKey(refOf(row.object)), object: row.object }));
  return new Set(rows.flatMap(({ key, object }) => (wantedDigest(object) === digestOf(before.get(key)) ? [] : [key])));
}

const digestOf = (object: Resource | undefined): string => (object === undefined ? "" : wantedDigest(object));

/** Names of the changed parts of a spec, for the list of revisions. */
export function changedPaths(before: Resource | undefined, after: Resource): readonly string[] {
  const spec = after.spec as Readonly<Record<string, unknown>>;
  if (before === undefined) return Object.keys(spec).toSorted();
  const old = before.spec as Readonly<Record<string, unknown>>;
  return [...new Set([...Object.keys(old), ...Object.keys(spec)])]
    .filter((key) => JSON.stringify(old[key]) !== JSON.stringify(spec[key]))
    .toSorted();
}
