// The one door to fast-json-patch, and what changed between two specs, field by field and item by item.
import { isDeepStrictEqual } from "node:util";
import jsonpatch from "fast-json-patch";
import type { Operation } from "fast-json-patch";
import { BeigeError } from "./errors.ts";
import { canonical, itemSchema, same, shape } from "./identity.ts";
import type { FieldChange } from "./kind.ts";
import { copy, normaliseSpec, record } from "./normalise.ts";
import { RESTARTED_AT } from "./resource.ts";
import { SCHEMAS, branch, isObject, member, schemaAt } from "./schema.ts";
import type { Schema, Schemas } from "./schema.ts";

/** Changed leaves of a spec, in schema order; empty when both mean the same. Missing sides are `undefined`. */
export function diffSpecs(kind: string, before: unknown, after: unknown, schemas: Schemas = SCHEMAS): readonly FieldChange[] {
  if (before === after) return [];
  const whole = schemas.get(kind);
  const schema = whole && schemaAt(whole, ["spec"]);
  const sides: Sides = {
    before: before === undefined ? undefined : normaliseSpec(kind, before, schemas),
    after: after === undefined ? undefined : normaliseSpec(kind, after, schemas),
  };
  return compare(sides, { schema, path: "", forces: false });
}

/** Changed labels and annotations, as `metadata.labels.team`. */
export function diffMetadata(
  before: { readonly labels?: object; readonly annotations?: object } | undefined,
  after: { readonly labels?: object; readonly annotations?: object } | undefined,
): readonly FieldChange[] {
  return (["labels", "annotations"] as const).flatMap((name) =>
    compare(
      { before: before?.[name] ?? {}, after: after?.[name] ?? {} },
      { schema: undefined, path: `metadata.${name}`, forces: false },
    ).map(
      // A restart is no matter of a schema.
      (field) => (field.path.endsWith(`[${RESTARTED_AT}]`) ? field : { ...field, impact: "live" as const }),
    ),
  );
}

/** Whether two specs mean the same: defaults, order of sets and spelling of quantities do not count. */
export function sameSpec(kind: string, a: unknown, b: unknown, schemas: Schemas = SCHEMAS): boolean {
  if (isDeepStrictEqual(a, b)) return true;
  const whole = schemas.get(kind);
  return same(normaliseSpec(kind, a, schemas), normaliseSpec(kind, b, schemas), whole && schemaAt(whole, ["spec"]));
}

/** A spec in its one spelling, for hashing. */
export function canonicalSpec(kind: string, spec: unknown, schemas: Schemas = SCHEMAS): unknown {
  const whole = schemas.get(kind);
  return canonical(normaliseSpec(kind, spec, schemas), whole && schemaAt(whole, ["spec"]));
}

interface Sides {
  readonly before: unknown;
  readonly after: unknown;
}
interface Place {
  readonly schema: Schema | undefined;
  readonly path: string;
  /** Whether a field above forces a replacement. */
  readonly forces: boolean;
  /** Of the field above. */
  readonly impact?: FieldImpact;
}
type FieldImpact = NonNullable<FieldChange["impact"]>;

function compare(sides: Sides, place: Place): readonly FieldChange[] {
  if (same(sides.before, sides.after, place.schema)) return [];
  const before = shape(sides.before, place.schema);
  const after = shape(sides.after, place.schema);
  const alike = place.schema?.["x-beige-alike"] ?? [];
  const light = alike.includes(sides.before) && alike.includes(sides.after);
  const said = light ? "live" : (place.schema?.["x-beige-impact"] ?? place.impact);
  const forces = place.forces || said === "replace";
  const impact = said === undefined ? {} : { impact: said };
  if (before.is === "set" && after.is === "set") return words(before.items, after.items, { ...place, ...impact, forces });
  if (before.is === "keyed" && after.is === "keyed") {
    const schema = itemSchema(place.schema);
    return names([...before.items.keys()], [...after.items.keys()]).flatMap((id) =>
      compare({ before: before.items.get(id), after: after.items.get(id) }, { schema, path: `${place.path}[${id}]`, ...impact, forces }),
    );
  }
  const maps = (before.is === "map" || sides.before === undefined) && (after.is === "map" || sides.after === undefined);
  // What came or went as a whole is shown as one change, except the spec itself.
  if (maps && (place.path === "" || (before.is === "map" && after.is === "map"))) {
    const keys = names(before.is === "map" ? before.keys : [], after.is === "map" ? after.keys : []);
    return ordered(keys, place.schema).flatMap((key) => {
      const pair = { before: own(sides.before, key), after: own(sides.after, key) };
      return compare(pair, {
        schema: place.schema && member(place.schema, key, pair.after ?? pair.before),
        path: step(place.path, key),
        ...impact,
        forces,
      });
    });
  }
  const whole = light ? undefined : heaviest(sides, place.schema);
  return [change(sides, { ...place, ...impact, ...(whole === undefined ? {} : { impact: whole }), forces: forces || whole === "replace" })];
}

const own = (value: unknown, key: string): unknown => (isObject(value) && Object.hasOwn(value, key) ? value[key] : undefined);
const names = (a: readonly string[], b: readonly string[]): readonly string[] => [...new Set([...a, ...b])];

/** Keys in the schema's order, the others by name: the same whatever the order in the files. */
function ordered(keys: readonly string[], schema: Schema | undefined): readonly string[] {
  const known = Object.keys((schema && branch(schema, {}).properties) ?? {});
  const rank = new Map(known.map((key, i) => [key, i]));
  return keys.toSorted((a, b) => (rank.get(a) ?? known.length) - (rank.get(b) ?? known.length) || (a < b ? -1 : 1));
}

const step = (path: string, key: string): string => {
  if (!/^[A-Za-z_][A-Za-z0-9_-]*$/.test(key)) return `${path}[${key}]`;
  return path === "" ? key : `${path}.${key}`;
};

function words(before: readonly string[], after: readonly string[], place: Place): readonly FieldChange[] {
  const gone = before.filter((word) => !after.includes(word)).map((word) => ({ before: word, after: undefined }));
  const came = after.filter((word) => !before.includes(word)).map((word) => ({ before: undefined, after: word }));
  return [...gone, ...came].map((sides) => change(sides, { ...place, path: `${place.path}[${sides.before ?? sides.after ?? ""}]` }));
}

const WEIGHT: readonly FieldImpact[] = ["live", "update", "replace"];

/** The greatest impact of the fields that came or went with a whole. */
function heaviest(sides: Sides, schema: Schema | undefined): FieldImpact | undefined {
  const found = [sides.before, sides.after].flatMap((value) => {
    if (!schema || !isObject(value)) return [];
    return Object.keys(value).flatMap((key) => {
      const inner = member(schema, key, value);
      return [inner?.["x-beige-impact"], heaviest({ before: undefined, after: value[key] }, inner)];
    });
  });
  return WEIGHT.findLast((impact) => found.includes(impact));
}

function change(sides: Sides, place: Place): FieldChange {
  return {
    path: place.path,
    ...(sides.before === undefined ? {} : { before: sides.before }),
    ...(sides.after === undefined ? {} : { after: sides.after }),
    ...(place.forces ? { forces: true } : {}),
    ...(place.forces ? { impact: "replace" } : place.impact === undefined ? {} : { impact: place.impact }),
  };
}

export type PatchOperation = Operation;

const UNSAFE = new Set(["__proto__", "constructor", "prototype"]);

/** RFC 6902 from one value to another. */
export const jsonPatch = (before: unknown, after: unknown): readonly PatchOperation[] =>
  jsonpatch
    .compare({ value: copy(before) } as object, { value: copy(after) } as object)
    .map((op) => ({ ...op, path: op.path.slice("/value".length) }));

/** Applies RFC 6902 to a copy. Throws `invalid` for a patch that does not fit or reaches for a prototype. */
export function applyJsonPatch(target: unknown, patch: unknown): unknown {
  if (!Array.isArray(patch)) throw new BeigeError("invalid", "json patch is not a list of operations");
  for (const [i, op] of patch.entries()) checkOperation(op, i);
  try {
    return jsonpatch.applyPatch(copy(target), copy(patch) as Operation[], true, true, true).newDocument;
  } catch (error) {
    const reason = error instanceof Error ? (error.message.split("\n")[0] ?? "") : String(error);
    throw new BeigeError("invalid", `json patch does not apply: ${reason}`);
  }
}

function checkOperation(op: unknown, index: number): void {
  const place = `operation ${String(index)} of the json patch`;
  if (!isObject(op)) throw new BeigeError("invalid", `${place} is no object`);
  for (const name of ["path", "from"] as const) {
    const path = op[name];
    if (path === undefined && name === "from") continue;
    if (typeof path !== "string") throw new BeigeError("invalid", `${place} has no ${name}`);
    const parts = path.split("/").map((p) => p.replaceAll("~1", "/").replaceAll("~0", "~"));
    if (parts.some((part) => UNSAFE.has(part))) throw new BeigeError("invalid", `${place} reaches for a prototype in its ${name}`);
  }
  if (unsafeKeys(op["value"])) throw new BeigeError("invalid", `${place} holds a key that is not allowed`);
}

const unsafeKeys = (value: unknown): boolean =>
  Array.isArray(value)
    ? value.some(unsafeKeys)
    : isObject(value) && Object.entries(value).some(([key, item]) => UNSAFE.has(key) || unsafeKeys(item));

/** RFC 7386 on a copy: null removes. Throws `invalid` for keys that reach for a prototype. */
export function mergePatch(target: unknown, patch: unknown): unknown {
  if (unsafeKeys(patch)) throw new BeigeError("invalid", "merge patch holds a key that is not allowed");
  return merge(target, patch);
}

function merge(target: unknown, patch: unknown): unknown {
  if (!isObject(patch)) return copy(patch);
  const members = new Map<string, unknown>(isObject(target) ? Object.entries(copy(target)) : []);
  for (const [key, value] of Object.entries(patch)) {
    if (value === null) members.delete(key);
    else members.set(key, merge(members.get(key), value));
  }
  return record(members);
}
