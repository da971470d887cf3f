// Orphans: what the world holds under our label and no object asks for.
import type { AnyKind } from "../core/kind.ts";
import type { Ref } from "../core/resource.ts";
import type { Clock, Log, World } from "../core/world.ts";
import { limited } from "./act.ts";
import { OBSERVE_MS } from "./controller.ts";
import type { Store } from "./store.ts";

export interface OrphanDeps {
  readonly store: Store;
  readonly kinds: ReadonlyMap<string, AnyKind>;
  readonly world: World;
  readonly clock: Clock;
  readonly log: Log;
}

/** A kind that cannot tell now is asked again at the next resync. */
export async function findOrphans(deps: OrphanDeps, signal: AbortSignal): Promise<readonly Ref[]> {
  const { store, world, clock, log } = deps;
  const found: Ref[] = [];
  for (const kind of deps.kinds.values()) {
    try {
      const limit = { ms: OBSERVE_MS, graceMs: 0, what: `listing what there is of ${kind.kind}` };
      const names = await limited(clock, limit, () => kind.names(world), signal);
      found.push(...names.filter((ref) => store.objects.get(ref) === undefined));
    } catch (error) {
      if (!signal.aborted) log.warn("what the world holds cannot be listed", { kind: kind.kind, error: String(error) });
    }
  }
  return found;
}
