// Who is looked at again when an object changes: those that refer to it, and those whose plan waits for it.
import type { AnyKind } from "../core/kind.ts";
import { condition, refKey, refOf, type Ref, type Resource } from "../core/resource.ts";
import { needsOf } from "./needs.ts";

export interface Interest {
  /** Keeps the references of an object that is wanted. */
  refers(object: Resource): void;
  forget(ref: Ref): void;
  /** Replaces what a key waits for. */
  waits(key: string, on: readonly Ref[]): void;
  /** Keys to look at when this object changes. */
  of(ref: Ref): readonly string[];
}

/** From key to targets, and back. */
function createLinks() {
  const forward = new Map<string, readonly string[]>();
  const back = new Map<string, Set<string>>();
  const set = (from: string, to: readonly string[]): void => {
    for (const target of forward.get(from) ?? []) {
      const sources = back.get(target);
      sources?.delete(from);
      if (sources?.size === 0) back.delete(target);
    }
    if (to.length === 0) forward.delete(from);
    else forward.set(from, to);
    for (const target of to) back.set(target, (back.get(target) ?? new Set()).add(from));
  };
  return { set, to: (target: string): Set<string> => back.get(target) ?? new Set<string>() };
}

export function createInterest(kinds: ReadonlyMap<string, AnyKind>): Interest {
  const references = createLinks();
  const waits = createLinks();
  return {
    refers(object) {
      const needs = needsOf(kinds, object);
      references.set(
        refKey(refOf(object)),
        needs.map((need) => refKey(need.ref)),
      );
    },
    forget(ref) {
      references.set(refKey(ref), []);
      waits.set(refKey(ref), []);
    },
    waits: (key, on) => waits.set(key, on.map(refKey)),
    of: (ref) => [...new Set([...references.to(refKey(ref)), ...waits.to(refKey(ref))])].filter((key) => key !== refKey(ref)),
  };
}

/** What of an object concerns itself: a change of it wants a pass. Its status does not. */
export const wantedDigest = ({ metadata }: Resource): string =>
  JSON.stringify([metadata.uid, metadata.generation, metadata.deletionTimestamp, metadata.labels, metadata.annotations]);

/** What of an object concerns others: a change of it ends their backoff. */
export function shownDigest(object: Resource): string {
  const ready = condition(object, "Ready");
  return `${wantedDigest(object)} ${ready?.status ?? ""} ${ready?.reason ?? ""}`;
}
