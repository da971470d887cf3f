// Parts problems of a write in two: what the write brings refuses it; what was wrong before, in a field that it leaves alone, is only told.
import { isDeepStrictEqual } from "node:util";
import type { Problem } from "../core/errors.ts";
import { itemSchema, shape } from "../core/identity.ts";
import type { View } from "../core/kind.ts";
import { normalise } from "../core/normalise.ts";
import type { Resource } from "../core/resource.ts";
import { isObject, member, type Schema, type Schemas } from "../core/schema.ts";
import { pointerParts } from "../core/text.ts";
import type { Language } from "./language.ts";

/** What a problem is about, before and after a write. */
interface Spot {
  /** The path, with items by identity where they have one. */
  readonly key: string;
  readonly was: unknown;
  readonly now: unknown;
}

interface Sides {
  readonly kind: string;
  /** As stored. */
  readonly before: unknown;
  /** As it would be. */
  readonly after: unknown;
  readonly schemas: Schemas;
}

export interface Judged<P extends Problem = Problem> {
  readonly refused: readonly P[];
  /** Old ones, in fields that do not change. */
  readonly kept: readonly P[];
}

/** A check of fields together is taken for old only while this much around its field stays: `/spec/sandbox/mounts`, not one mount's source. */
const AROUND = 3;

/** The message with its items unnumbered: another item may have come before it. */
const unnumbered = (message: string): string => message.replaceAll(/\[\d+\]/g, "[]");

/** That a field is missing is said of what should hold it, which may well change otherwise. */
const MISSING = / has no \S+$/;

/** The same item in the list as it was, and how it is told from others. */
function itemOf(was: unknown, now: readonly unknown[], schema: Schema | undefined, part: string): Spot {
  const index = Number(part);
  const item = now[index];
  const parts = shape(now, schema);
  const old: readonly unknown[] = Array.isArray(was) ? was : [];
  if (parts.is === "keyed" && isObject(item)) {
    const id = item[parts.key];
    return { key: `[${String(id)}]`, now: item, was: old.find((each) => isObject(each) && each[parts.key] === id) };
  }
  if (parts.is === "set") return { key: `[${String(item)}]`, now: item, was: old.includes(item) ? item : undefined };
  return { key: `[${part}]`, now: item, was: old[index] };
}

const own = (value: unknown, key: string): unknown => (isObject(value) && Object.hasOwn(value, key) ? value[key] : undefined);

function spotOf(sides: Sides, path: readonly string[]): Spot {
  let at: Spot = { key: "", was: sides.before, now: sides.after };
  let schema = sides.schemas.get(sides.kind);
  for (const part of path) {
    const { key, was, now } = at;
    const list = Array.isArray(now);
    const next = list ? itemOf(was, now, schema, part) : { key: `/${part}`, was: own(was, part), now: own(now, part) };
    schema = list ? itemSchema(schema) : schema && member(schema, part, now);
    at = { ...next, key: key + next.key };
  }
  return at;
}

const keyOf = (sides: Sides, { path = "", message }: Problem): string => `${spotOf(sides, pointerParts(path)).key}\0${unnumbered(message)}`;

function unchanged(sides: Sides, { path = "", message }: Problem, whole: boolean): boolean {
  if (!whole && MISSING.test(message)) return true;
  const parts = pointerParts(path);
  const { was, now } = spotOf(sides, whole ? parts.slice(0, AROUND) : parts);
  return isDeepStrictEqual(was, now);
}

/**
 * `old` finds what is wrong with the object as it is stored, when that is needed. Problems of `fields` are of one field
 * each; those that are `together` may hang on others beside it.
 */
export function ratchet<P extends Problem>(
  problems: readonly P[],
  given: Sides & { readonly of: "fields" | "together"; readonly old: () => readonly Problem[] },
): Judged<P> {
  if (problems.length === 0 || given.before === undefined) return { refused: problems, kept: [] };
  const { kind, schemas } = given;
  const before = normalise(kind, given.before, schemas);
  const sides: Sides = { kind, schemas, before, after: normalise(kind, given.after, schemas) };
  const known = new Set(given.old().map((problem) => keyOf({ ...sides, after: before }, problem)));
  const isOld = (problem: P): boolean => known.has(keyOf(sides, problem)) && unchanged(sides, problem, given.of === "together");
  return { refused: problems.filter((each) => !isOld(each)), kept: problems.filter(isOld) };
}

/** What a kind finds wrong with an object as a whole. `old` are problems of its schema that were let pass. */
export function checkTogether(
  { check, schemas }: Pick<Language, "check" | "schemas">,
  { before, after, old }: { readonly before?: Resource; readonly after: Resource; readonly old: readonly Problem[] },
  views: { readonly before: View; readonly after: View },
): Judged {
  let found: readonly Problem[];
  try {
    found = check(after, views.after);
  } catch (error) {
    // Checks rely on the schema. What cannot be checked is not changed.
    if (old.length === 0) throw error;
    return isDeepStrictEqual(before?.spec, after.spec) ? { refused: [], kept: [] } : { refused: old, kept: [] };
  }
  const sides = { kind: after.kind, before, after, schemas };
  return ratchet(found, { ...sides, of: "together", old: () => (before === undefined ? [] : checked(check, before, views.before)) });
}

function checked(check: Language["check"], object: Resource, view: View): readonly Problem[] {
  try {
    return check(object, view);
  } catch {
    return [];
  }
}

/** For the writer: what was let pass. */
export const keptText = ({ message }: Problem): string => `${message} (as it was before; not changed)`;
