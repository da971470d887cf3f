// Deletion of single objects: marks them, and lets their kind take down what they have; by force it only forgets them.
import type { Control } from "../core/control.ts";
import { BeigeError } from "../core/errors.ts";
import { refName, type Ref, type Resource } from "../core/resource.ts";
import { markDeleted } from "./apply/commit.ts";
import { notFound, type Language } from "./language.ts";
import type { Store } from "./store.ts";
import type { Clock, World } from "../core/world.ts";
import { recordDeed } from "./asked.ts";

export interface RemoveDeps {
  readonly store: Store;
  readonly language: Language;
  readonly clock: Clock;
  readonly world: World;
}

/** Throws `not_found`, or `conflict` when a condition does not hold. */
export async function remove(deps: RemoveDeps, ref: Ref, options: Parameters<Control["delete"]>[1]): Promise<Resource> {
  const { store, clock } = deps;
  deps.language.kind(ref.kind);
  const object = store.objects.get(ref);
  if (object === undefined) throw notFound(ref);
  const { uid, resourceVersion } = object.metadata;
  const other =
    (options.uid !== undefined && options.uid !== uid) ||
    (options.resourceVersion !== undefined && options.resourceVersion !== resourceVersion);
  if (other) throw new BeigeError("conflict", `${refName(ref)} is not the object that was meant`, { hint: "read it again" });
  const marked = markDeleted(object, clock.now());
  if (options.dryRun) return marked;
  if (options.force) {
    store.events.record({
      ref,
      uid,
      type: "Warning",
      reason: "ForceDeleted",
      message: "forgotten by force; what is left of it is removed as an orphan",
    });
    store.objects.write([{ type: "remove", ref }], "full");
    await recordDeed(deps.world, options.by, { verb: "delete", refs: [ref], what: "by force" });
    return marked;
  }
  if (marked === object) return object;
  store.objects.write([{ type: "put", object: marked }], "full");
  store.events.record({ ref, uid, type: "Normal", reason: "Deleting", message: "deletion was asked for" });
  await recordDeed(deps.world, options.by, { verb: "delete", refs: [ref] });
  return store.objects.get(ref) ?? marked;
}
