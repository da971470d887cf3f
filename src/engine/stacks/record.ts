// What is kept of a Source's accepted revision: which one it is, what it owned then, and its text.
import { lostFields, SOURCE } from "../../core/guard.ts";
import type { FieldChange } from "../../core/kind.ts";
import { refKey, refName, type Ref, type Resource } from "../../core/resource.ts";
import { BEING_DELETED, type StackRecord, type StackRequest } from "../../core/source.ts";
import type { Shelf } from "../../core/world.ts";
import type { Store } from "../store.ts";

/** Fields that the Source owned of each object, as FieldsV1. */
export type Owned = readonly { readonly ref: Ref; readonly fields: object }[];

export interface Records {
  get(source: string): StackRecord | undefined;
  owned(source: string): Owned;
  request(source: string): StackRequest | undefined;
  put(source: string, record: StackRecord, more: { readonly owned: Owned; readonly request: StackRequest }): void;
  forget(source: string): void;
  names(): readonly string[];
}

/** The text of a larger revision is not kept: its drift waits for the next good one. */
const REQUEST_CHARS_MAX = 16 * 1024 * 1024;
const PREFIX = "source/";

export const managerOf = (source: string): string => `${SOURCE}${source}`;

/** Each value is parsed once as long as it does not change. */
export function createRecords(shelf: Shelf): Records {
  const parsed = new Map<string, { readonly text: string; readonly value: unknown }>();
  function read(key: string): unknown {
    const text = shelf.get(key);
    if (text === undefined) return undefined;
    const known = parsed.get(key);
    if (known?.text === text) return known.value;
    const value: unknown = JSON.parse(text);
    parsed.set(key, { text, value });
    return value;
  }
  const keys = (source: string) => ({
    record: `${PREFIX}${source}/record`,
    owned: `${PREFIX}${source}/owned`,
    request: `${PREFIX}${source}/request`,
  });
  return {
    get: (source) => read(keys(source).record) as StackRecord | undefined,
    owned: (source) => (read(keys(source).owned) as Owned | undefined) ?? [],
    request(source) {
      const text = shelf.get(keys(source).request);
      return text === undefined ? undefined : (JSON.parse(text) as StackRequest);
    },
    put(source, record, { owned, request }) {
      const key = keys(source);
      const text = JSON.stringify(request);
      if (text.length <= REQUEST_CHARS_MAX) shelf.set(key.request, text);
      else shelf.delete(key.request);
      shelf.set(key.owned, JSON.stringify(owned));
      shelf.set(key.record, JSON.stringify(record), true);
    },
    forget(source) {
      for (const key of Object.values(keys(source))) {
        shelf.delete(key);
        parsed.delete(key);
      }
    },
    names: () => [...new Set(shelf.list(PREFIX).map(({ key }) => key.split("/")[1] ?? ""))],
  };
}

const DRIFT_MAX = 100;

const ownFields = (object: Resource, source: string): object | undefined =>
  object.metadata.managedFields?.find(({ manager, operation }) => manager === managerOf(source) && operation === "Apply")?.fieldsV1;

/** What the Source owns of these objects now. */
export const ownedNow = (store: Store, source: string, refs: readonly Ref[]): Owned =>
  refs.flatMap((ref) => {
    const object = store.objects.get(ref);
    const fields = object === undefined ? undefined : ownFields(object, source);
    return fields === undefined ? [] : [{ ref, fields }];
  });

/** Objects that are gone, and fields that others own now. */
export function driftOf(store: Store, source: string, owned: Owned): readonly FieldChange[] {
  const found: FieldChange[] = [];
  for (const { ref, fields } of owned) {
    if (found.length >= DRIFT_MAX) break;
    const object = store.objects.get(ref);
    if (object === undefined) found.push({ path: refName(ref), after: "deleted" });
    else if (object.metadata.deletionTimestamp !== undefined) found.push({ path: refName(ref), after: BEING_DELETED });
    else {
      const now = ownFields(object, source);
      if (now === fields || JSON.stringify(now) === JSON.stringify(fields)) continue;
      found.push(...lostFields(fields, now).map((path) => ({ path: `${refName(ref)} ${path}` })));
    }
  }
  return found;
}

/** Whether a field was this Source's when its revision was accepted. */
export function wasOwned(owned: Owned): (ref: Ref, path: string) => boolean {
  const fields = new Map(owned.map((one) => [refKey(one.ref), one.fields]));
  const paths = new Map<string, ReadonlySet<string>>();
  return (ref, path) => {
    const key = refKey(ref);
    const known = paths.get(key) ?? new Set(lostFields(fields.get(key), undefined));
    paths.set(key, known);
    return known.has(path);
  };
}
