// Wakes the keys that a change of the store concerns: the object itself, and those that refer to it or wait for it.
import type { AnyKind } from "../core/kind.ts";
import { refKey, refOf, type Ref, type Resource } from "../core/resource.ts";
import { createInterest, shownDigest, wantedDigest } from "./interest.ts";
import type { Queue } from "./queue.ts";
import type { HistoryRow } from "./store/history.ts";

export interface Waker {
  changed(row: HistoryRow): void;
  /** Objects that were there before the first change. */
  remember(objects: readonly Resource[], pace: () => Promise<void>): Promise<void>;
  /** Replaces what a key waits for. */
  waits(key: string, on: readonly Ref[]): void;
}

export function createWaker(kinds: ReadonlyMap<string, AnyKind>, queue: Pick<Queue, "event" | "hint">): Waker {
  const interest = createInterest(kinds);
  const digests = new Map<string, { readonly wanted: string; readonly shown: string }>();

  function keep(object: Resource): void {
    digests.set(refKey(refOf(object)), { wanted: wantedDigest(object), shown: shownDigest(object) });
    interest.refers(object);
  }

  return {
    changed(row) {
      const ref = refOf(row.object);
      const key = refKey(ref);
      const before = digests.get(key);
      const wanted = row.type !== "MODIFIED" || before?.wanted !== wantedDigest(row.object);
      const shown = wanted || before?.shown !== shownDigest(row.object);
      if (row.type === "DELETED") {
        digests.delete(key);
        interest.forget(ref);
      } else if (shown) keep(row.object);
      // A removed object is looked at once more: what it left in the world is an orphan.
      if (wanted) queue.event(key);
      for (const other of interest.of(ref)) (shown ? queue.event : queue.hint)(other);
    },
    async remember(objects, pace) {
      for (const object of objects) {
        keep(object);
        await pace();
      }
    },
    waits: (key, on) => interest.waits(key, on),
  };
}
