// The next version of an object: which of its metadata moves when something of it is written.
import { isDeepStrictEqual } from "node:util";
import { adoptionOf } from "../core/adoption.ts";
import { uid10 } from "../core/paths.ts";
import { API_VERSION, type ManagedFields, type Ref, type Resource } from "../core/resource.ts";

/** What a writer decides; all else is the store's. */
export interface Content {
  /** Normalised. */
  readonly spec: unknown;
  readonly labels?: Readonly<Record<string, string>>;
  readonly annotations?: Readonly<Record<string, string>>;
  readonly managedFields: readonly ManagedFields[];
}

const filled = <K extends string, V extends object>(key: K, value: V | undefined): Partial<Record<K, V>> =>
  value === undefined || Object.keys(value).length === 0 ? {} : ({ [key]: value } as Partial<Record<K, V>>);

export interface Birth {
  readonly uid: string;
  /** Milliseconds since the epoch. */
  readonly now: number;
  readonly finalizer?: string;
}

/**
 * The uid of a new object. One that takes over what a lost store left goes on under the uid that it had, since folders and sockets
 * are named by it; unless something has it, or comes near it in a folder's name.
 */
export function birthUid(
  { kind }: Ref,
  metadata: Pick<Content, "annotations">,
  deps: { readonly taken: () => readonly Resource[]; readonly uuid: () => string },
): string {
  const adoption = kind === "Agent" ? adoptionOf(metadata) : undefined;
  if (adoption?.kind !== "lost") return deps.uuid();
  const near = deps.taken().some((other) => uid10(other.metadata.uid) === uid10(adoption.uid));
  return near ? deps.uuid() : adoption.uid;
}

/** An object that was not there. Its resourceVersion is the store's to write. */
export function newObject(ref: Ref, content: Content, birth: Birth): Resource {
  const { spec, labels, annotations, managedFields } = content;
  return {
    apiVersion: API_VERSION,
    kind: ref.kind,
    metadata: {
      name: ref.name,
      namespace: ref.namespace,
      uid: birth.uid,
      resourceVersion: "0",
      generation: 1,
      ...filled("labels", labels),
      ...filled("annotations", annotations),
      ...(birth.finalizer === undefined ? {} : { finalizers: [birth.finalizer] }),
      ...filled("managedFields", managedFields),
      creationTimestamp: new Date(birth.now).toISOString(),
    },
    spec,
  };
}

/** The generation moves with what the spec means, and with nothing else: another spelling of the same is not even stored. */
export function changedObject(before: Resource, content: Content, sameSpec: boolean): Resource {
  const { labels: _labels, annotations: _annotations, managedFields: _fields, ...metadata } = before.metadata;
  return {
    ...before,
    metadata: {
      ...metadata,
      generation: metadata.generation + (sameSpec ? 0 : 1),
      ...filled("labels", content.labels),
      ...filled("annotations", content.annotations),
      ...filled("managedFields", content.managedFields),
    },
    spec: sameSpec ? before.spec : content.spec,
  };
}

const comparable = (object: Resource, status: boolean): unknown => {
  const { status: own, ...rest } = object;
  return { ...rest, metadata: { ...rest.metadata, resourceVersion: "" }, ...(status ? { status: own } : {}) };
};

/** Whether a write would change anything that the store keeps. */
export const sameObject = (a: Resource, b: Resource): boolean => isDeepStrictEqual(comparable(a, true), comparable(b, true));

/** Whether nothing but the status moved between the two. */
export const sameButStatus = (a: Resource | undefined, b: Resource | undefined): boolean =>
  a === undefined || b === undefined ? a === b : isDeepStrictEqual(comparable(a, false), comparable(b, false));
