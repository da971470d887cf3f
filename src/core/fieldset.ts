// Sets of leaf paths, and how they are written on the wire: FieldsV1 of Kubernetes.
import { shape, itemSchema } from "./identity.ts";
import { isObject, member } from "./schema.ts";
import type { Schema } from "./schema.ts";

/** `f:NAME` a member, `k:{"id":"x"}` a list item by key, `v:"x"` a word of a set. */
export type Step = string;
/** Paths by their JSON. A path that ends in `k:` is the item itself; its fields have paths of their own. */
export type FieldSet = ReadonlyMap<string, readonly Step[]>;

export const pathKey = (path: readonly Step[]): string => JSON.stringify(path);
export const fieldSet = (paths: Iterable<readonly Step[]>): FieldSet => new Map([...paths].map((p) => [pathKey(p), p]));

export const keyStep = (key: string, id: string): Step => `k:${JSON.stringify({ [key]: id })}`;
export const wordStep = (word: string): Step => `v:${JSON.stringify(word)}`;

/** Every leaf of a value. An empty mapping or list is a leaf itself. */
export function leaves(value: unknown, schema: Schema | undefined, at: readonly Step[] = []): readonly (readonly Step[])[] {
  const parts = shape(value, schema);
  if (parts.is === "leaf") return [at];
  if (parts.is === "set") return parts.items.length === 0 ? [at] : parts.items.map((word) => [...at, wordStep(word)]);
  if (parts.is === "map") {
    const own = (key: string): unknown => (value as Record<string, unknown>)[key];
    if (parts.keys.length === 0) return [at];
    return parts.keys.flatMap((key) => leaves(own(key), schema && member(schema, key, value), [...at, `f:${key}`]));
  }
  if (parts.items.size === 0) return [at];
  const items = itemSchema(schema);
  return [...parts.items].flatMap(([id, item]) => {
    const path = [...at, keyStep(parts.key, id)];
    return [path, ...leaves(item, items, path)];
  });
}

/** As managedFields carry it. */
export function encodeFields(fields: FieldSet): object {
  const root: Record<string, unknown> = {};
  for (const path of fields.values()) {
    let node = root;
    for (const step of path) {
      const next = Object.hasOwn(node, step) ? node[step] : undefined;
      node = isObject(next) ? next : (node[step] = {} as Record<string, unknown>);
    }
  }
  // An item that is owned besides its fields, and a mapping that is owned and has owned members, are marked by ".".
  for (const path of fields.values()) {
    let node: Record<string, unknown> = root;
    for (const step of path) node = node[step] as Record<string, unknown>;
    if (Object.keys(node).some((step) => step !== ".")) node["."] = {};
  }
  return root;
}

/** Tolerant: what is no FieldsV1 is no path. */
export function decodeFields(fieldsV1: unknown): FieldSet {
  const paths: (readonly Step[])[] = [];
  const visit = (node: unknown, path: readonly Step[]): void => {
    if (!isObject(node) || path.length > 100) return;
    const steps = Object.keys(node).filter((step) => step !== ".");
    if ((steps.length === 0 || Object.hasOwn(node, ".")) && path.length > 0) paths.push(path);
    for (const step of steps) if (/^[fkv]:/.test(step)) visit(node[step], [...path, step]);
  };
  visit(fieldsV1, []);
  return fieldSet(paths);
}

/** For people: `spec.mounts[/data].readOnly`. */
export function showPath(path: readonly Step[]): string {
  return path.reduce((text, step) => {
    const rest = step.slice(2);
    if (step.startsWith("f:"))
      return /^[A-Za-z_][A-Za-z0-9_-]*$/.test(rest) ? (text === "" ? rest : `${text}.${rest}`) : `${text}[${rest}]`;
    const parsed: unknown = JSON.parse(rest);
    return `${text}[${isObject(parsed) ? Object.values(parsed).map(String).join(",") : String(parsed)}]`;
  }, "");
}

/** Whether one path is the other or lies inside it. */
export const startsWith = (path: readonly Step[], prefix: readonly Step[]): boolean =>
  path.length >= prefix.length && prefix.every((step, i) => step === path[i]);
