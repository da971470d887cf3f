// Who owns which field: server-side apply and plain updates, on leaf paths, as Kubernetes does it.
import { decodeFields, encodeFields, fieldSet, leaves, pathKey, showPath, startsWith } from "./fieldset.ts";
import type { FieldSet, Step } from "./fieldset.ts";
import { same, shape } from "./identity.ts";
import { copy } from "./normalise.ts";
import { getAt, removeAt, schemaOf, setAt } from "./place.ts";
import { API_VERSION } from "./resource.ts";
import type { ManagedFields } from "./resource.ts";
import { SCHEMAS, isObject } from "./schema.ts";
import type { Schema, Schemas } from "./schema.ts";

/** The part of an object that has owners. */
export interface Owned {
  readonly metadata?: { readonly labels?: object; readonly annotations?: object };
  readonly spec?: unknown;
}

export interface Conflict {
  readonly manager: string;
  readonly operation: "Apply" | "Update";
  /** Dotted, such as spec.model.id. */
  readonly path: string;
}

export interface ApplyInput {
  readonly kind: string;
  /** As stored, with defaults; absent for a new object. */
  readonly live?: Owned;
  readonly managedFields: readonly ManagedFields[];
  readonly manager: string;
  /** As sent, without defaults. */
  readonly applied: Owned;
  readonly force: boolean;
  /** RFC 3339. */
  readonly time: string;
  readonly schemas?: Schemas;
}

export interface ApplyOutput {
  /** Labels, annotations and spec afterwards, defaults of removed fields not yet filled in. */
  readonly merged: {
    readonly metadata: { readonly labels?: Record<string, string>; readonly annotations?: Record<string, string> };
    readonly spec: unknown;
  };
  readonly managedFields: readonly ManagedFields[];
  /** Without `force`, anything here means that nothing may be stored. */
  readonly conflicts: readonly Conflict[];
  /** Fields that went, since this manager no longer names them and nobody else does. */
  readonly removed: readonly string[];
}

interface Manager {
  readonly manager: string;
  readonly operation: "Apply" | "Update";
  readonly time: string;
  fields: FieldSet;
}

/** Server-side apply: sets what is named, removes what this manager named before and nobody else owns. */
export function applyOwned(input: ApplyInput): ApplyOutput {
  const schema = (input.schemas ?? SCHEMAS).get(input.kind);
  const root = ownedPart(input.live);
  const applied = ownedPart(input.applied);
  const managers = read(input.managedFields);
  const before = managers.find((m) => m.manager === input.manager && m.operation === "Apply");
  const others = managers.filter((m) => m !== before);
  const mine = fieldSet(leavesOf(applied, schema));
  const found = conflictsOf({ mine, applied, root, others, schema });
  if (found.length > 0 && !input.force) {
    return { merged: part(root), managedFields: input.managedFields, conflicts: shown(found), removed: [] };
  }
  for (const { other, path } of found) other.fields = without(other.fields, path);
  for (const path of mine.values()) put(root, path, applied, schema);
  const removed = drop(
    root,
    [...(before?.fields.values() ?? [])].filter((p) => !mine.has(pathKey(p))),
    [mine, ...others.map((o) => o.fields)],
  );
  const entry = entryOf({ manager: input.manager, operation: "Apply", time: input.time }, mine, before);
  return { merged: part(root), managedFields: write(managers, before, entry), conflicts: shown(found), removed: removed.map(showPath) };
}

export interface UpdateInput {
  readonly kind: string;
  /** As stored; absent for a new object. */
  readonly before?: Owned;
  /** As it will be stored, with defaults. */
  readonly after: Owned;
  /** As sent; a new object's fields are owned where they were sent. */
  readonly sent?: Owned;
  readonly managedFields: readonly ManagedFields[];
  readonly manager: string;
  readonly time: string;
  readonly schemas?: Schemas;
}

/** A plain write: the writer owns what it changed, whoever owned it before. */
export function updateOwned(input: UpdateInput): readonly ManagedFields[] {
  const schema = (input.schemas ?? SCHEMAS).get(input.kind);
  const managers = read(input.managedFields);
  const old = managers.find((m) => m.manager === input.manager && m.operation === "Update");
  const before = ownedPart(input.before);
  const after = ownedPart(input.after);
  const changed =
    input.before === undefined
      ? leavesOf(ownedPart(input.sent ?? input.after), schema)
      : leavesOf(after, schema).filter((path) => !equal(before, after, path, schema));
  const gone = leavesOf(before, schema).filter((path) => getAt(after, path) === undefined);
  for (const m of managers) {
    const lost = m === old ? gone : [...changed, ...gone];
    m.fields = fieldSet(
      [...m.fields.values()].filter((p) => !lost.some((l) => pathKey(l) === pathKey(p) || (gone.includes(l) && startsWith(p, l)))),
    );
  }
  if (changed.length === 0 && old === undefined) return write(managers, undefined, undefined);
  const fields = fieldSet([...(old?.fields.values() ?? []), ...changed]);
  return write(
    managers,
    old,
    entryOf({ manager: input.manager, operation: "Update", time: input.time }, fields, changed.length === 0 ? old : undefined),
  );
}

/** Leaves, as conflicts show them, that an object has just as another one has them. */
export function sameLeaves(
  kind: string,
  { before, after, schemas }: { readonly before: Owned; readonly after: Owned; readonly schemas?: Schemas },
): ReadonlySet<string> {
  const schema = (schemas ?? SCHEMAS).get(kind);
  const [old, now] = [ownedPart(before), ownedPart(after)];
  return new Set(
    leavesOf(old, schema)
      .filter((path) => equal(old, now, path, schema))
      .map(showPath),
  );
}

type Root = Record<string, unknown>;

/** A copy of the part that has owners. */
function ownedPart(object: Owned | undefined): Root {
  const metadata: Root = {};
  for (const name of ["labels", "annotations"] as const) {
    const value = object?.metadata?.[name];
    if (isObject(value)) metadata[name] = copy(value);
  }
  return { metadata, ...(object?.spec === undefined ? {} : { spec: copy(object.spec) }) };
}

const leavesOf = (root: Root, schema: Schema | undefined): readonly (readonly Step[])[] =>
  leaves(root, schema).filter((path) => path.length > 1 || (path[0] === "f:spec" && !isObject(root["spec"])));

function part(root: Root): ApplyOutput["merged"] {
  const { labels, annotations } = root["metadata"] as { labels?: Record<string, string>; annotations?: Record<string, string> };
  return { metadata: { ...(labels ? { labels } : {}), ...(annotations ? { annotations } : {}) }, spec: root["spec"] ?? {} };
}

const read = (entries: readonly ManagedFields[]): Manager[] =>
  entries.map((e) => ({ manager: e.manager, operation: e.operation, time: e.time, fields: decodeFields(e.fieldsV1) }));

/** The time moves only when the set does. */
function entryOf(who: Omit<Manager, "fields">, fields: FieldSet, before: Manager | undefined): Manager | undefined {
  if (fields.size === 0) return undefined;
  const kept = before !== undefined && before.fields.size === fields.size && [...fields.keys()].every((key) => before.fields.has(key));
  return { ...who, time: kept ? before.time : who.time, fields };
}

function write(managers: readonly Manager[], replaced: Manager | undefined, entry: Manager | undefined): readonly ManagedFields[] {
  const list = managers.flatMap((m) => (m === replaced ? (entry ? [entry] : []) : [m]));
  if (replaced === undefined && entry) list.push(entry);
  return list
    .filter((m) => m.fields.size > 0)
    .map((m) => ({
      manager: m.manager,
      operation: m.operation,
      apiVersion: API_VERSION,
      time: m.time,
      fieldsType: "FieldsV1",
      fieldsV1: encodeFields(m.fields),
    }));
}

interface Found {
  readonly other: Manager;
  readonly path: readonly Step[];
}

const shown = (found: readonly Found[]): readonly Conflict[] =>
  found.map(({ other, path }) => ({ manager: other.manager, operation: other.operation, path: showPath(path) }));

interface Sides {
  readonly mine: FieldSet;
  readonly applied: Root;
  readonly root: Root;
  readonly others: readonly Manager[];
  readonly schema: Schema | undefined;
}

/** Fields of others that would change. */
function conflictsOf({ mine, applied, root, others, schema }: Sides): readonly Found[] {
  const changing = [...mine.values()].filter((path) => !equal(root, applied, path, schema) && !isPresence(applied, path, schema));
  const filled = [...mine.values()].filter((path) => isPresence(applied, path, schema) && opposes(root, path, schema));
  return others.flatMap((other) =>
    [...other.fields.values()].flatMap((path): Found[] => {
      const hit = [...changing, ...filled].some((p) => startsWith(path, p) || (startsWith(p, path) && !isPresence(root, path, schema)));
      return hit ? [{ other, path }] : [];
    }),
  );
}

/** A path that only says that something is there: an item, a word, an empty mapping or list whose members are owned one by one. */
function isPresence(root: Root, path: readonly Step[], schema: Schema | undefined): boolean {
  const last = path.at(-1) ?? "";
  if (last.startsWith("k:") || last.startsWith("v:")) return true;
  const value = getAt(root, path);
  return value !== undefined && shape(value, schemaOf(schema, path)).is !== "leaf";
}

/** Whether something of another shape stands where a mapping or list is to be. */
function opposes(root: Root, path: readonly Step[], schema: Schema | undefined): boolean {
  const value = getAt(root, path);
  return value !== undefined && !/^[kv]:/.test(path.at(-1) ?? "") && shape(value, schemaOf(schema, path)).is === "leaf";
}

function equal(a: Root, b: Root, path: readonly Step[], schema: Schema | undefined): boolean {
  const [left, right] = [getAt(a, path), getAt(b, path)];
  if (left === undefined || right === undefined) return left === right;
  if (/^[kv]:/.test(path.at(-1) ?? "")) return true;
  return same(left, right, schemaOf(schema, path));
}

const without = (fields: FieldSet, path: readonly Step[]): FieldSet =>
  fieldSet([...fields.values()].filter((p) => pathKey(p) !== pathKey(path)));

/** Sets one leaf; what is there and means the same is left as it is. */
function put(root: Root, path: readonly Step[], applied: Root, schema: Schema | undefined): void {
  if (equal(root, applied, path, schema)) return;
  const value = getAt(applied, path);
  const last = path.at(-1) ?? "";
  if (!last.startsWith("k:") && isPresence(applied, path, schema) && getAt(root, path) !== undefined && !opposes(root, path, schema))
    return;
  setAt(root, path, last.startsWith("k:") ? undefined : value);
}

/** Removes paths that nobody owns any more, with whatever of their parents nobody owns: only defaults are left in those. */
function drop(root: Root, paths: readonly (readonly Step[])[], owned: readonly FieldSet[]): readonly (readonly Step[])[] {
  const keep = owned.flatMap((fields) => [...fields.values()]);
  const free = (path: readonly Step[]): boolean => !keep.some((p) => startsWith(p, path));
  return paths.filter((path) => {
    if (!free(path)) return false;
    let top = path;
    while (top.length > 2 && free(top.slice(0, -1))) top = top.slice(0, -1);
    removeAt(root, top);
    return true;
  });
}
