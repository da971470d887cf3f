// A parsed document, free of any parser: what values are built from and positions are found in.

export interface Scalar {
  readonly kind: "scalar";
  /** Where it starts and ends in the text, quotes included. */
  readonly offset: number;
  readonly end: number;
  readonly value: string | number | boolean | null;
}
export interface Pair {
  readonly key: string;
  readonly keyOffset: number;
  readonly value: Tree;
}
export interface MapTree {
  readonly kind: "map";
  readonly offset: number;
  readonly pairs: readonly Pair[];
}
export interface SeqTree {
  readonly kind: "seq";
  readonly offset: number;
  readonly items: readonly Tree[];
}
/** Aliases and merges are resolved: an anchored tree is shared, and how much all sharing adds up to was limited before. */
export type Tree = Scalar | MapTree | SeqTree;

/** A fault of the text at an offset. */
export interface TextFault {
  readonly offset: number;
  readonly message: string;
  readonly hint?: string;
}

/** The last pair of a key: keys are unique by the time that trees are made. */
export const pairOf = (tree: Tree | undefined, key: string): Pair | undefined =>
  tree?.kind === "map" ? tree.pairs.find((p) => p.key === key) : undefined;

/** Text of a scalar below a path; undefined when it is something else. */
export function textAt(tree: Tree | undefined, ...path: readonly string[]): string | undefined {
  let at: Tree | undefined = tree;
  for (const key of path) at = pairOf(at, key)?.value;
  return at?.kind === "scalar" && typeof at.value === "string" ? at.value : undefined;
}

/** The value of a tree as it is, nothing substituted. */
export function plainValue(tree: Tree): unknown {
  if (tree.kind === "scalar") return tree.value;
  return tree.kind === "seq" ? tree.items.map(plainValue) : Object.fromEntries(tree.pairs.map((p) => [p.key, plainValue(p.value)]));
}

/** Offset of the key or the value at a path; of the nearest that exists when it is missing. */
export function offsetAt(tree: Tree | undefined, parts: readonly string[], what: "key" | "value"): number {
  let at: Tree | undefined = tree;
  let key = tree?.offset ?? 0;
  let value = key;
  for (const part of parts) {
    const pair = pairOf(at, part);
    const next: Tree | undefined = pair?.value ?? (at?.kind === "seq" && /^[0-9]+$/.test(part) ? at.items[Number(part)] : undefined);
    if (next === undefined) return key;
    at = next;
    value = next.offset;
    key = pair?.keyOffset ?? value;
  }
  return what === "key" ? key : value;
}

export interface Lines {
  readonly place: (offset: number) => { readonly line: number; readonly column: number };
  readonly line: (number: number) => string;
}

/** Lines and columns of a text, both from 1. */
export function lines(text: string): Lines {
  const starts = [0];
  for (let at = text.indexOf("\n"); at !== -1; at = text.indexOf("\n", at + 1)) starts.push(at + 1);
  const place = (offset: number): { line: number; column: number } => {
    let low = 0;
    let high = starts.length - 1;
    while (low < high) {
      const middle = (low + high + 1) >> 1;
      if ((starts[middle] ?? 0) <= offset) low = middle;
      else high = middle - 1;
    }
    return { line: low + 1, column: offset - (starts[low] ?? 0) + 1 };
  };
  const line = (number: number): string => {
    const from = starts[number - 1];
    return from === undefined ? "" : text.slice(from, (starts[number] ?? text.length + 1) - 1).replace(/\r$/, "");
  };
  return { place, line };
}
