// The loop: what wakes which key, the resync that finds what hints missed, and the orphans of the world.
import { order } from "../core/graph.ts";
import type { AnyKind, View } from "../core/kind.ts";
import { refKey, refOf, type Ref } from "../core/resource.ts";
import { LABEL, type SandboxHint } from "../core/sandbox.ts";
import type { Clock, Log, Random, World } from "../core/world.ts";
import { createPass, type Report } from "./controller.ts";
import { findOrphans } from "./orphans.ts";
import { needsOf } from "./needs.ts";
import { createPace } from "./pace.ts";
import { createQueue } from "./queue.ts";
import type { Store } from "./store.ts";
import { createWaker } from "./waker.ts";

export const RESYNC_MS = 60_000;
/** How long `stop` waits for effects that run. */
export const STOP_MS = 10_000;

export interface LoopDeps {
  readonly store: Store;
  readonly kinds: ReadonlyMap<string, AnyKind>;
  readonly world: World;
  readonly view: () => View;
  readonly clock: Clock;
  readonly random: Random;
  readonly log: Log;
  /** Told of each pass over an object, for whoever counts. Must not throw. */
  readonly onPass?: (kind: string, outcome: "settled" | "wait" | "retry") => void;
}

export interface Loop {
  /** Resolves when every object and every orphan has been looked at once. */
  readonly start: () => Promise<void>;
  readonly stop: () => Promise<void>;
  readonly settled: () => boolean;
  /** The object, or something that it depends on outside the store, changed: ends its backoff. */
  readonly wake: (ref: Ref) => void;
  /** A hint about whatever has this uid; keeps a backoff. */
  readonly wakeUid: (uid: string) => void;
  /** As wakeUid, and only for one that waits: cheap enough for every call that ends. */
  readonly nudgeUid: (uid: string) => void;
  readonly wakeKind: (kind: string) => void;
  readonly reports: (listener: (report: Report) => void) => { unsubscribe(): void };
}

function parseKey(key: string): Ref {
  const [kind = "", namespace = "", name = ""] = key.split("/");
  return { kind, namespace, name };
}

export function createLoop(deps: LoopDeps): Loop {
  const { store, kinds, world, clock, log } = deps;
  const { objects } = store;
  const listeners = new Set<(report: Report) => void>();
  /** Keys that the first pass still owes. */
  const owed = new Set<string>();
  const stopping = new AbortController();
  let first: "waiting" | "scanning" | "running" | "done" = "waiting";
  let started: () => void = () => undefined;

  const report = (told: Report): void => {
    for (const listener of listeners) listener(told);
  };
  const pass = createPass({ store, kinds, world, view: deps.view, report });

  const queue = createQueue({
    clock,
    random: deps.random,
    log,
    run: async (key, signal) => {
      try {
        const verdict = await pass(parseKey(key), signal);
        waker.waits(key, verdict.next === "wait" ? (verdict.on ?? []) : []);
        deps.onPass?.(parseKey(key).kind, verdict.next);
        return verdict;
      } finally {
        owed.delete(key);
        checkFirst();
      }
    },
  });

  const waker = createWaker(kinds, queue);
  const orphans = (): Promise<readonly Ref[]> => findOrphans(deps, stopping.signal);

  function checkFirst(): void {
    if (first !== "running" || owed.size > 0) return;
    first = "done";
    log.info("the first pass over all objects is done", { objects: objects.list().length });
    started();
  }

  async function resync(): Promise<void> {
    const pace = createPace(clock);
    for (const object of objects.list()) {
      queue.hint(refKey(refOf(object)));
      await pace();
    }
    for (const ref of await orphans()) queue.hint(refKey(ref));
  }

  async function resyncing(): Promise<void> {
    while (!stopping.signal.aborted) {
      await clock.sleep(RESYNC_MS, stopping.signal);
      await resync();
    }
  }

  function hinted({ id, labels }: SandboxHint): void {
    const object = objects.byUid(store.agents.seats.holder(labels[LABEL.uid] ?? "") ?? labels[LABEL.uid] ?? "");
    // One that was taken over from a lost store serves like any other.
    if (labels[LABEL.store] !== store.id && (object === undefined || store.agents.active(object.metadata.uid) !== id)) return;
    const ref = object === undefined ? labelled(labels) : refOf(object);
    if (ref !== undefined && kinds.has(ref.kind)) queue.hint(refKey(ref));
  }

  function wakeAll(): void {
    for (const object of objects.list()) queue.event(refKey(refOf(object)));
  }

  async function watching(): Promise<void> {
    const on = {
      hint: hinted,
      relist: () => {
        // The first connection comes with the first pass, which looks anyway.
        if (first === "done") wakeAll();
        else for (const object of objects.list()) queue.hint(refKey(refOf(object)));
        void orphans().then((refs) => refs.forEach((ref) => queue.event(refKey(ref))));
      },
      down: (error: Error) => {
        log.warn("the container engine does not answer", { error: error.message });
        wakeAll();
      },
    };
    await world.sandbox.watch(on, stopping.signal);
  }

  const background = (what: string, work: Promise<void>): void => {
    work.catch((error: unknown) => {
      if (!stopping.signal.aborted) log.error(`${what} ended`, { error: String(error) });
    });
  };

  return {
    async start() {
      const done = new Promise<void>((resolve) => {
        started = resolve;
      });
      first = "scanning";
      objects.subscribe((rows) => rows.forEach((row) => waker.changed(row)));
      await waker.remember(objects.list(), createPace(clock));
      const { ordered } = order(objects.list(), (object) => needsOf(kinds, object));
      const keys = [...ordered.map(refOf), ...(await orphans())].map(refKey);
      for (const key of keys) owed.add(key);
      first = "running";
      for (const key of keys) queue.event(key);
      background("the watch on the container engine", watching());
      background("the resync", resyncing());
      checkFirst();
      stopping.signal.addEventListener("abort", () => started());
      await done;
    },
    async stop() {
      stopping.abort();
      await queue.stop(STOP_MS);
    },
    settled: () => first === "done",
    wake: (ref) => queue.event(refKey(ref)),
    wakeUid(uid) {
      const object = objects.byUid(uid);
      if (object !== undefined) queue.hint(refKey(refOf(object)));
    },
    nudgeUid(uid) {
      const object = objects.byUid(uid);
      if (object !== undefined) queue.nudge(refKey(refOf(object)));
    },
    wakeKind(kind) {
      for (const object of objects.list(kind)) queue.event(refKey(refOf(object)));
    },
    reports(listener) {
      listeners.add(listener);
      return { unsubscribe: () => void listeners.delete(listener) };
    },
  };
}

/** The object that a label names, wanted or not. */
function labelled(labels: Readonly<Record<string, string>>): Ref | undefined {
  const kind = labels[LABEL.kind];
  const name = labels[LABEL.name];
  return kind === undefined || name === undefined ? undefined : { kind, namespace: labels[LABEL.namespace] ?? "", name };
}
