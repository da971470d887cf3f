// Fills in every default and drops what beige itself writes, on a copy: the same for get, diff, hash and plan.
import { SCHEMAS, branch, isObject, member, schemaAt } from "./schema.ts";
import type { Schema, Schemas } from "./schema.ts";

/** Deep copy of JSON data without prototype keys. */
export function copy<T>(value: T): T {
  if (Array.isArray(value)) return value.map((item: unknown) => copy(item)) as T;
  if (!isObject(value)) return value;
  return record(Object.entries(value).map(([key, item]) => [key, copy(item)])) as T;
}

/** An object of own data members; a key named __proto__ cannot change it. */
export function record(members: Iterable<readonly [string, unknown]>): Record<string, unknown> {
  const made: Record<string, unknown> = {};
  for (const [key, value] of members) Object.defineProperty(made, key, { value, enumerable: true, configurable: true, writable: true });
  return made;
}

/** A value with the defaults of a schema; what does not fit the schema stays as it is. */
export function withDefaults(schema: Schema, value: unknown): unknown {
  const node = branch(schema, value);
  if (Array.isArray(value)) {
    const items = node.items;
    return items ? value.map((item: unknown) => withDefaults(items, item)) : copy(value);
  }
  if (!isObject(value)) return value;
  const members: [string, unknown][] = [];
  for (const [key, own] of Object.entries(node.properties ?? {})) {
    if (Object.hasOwn(value, key) && value[key] !== undefined) members.push([key, withDefaults(own, value[key])]);
    else if (own.default !== undefined) members.push([key, withDefaults(own, copy(own.default))]);
  }
  for (const [key, item] of Object.entries(value)) {
    if (item === undefined || (node.properties && Object.hasOwn(node.properties, key))) continue;
    const own = member(node, key, value);
    members.push([key, own ? withDefaults(own, item) : copy(item)]);
  }
  return record(members);
}

/** What a whole write leaves out and is kept as it is stored. */
function withKept(schema: Schema, value: unknown, before: unknown): unknown {
  if (!isObject(before) || !(value === undefined || isObject(value))) return value;
  let kept = value;
  for (const [key, own] of Object.entries(branch(schema, before).properties ?? {})) {
    const named = value?.[key];
    const stays = own["x-beige-keeps"] === true && named === undefined;
    const next = stays ? before[key] : withKept(own, named, before[key]);
    if (next !== named) kept = record([...Object.entries(kept ?? {}), [key, next]]);
  }
  return kept;
}

/** A spec that is to stand for another one, as it was sent. */
export function keepSpec(kind: string, spec: unknown, before: unknown, schemas: Schemas = SCHEMAS): unknown {
  const schema = schemas.get(kind);
  const at = schema && schemaAt(schema, ["spec"]);
  return at ? withKept(at, spec, before) : spec;
}

/** A spec with every default. Idempotent; unknown kinds are copied. */
export function normaliseSpec(kind: string, spec: unknown, schemas: Schemas = SCHEMAS): unknown {
  const schema = schemas.get(kind);
  const at = schema && schemaAt(schema, ["spec"]);
  return at ? withDefaults(at, spec ?? {}) : copy(spec);
}

/** A whole object: server fields dropped, spec normalised. */
export function normalise(kind: string, value: unknown, schemas: Schemas = SCHEMAS): Record<string, unknown> {
  const wanted = withoutServerFields(value);
  if (!isObject(wanted)) return {};
  return { ...wanted, spec: normaliseSpec(kind, wanted["spec"], schemas) };
}

/** Metadata that the gateway writes: what a client read and sends back is no mistake. */
export const SERVER_METADATA: ReadonlySet<string> = new Set([
  "uid",
  "resourceVersion",
  "generation",
  "creationTimestamp",
  "deletionTimestamp",
  "deletionGracePeriodSeconds",
  "finalizers",
  "ownerReferences",
  "managedFields",
  "selfLink",
]);

/** Without status and the metadata that beige writes, so that what `get` prints can be applied. Unknown fields stay, to be refused. */
export function withoutServerFields(value: unknown): unknown {
  if (!isObject(value)) return value;
  return record(
    Object.entries(value).flatMap(([key, item]): [string, unknown][] => {
      if (key === "status") return [];
      if (key !== "metadata" || !isObject(item)) return [[key, item]];
      const kept = Object.entries(item).filter(([name, part]) => !(SERVER_METADATA.has(name) || (name === "namespace" && part === "")));
      return [[key, record(kept)]];
    }),
  );
}
