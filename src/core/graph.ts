// In which order objects are applied, and which references lead nowhere.
import type { Problem } from "./errors.ts";
import type { Need } from "./kind.ts";
import { refKey } from "./resource.ts";
import type { Ref } from "./resource.ts";
import { suggest } from "./text.ts";

interface Named {
  readonly kind: string;
  readonly metadata: { readonly name: string; readonly namespace?: string };
}

const refTo = (object: Named): Ref => ({ kind: object.kind, namespace: object.metadata.namespace ?? "", name: object.metadata.name });

/** Among objects that do not need each other: by kind, then as they came. Others follow in the order of their first appearance. */
export const KIND_ORDER: readonly string[] = ["Provider", "Plugin", "Agent", "Schedule", "Source"];

/** Needed objects first. Objects of a cycle come last, in kind order, and each cycle is reported. */
export function order<R extends Named>(
  objects: readonly R[],
  needs: (object: R) => readonly Need[],
): { readonly ordered: readonly R[]; readonly cycles: readonly (readonly Ref[])[] } {
  const rank = new Map(KIND_ORDER.map((kind, i) => [kind, i]));
  for (const { kind } of objects) if (!rank.has(kind)) rank.set(kind, rank.size);
  const sorted = objects.toSorted((a, b) => (rank.get(a.kind) ?? 0) - (rank.get(b.kind) ?? 0));
  const byKey = new Map(sorted.map((o) => [refKey(refTo(o)), o]));
  // Most objects need nothing here: they have no entry, so that a large set stays cheap.
  const waits = new Map<string, ReadonlySet<string>>();
  for (const [key, object] of byKey) {
    const needed = needs(object).flatMap((need) => (byKey.has(refKey(need.ref)) ? [refKey(need.ref)] : []));
    if (needed.length > 0) waits.set(key, new Set(needed));
  }
  const stuck = stuckKeys(waits);
  const ordered = walk(
    [...byKey.keys()].filter((key) => !stuck.has(key)),
    waits,
  );
  const last = [...byKey.keys()].filter((key) => stuck.has(key));
  return {
    ordered: [...ordered, ...last].flatMap((key) => byKey.get(key) ?? []),
    cycles: cycles(new Map(last.flatMap((key) => (byKey.has(key) ? [[key, refTo(byKey.get(key) as R)]] : []))), waits),
  };
}

/** Keys that lie on a cycle or need one that does: what is left when everything that can go has gone. */
function stuckKeys(waits: ReadonlyMap<string, ReadonlySet<string>>): ReadonlySet<string> {
  const left = new Map([...waits].map(([key, needs]) => [key, needs.size]));
  const users = new Map<string, string[]>();
  for (const [key, needs] of waits) {
    for (const need of needs) {
      const known = users.get(need);
      if (known === undefined) users.set(need, [key]);
      else known.push(key);
    }
  }
  const free = [...users.keys()].filter((key) => !waits.has(key));
  for (let key = free.pop(); key !== undefined; key = free.pop()) {
    left.delete(key);
    for (const user of users.get(key) ?? []) {
      const count = (left.get(user) ?? 0) - 1;
      left.set(user, count);
      if (count === 0) free.push(user);
    }
  }
  return new Set(left.keys());
}

/** Each key after its needs, otherwise in the order given. Without recursion: chains may be long. */
function walk(keys: readonly string[], waits: ReadonlyMap<string, ReadonlySet<string>>): readonly string[] {
  const done = new Set<string>();
  for (const start of keys) {
    if (!waits.has(start)) {
      done.add(start);
      continue;
    }
    const stack = [start];
    for (let key = stack.at(-1); key !== undefined; key = stack.at(-1)) {
      const open = [...(waits.get(key) ?? [])].filter((need) => !done.has(need));
      if (open.length > 0 && !done.has(key)) stack.push(...open.toReversed());
      else {
        done.add(key);
        stack.pop();
      }
    }
  }
  return [...done];
}

function cycles(stuck: ReadonlyMap<string, Ref>, waits: ReadonlyMap<string, ReadonlySet<string>>): readonly (readonly Ref[])[] {
  const found: Ref[][] = [];
  const seen = new Set<string>();
  for (const start of stuck.keys()) {
    const path: string[] = [];
    let at: string | undefined = start;
    while (at !== undefined && !seen.has(at)) {
      seen.add(at);
      path.push(at);
      at = [...(waits.get(at) ?? [])].find((next) => stuck.has(next));
    }
    const from = at === undefined ? -1 : path.indexOf(at);
    if (from >= 0) found.push(path.slice(from).flatMap((key) => stuck.get(key) ?? []));
  }
  return found;
}

/** A problem for each cycle. */
export const cycleProblems = (found: readonly (readonly Ref[])[]): readonly Problem[] =>
  found.map((refs) => {
    const names = refs.map((r) => `${r.kind}/${r.name}`);
    return {
      message: `objects need each other: ${[...names, names[0] ?? ""].join(" -> ")}`,
      ...(names[0] === undefined ? {} : { object: names[0] }),
      hint: "remove one of the references",
    };
  });

/** References to objects that are neither among these nor known otherwise. `names` lists what exists of a kind, for suggestions. */
export function unknownReferences<R extends Named>(
  objects: readonly R[],
  needs: (object: R) => readonly Need[],
  exists: (ref: Ref) => boolean,
  names: (kind: string, namespace: string) => readonly string[] = () => [],
): readonly Problem[] {
  const here = new Set(objects.map((o) => refKey(refTo(o))));
  return objects.flatMap((object) =>
    needs(object).flatMap(({ ref, path }): Problem[] => {
      if (here.has(refKey(ref)) || exists(ref)) return [];
      const mine = objects.map(refTo).filter((r) => r.kind === ref.kind && r.namespace === ref.namespace);
      const known = [...new Set([...mine.map((r) => r.name), ...names(ref.kind, ref.namespace)])].toSorted();
      const place = ref.namespace === "" || ref.namespace === "default" ? "" : ` in namespace ${ref.namespace}`;
      return [
        {
          message: `${ref.kind} "${ref.name}" does not exist${place}`,
          path,
          object: `${object.kind}/${object.metadata.name}`,
          hint: suggest(ref.name, known, `${ref.kind}s`),
        },
      ];
    }),
  );
}
