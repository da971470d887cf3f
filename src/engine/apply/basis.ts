// What a plan was made from: recorded with it, so that a later apply does just that plan or refuses as stale.
import type { Basis, ObjectPlan, PlanBasis, StackPlan } from "../../core/control.ts";
import { jsonPatch } from "../../core/diff.ts";
import { BeigeError } from "../../core/errors.ts";
import { fingerprint } from "../../core/fingerprint.ts";
import { refKey, refName, type Ref, type Resource } from "../../core/resource.ts";
import type { Store } from "../store.ts";
import type { PlannedSet } from "./set.ts";

/** What people write of an object, for patches. */
const written = ({ metadata: { labels, annotations }, spec }: Resource): object => ({
  metadata: { ...(labels === undefined ? {} : { labels }), ...(annotations === undefined ? {} : { annotations }) },
  spec,
});

const NOTHING = "";

/** Owners of fields say when they came by them: that does not count. */
function storedHash(object: Resource | undefined): string {
  if (object === undefined) return NOTHING;
  const { uid, generation, deletionTimestamp, managedFields } = object.metadata;
  const owners = (managedFields ?? []).map(({ manager, operation, fieldsV1 }) => ({ manager, operation, fieldsV1 }));
  return fingerprint({ uid, generation, deletionTimestamp, owners, ...written(object) });
}

const worldHash = ({ verb, why, actions, drift, forces }: ObjectPlan): string => fingerprint({ verb, why, actions, drift, forces });

interface Row {
  readonly ref: Ref;
  readonly before: Resource | undefined;
  /** Absent for what is deleted. */
  readonly after: Resource | undefined;
}

/** In the order of the plan's objects. */
const rowsOf = ({ stage, pruned }: PlannedSet): readonly Row[] => [
  ...stage.staged.map(({ ref, before, after }) => ({ ref, before, after })),
  ...pruned.remove.map((object) => ({ ref: { kind: object.kind, ...placeOf(object) }, before: object, after: undefined })),
];
const placeOf = ({ metadata: { namespace, name } }: Resource): { namespace: string; name: string } => ({ namespace, name });

export async function basisOf(store: Pick<Store, "id" | "objects">, set: PlannedSet, pace: () => Promise<void>): Promise<PlanBasis> {
  const objects: Basis[] = [];
  for (const [i, { ref, before, after }] of rowsOf(set).entries()) {
    const plan = set.plan.objects[i];
    objects.push({
      ref,
      ...(before === undefined ? {} : { uid: before.metadata.uid }),
      stored: storedHash(before),
      wanted: after === undefined ? NOTHING : fingerprint(written(after)),
      world: plan === undefined ? NOTHING : worldHash(plan),
    });
    await pace();
  }
  return { store: store.id, resourceVersion: String(store.objects.version()), objects };
}

const patchOf = ({ before, after }: Row): NonNullable<ObjectPlan["patch"]> => {
  if (after === undefined) return [{ op: "remove", path: "" }];
  if (before === undefined) return [{ op: "add", path: "", value: written(after) }];
  return jsonPatch(written(before), written(after));
};

/** The plan with patches and its basis. */
export async function detailed(store: Pick<Store, "id" | "objects">, set: PlannedSet, pace: () => Promise<void>): Promise<StackPlan> {
  const rows = rowsOf(set);
  const objects: ObjectPlan[] = [];
  for (const [i, plan] of set.plan.objects.entries()) {
    const row = rows[i];
    objects.push(row === undefined ? plan : { ...plan, patch: patchOf(row) });
    await pace();
  }
  return { ...set.plan, objects, basis: await basisOf(store, set, pace) };
}

/** Why the second is not the plan that the first was; undefined when it is. */
function moved(expected: PlanBasis, now: PlanBasis): string | undefined {
  if (expected.store !== now.store) return "it was made for another gateway";
  const known = new Map(expected.objects.map((each) => [refKey(each.ref), each]));
  for (const each of now.objects) {
    const name = refName(each.ref);
    const then = known.get(refKey(each.ref));
    known.delete(refKey(each.ref));
    if (then === undefined) return `${name} is not in it`;
    if (then.stored !== each.stored) return each.stored === NOTHING ? `${name} is no longer there` : `${name} was changed meanwhile`;
    if (then.wanted !== each.wanted) return `the manifests want something else of ${name} now`;
    if (then.world !== each.world) return `what runs of ${name} has changed meanwhile`;
  }
  const [rest] = known.values();
  return rest === undefined ? undefined : `${refName(rest.ref)} is no part of it any more`;
}

/** Throws `conflict` unless the plan is just the one that was recorded. */
export function refuseStale(expected: PlanBasis, now: PlanBasis): void {
  const why = moved(expected, now);
  if (why === undefined) return;
  throw new BeigeError("conflict", `the plan is stale: ${why}`, { hint: "make a new one and look at it: beige diff -f FILE -o json" });
}
