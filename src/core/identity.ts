// What is one thing in a spec: which lists have items with identity, what is replaced as a whole, and when two values mean the same.
import { isDeepStrictEqual } from "node:util";
import { canonicalJson } from "./fingerprint.ts";
import { canonicalQuantity } from "./quantity.ts";
import { branch, isObject, member } from "./schema.ts";
import type { Schema } from "./schema.ts";

export type Shape =
  /** Compared and owned as a whole. */
  | { readonly is: "leaf" }
  /** Key by key. */
  | { readonly is: "map"; readonly keys: readonly string[] }
  /** Each word by itself. */
  | { readonly is: "set"; readonly items: readonly string[] }
  /** Items by the value of their key. */
  | { readonly is: "keyed"; readonly key: string; readonly items: ReadonlyMap<string, Readonly<Record<string, unknown>>> };

const LEAF: Shape = { is: "leaf" };

/** How a value is taken apart. Lists whose items do not have the identity that the schema promises are leaves. */
export function shape(value: unknown, schema: Schema | undefined): Shape {
  const node = schema && branch(schema, value);
  if (node?.["x-beige-atomic"] === true) return LEAF;
  if (Array.isArray(value)) return listShape(value, node?.["x-beige-list"]);
  return isObject(value) ? { is: "map", keys: Object.keys(value) } : LEAF;
}

function listShape(value: readonly unknown[], identity: string | undefined): Shape {
  if (identity === undefined) return LEAF;
  if (identity === "set") {
    const words = value.filter((item) => typeof item === "string");
    return words.length === value.length ? { is: "set", items: [...new Set(words)] } : LEAF;
  }
  const items = new Map<string, Readonly<Record<string, unknown>>>();
  for (const item of value) {
    const id = isObject(item) ? item[identity] : undefined;
    if (!isObject(item) || typeof id !== "string" || items.has(id)) return LEAF;
    items.set(id, item);
  }
  return { is: "keyed", key: identity, items };
}

/** Schema of an item of a list or of a member of an object. */
export const inside = (schema: Schema | undefined, key: string, value: unknown): Schema | undefined =>
  schema && (schema.items && Array.isArray(value) ? branch(schema.items, undefined) : member(schema, key, value));

export const itemSchema = (schema: Schema | undefined): Schema | undefined => {
  const items = schema && branch(schema, []).items;
  return items && branch(items, {});
};

/** A value in its one spelling: sorted sets, quantities as numbers, keys in order. For comparing and hashing, not for showing. */
export function canonical(value: unknown, schema: Schema | undefined): unknown {
  const node = schema && branch(schema, value);
  const unit = node?.["x-beige-quantity"] ?? schema?.["x-beige-quantity"];
  if (unit !== undefined) return canonicalQuantity(unit, value);
  const parts = shape(value, schema);
  if (parts.is === "set") return parts.items.toSorted();
  if (Array.isArray(value)) {
    const items = itemSchema(node);
    const list = parts.is === "keyed" ? [...parts.items].toSorted(([a], [b]) => (a < b ? -1 : 1)).map(([, item]) => item) : value;
    return list.map((item: unknown) => canonical(item, items));
  }
  if (!isObject(value)) return value;
  return Object.fromEntries(Object.entries(value).map(([key, item]) => [key, canonical(item, node && member(node, key, value))]));
}

export const same = (a: unknown, b: unknown, schema: Schema | undefined): boolean =>
  // Most values that are compared are equal to the letter.
  a === b || isDeepStrictEqual(a, b) || canonicalJson(canonical(a, schema)) === canonicalJson(canonical(b, schema));
