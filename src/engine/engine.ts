// The engine: the store's objects, the loop that makes the world match, and what the API asks of both.
import type { Control } from "../core/control.ts";
import type { AnyKind } from "../core/kind.ts";
import type { Ref } from "../core/resource.ts";
import { selector } from "../core/selector.ts";
import type { Stacks } from "../core/source.ts";
import type { Clock, Log, Outside, Random, World } from "../core/world.ts";
import type { HostPolicy } from "../../schemas/types.ts";
import { apply } from "./apply.ts";
import { createLanguage, notFound } from "./language.ts";
import { createLoop } from "./loop.ts";
import { planObject } from "./plan.ts";
import { remove } from "./remove.ts";
import { createStacks } from "./stacks.ts";
import type { Store } from "./store.ts";
import { createView } from "./view.ts";
import { createWatch } from "./watch.ts";
import { write } from "./write.ts";

export interface EngineDeps {
  readonly store: Store;
  readonly kinds: readonly AnyKind[];
  readonly world: Outside;
  /** Host policy, read anew at every plan. */
  readonly host: () => HostPolicy;
  /** Absolute path of BEIGE_HOME. */
  readonly home: string;
  readonly defaultHome: boolean;
  readonly clock: Clock;
  readonly random: Random;
  readonly log: Log;
  /** Told of each pass over an object, for whoever counts. Must not throw. */
  readonly onPass?: (kind: string, outcome: "settled" | "wait" | "retry") => void;
}

export interface Engine extends Control {
  /** Resolves when every object has been looked at once; `settled` is true from then on. */
  start(): Promise<void>;
  /** Ends the loop; waits for running effects, at most 10 s. */
  stop(): Promise<void>;
  /** Something that the object depends on changed: look now, whatever its backoff. */
  wake(ref: Ref): void;
  /** A hint that whatever has this uid may have changed; keeps a backoff. */
  wakeUid(uid: string): void;
  /** As wakeUid, for one that waits; nothing for one at rest. */
  nudgeUid(uid: string): void;
  wakeKind(kind: string): void;
}

const EVENTS_OF_DESCRIBE = 100;

/** The world as controllers see it: the engine's own part looks at the same world. */
function withStacks(outside: Outside, make: (world: World) => Stacks): World {
  const world = { ...outside } as World & { stacks: Stacks };
  world.stacks = make(world);
  return world;
}

export function createEngine(deps: EngineDeps): Engine {
  const { store, clock, random, log } = deps;
  const language = createLanguage(deps.kinds);
  const view = () => createView({ ...deps, store });
  const world: World = withStacks(deps.world, (whole) =>
    createStacks({ store, language, world: whole, clock, random, view, shelf: store.shelf }),
  );
  const loop = createLoop({ store, kinds: language.kinds, world, view, clock, random, log, ...(deps.onPass && { onPass: deps.onPass }) });
  const shared = { store, language, world, clock, random, view, wake: loop.wake, reports: loop.reports };

  const get: Control["get"] = (ref) => {
    language.kind(ref.kind);
    const object = store.objects.get(ref);
    if (object === undefined) throw notFound(ref);
    return object;
  };

  return {
    kinds: language.infos,
    get,
    list(kind, options) {
      language.kind(kind);
      const selected = selector(options);
      return { items: store.objects.list(kind).filter(selected), resourceVersion: String(store.objects.version()) };
    },
    watch(kind, options, signal) {
      language.kind(kind);
      return createWatch(store, clock)(kind, options, signal);
    },
    write: (request) => write(shared, request),
    delete: (ref, options) => remove(shared, ref, options),
    apply: (request, signal) => apply(shared, request, signal),
    async describe(ref) {
      const object = get(ref);
      const deleting = object.metadata.deletionTimestamp !== undefined;
      const { object: plan } = await planObject(shared, { ref, before: object, after: object, view: view(), deleting });
      const revisions = store.records.revisions(object.metadata.uid).map(({ revision, at, manager, fields }) => ({
        revision,
        at: new Date(at).toISOString(),
        manager,
        fields,
      }));
      return { object, plan, events: store.events.list({ ref, limit: EVENTS_OF_DESCRIBE }), revisions };
    },
    revisions: (ref) =>
      store.records.revisions(get(ref).metadata.uid).map(({ at, ...revision }) => ({ ...revision, at: new Date(at).toISOString() })),
    events: (filter) => store.events.list(filter),
    version: () => String(store.objects.version()),
    settled: loop.settled,
    start: loop.start,
    stop: loop.stop,
    wake: loop.wake,
    wakeUid: loop.wakeUid,
    nudgeUid: loop.nudgeUid,
    wakeKind: loop.wakeKind,
  };
}
