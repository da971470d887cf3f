// What plans may know: the wanted objects, or those that a set of manifests would lead to.
import type { View } from "../core/kind.ts";
import { refKey, refOf, type Ref, type Resource } from "../core/resource.ts";
import type { Clock } from "../core/world.ts";
import type { HostPolicy } from "../../schemas/types.ts";
import type { Store } from "./store.ts";

export interface ViewDeps {
  readonly store: Pick<Store, "id" | "objects" | "agents">;
  readonly host: () => HostPolicy;
  /** Absolute path of BEIGE_HOME. */
  readonly home: string;
  readonly defaultHome: boolean;
  readonly clock: Clock;
}

/** Objects that are not stored yet, and those that are to go. */
export interface Overlay {
  readonly put: readonly { readonly object: Resource; readonly origin?: string }[];
  readonly removed: readonly Ref[];
}

export function createView({ store, host, home, defaultHome, clock }: ViewDeps): View {
  const { objects } = store;
  return {
    now: clock.now(),
    store: store.id,
    home,
    defaultHome,
    get: objects.get,
    list: objects.list,
    origin: objects.origin,
    host: host(),
    seatOf: store.agents.seats.of,
  };
}

/** The same view after a set of changes. */
export function overlaid(view: View, overlay: Overlay): View {
  const put = new Map(overlay.put.map((p) => [refKey(refOf(p.object)), p]));
  const removed = new Set(overlay.removed.map(refKey));
  const lists = new Map<string, readonly Resource[]>();
  const list = (kind: string): readonly Resource[] => {
    const known = lists.get(kind);
    if (known !== undefined) return known;
    const kept = view.list(kind).filter((o) => !put.has(refKey(refOf(o))) && !removed.has(refKey(refOf(o))));
    const all = [...kept, ...overlay.put.map((p) => p.object).filter((o) => o.kind === kind)];
    lists.set(kind, all);
    return all;
  };
  return {
    ...view,
    get: (ref) => put.get(refKey(ref))?.object ?? (removed.has(refKey(ref)) ? undefined : view.get(ref)),
    list,
    origin: (ref) => put.get(refKey(ref))?.origin ?? view.origin(ref),
  };
}
