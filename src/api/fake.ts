// For tests: an in-memory engine that keeps the promises of Control.
import type { ApplyEvent, Control, KindInfo, ListOptions, WatchEvent, WriteRequest } from "../core/control.ts";
import { BeigeError } from "../core/errors.ts";
import { API_VERSION, nsName, refKey, type Ref, type Resource } from "../core/resource.ts";

const columns: KindInfo["columns"] = [
  { name: "Name", priority: 0, description: "", value: (o) => o.metadata.name },
  {
    name: "Age",
    priority: 0,
    description: "",
    value: (o, now) => `${Math.round((now - Date.parse(o.metadata.creationTimestamp)) / 1000)}s`,
  },
  { name: "Generation", priority: 1, description: "", value: (o) => o.metadata.generation },
];
export const KINDS: readonly KindInfo[] = [
  { kind: "Agent", plural: "agents", short: ["ag"], namespaced: true, schema: {}, columns },
  { kind: "Provider", plural: "providers", short: ["pr"], namespaced: false, schema: {}, columns },
];

export interface FakeControl extends Control {
  /** Writes past the API, as the engine does. */
  put(
    kind: string,
    name: string,
    spec?: object,
    more?: { namespace?: string; labels?: Record<string, string>; finalizers?: string[] },
  ): Resource;
  /** Forgets history up to here, so that older watches expire. */
  compact(): void;
  readonly watching: { count: number };
  ready: boolean;
  applies: readonly ApplyEvent[] | ((signal: AbortSignal) => AsyncIterable<ApplyEvent>);
  /** Every write that reached the engine. */
  readonly writes: WriteRequest[];
}

type Change = { readonly at: number; readonly event: Extract<WatchEvent, { object: Resource }> };

export function fakeControl(): FakeControl {
  const objects = new Map<string, Resource>();
  const history: Change[] = [];
  const listeners = new Set<() => void>();
  let version = 100;
  let oldest = 0;

  const record = (type: "ADDED" | "MODIFIED" | "DELETED", object: Resource): Resource => {
    const stamped = { ...object, metadata: { ...object.metadata, resourceVersion: String(++version) } };
    if (type === "DELETED") objects.delete(keyOf(object));
    else objects.set(keyOf(object), stamped);
    history.push({ at: version, event: { type, object: stamped } });
    for (const wake of listeners) wake();
    return stamped;
  };
  const must = (ref: Ref): Resource => {
    const object = objects.get(refKey(ref));
    if (object === undefined)
      throw new BeigeError("not_found", `${ref.kind.toLowerCase()} "${nsName(ref.namespace, ref.name)}" not found`, { hint: "beige get" });
    return object;
  };
  const matches = (kind: string, o: ListOptions): ((r: Resource) => boolean) => {
    if (o.labelSelector?.includes("!!") === true) throw new BeigeError("invalid", `bad selector ${o.labelSelector}`);
    const label = o.labelSelector?.split("=");
    return (r) =>
      r.kind === kind &&
      (o.namespace === undefined || r.metadata.namespace === o.namespace) &&
      (label === undefined || r.metadata.labels?.[label[0] ?? ""] === label[1]) &&
      (o.fieldSelector === undefined || o.fieldSelector === `metadata.name=${r.metadata.name}`);
  };
  const control: FakeControl = {
    ready: true,
    applies: [],
    writes: [],
    watching: { count: 0 },
    put(kind, name, spec = {}, more = {}) {
      const namespace = kind === "Agent" ? (more.namespace ?? "default") : "";
      const old = objects.get(refKey({ kind, namespace, name }));
      const metadata = {
        ...fresh({ kind, namespace, name }, (old?.metadata.generation ?? 0) + 1),
        ...(more.labels !== undefined && { labels: more.labels }),
        ...(more.finalizers !== undefined && { finalizers: more.finalizers }),
      };
      return record(old === undefined ? "ADDED" : "MODIFIED", { apiVersion: API_VERSION, kind, metadata, spec });
    },
    compact() {
      oldest = version;
      history.length = 0;
    },
    kinds: () => KINDS,
    get: must,
    list(kind, options) {
      return { items: [...objects.values()].filter(matches(kind, options)), resourceVersion: String(version) };
    },
    async *watch(kind, options, signal) {
      const ours = matches(kind, options);
      control.watching.count++;
      try {
        let seen = options.resourceVersion === undefined ? version : Number(options.resourceVersion);
        if (options.resourceVersion === undefined)
          for (const object of [...objects.values()].filter(ours)) yield [{ type: "ADDED", object }];
        while (!signal.aborted) {
          if (seen < oldest) {
            yield [{ type: "EXPIRED" }];
            return;
          }
          for (const change of history.filter((c) => c.at > seen)) {
            seen = change.at;
            if (ours(change.event.object)) yield [change.event];
          }
          if (options.bookmarks === true) yield [{ type: "BOOKMARK", resourceVersion: String(seen) }];
          await woken(listeners, signal, () => version > seen);
        }
      } finally {
        control.watching.count--;
      }
    },
    async write(request) {
      control.writes.push(request);
      return writeTo(request, { objects, record, must });
    },
    async delete(ref, options) {
      const object = must(ref);
      if (options.uid !== undefined && options.uid !== object.metadata.uid) throw new BeigeError("conflict", "the uid differs");
      if (options.dryRun) return object;
      if ((object.metadata.finalizers ?? []).length > 0 && !options.force)
        return record("MODIFIED", { ...object, metadata: { ...object.metadata, deletionTimestamp: "2026-03-05T00:00:00Z" } });
      return record("DELETED", { ...object, metadata: { ...object.metadata, finalizers: [] } });
    },
    async *apply(request, signal) {
      if (typeof control.applies === "function") yield* control.applies(signal);
      else yield* control.applies;
      yield { type: "end", exit: 0, applied: request.files.length, unchanged: 0, failed: 0, message: "done" };
    },
    async describe(ref) {
      return {
        object: must(ref),
        plan: { ref, verb: "unchanged", why: [], fields: [], drift: [], actions: [] },
        events: [],
        revisions: [],
      };
    },
    revisions(ref) {
      const { metadata, spec } = must(ref);
      return [{ revision: metadata.generation, at: metadata.creationTimestamp, manager: "test", fields: [], spec }];
    },
    events: (filter) =>
      [...objects.values()]
        .filter((o) => filter.ref === undefined || refKey(filter.ref) === keyOf(o))
        .slice(0, filter.limit)
        .map((o) => ({
          name: `e.${o.metadata.name}`,
          ref: refOf(o),
          uid: o.metadata.uid,
          type: "Normal",
          reason: "Created",
          message: "",
          count: 1,
          first: "",
          last: "",
        })),
    version: () => String(version),
    settled: () => control.ready,
  };
  return control;
}

const refOf = (o: Resource): Ref => ({ kind: o.kind, namespace: o.metadata.namespace, name: o.metadata.name });
const keyOf = (o: Resource): string => refKey(refOf(o));
const fresh = (ref: Ref, generation: number): Resource["metadata"] => ({
  name: ref.name,
  namespace: ref.namespace,
  uid: `uid-${ref.kind}-${nsName(ref.namespace, ref.name)}`,
  resourceVersion: "0",
  generation,
  creationTimestamp: "2026-03-05T00:00:00Z",
});

function woken(listeners: Set<() => void>, signal: AbortSignal, already: () => boolean): Promise<void> {
  if (signal.aborted || already()) return Promise.resolve();
  return new Promise((resolve) => {
    const done = (): void => {
      listeners.delete(done);
      signal.removeEventListener("abort", done);
      resolve();
    };
    listeners.add(done);
    signal.addEventListener("abort", done);
  });
}

interface Books {
  readonly objects: ReadonlyMap<string, Resource>;
  record(type: "ADDED" | "MODIFIED", object: Resource): Resource;
  must(ref: Ref): Resource;
}

function writeTo(request: WriteRequest, books: Books): Awaited<ReturnType<Control["write"]>> {
  const { ref, op } = request;
  const body = request.body as { readonly spec?: Record<string, unknown> };
  const old = books.objects.get(refKey(ref));
  if (op === "create" && old !== undefined) throw new BeigeError("conflict", `${ref.kind.toLowerCase()} "${ref.name}" is there already`);
  if (op === "update" || op === "merge") books.must(ref);
  if (body.spec?.bad !== undefined)
    throw new BeigeError("invalid", "the object is invalid", {
      problems: [{ message: 'unknown field "bad"', path: "/spec/bad/0", hint: 'did you mean "good"?' }],
    });
  if (body.spec?.owned !== undefined && !request.force)
    throw new BeigeError("conflict", "somebody else owns a field", {
      problems: [{ message: 'conflict with "apply/default" using beige.dev/v1', path: "/spec/owned" }],
      hint: "--force-conflicts",
    });
  if (body.spec?.boom !== undefined) throw new TypeError("planted-secret leaked by a bug");
  const spec = op === "merge" ? { ...(old?.spec as object), ...body.spec } : (body.spec ?? {});
  const same = old !== undefined && JSON.stringify(old.spec) === JSON.stringify(spec);
  const metadata = old === undefined ? fresh(ref, 1) : { ...old.metadata, generation: old.metadata.generation + (same ? 0 : 1) };
  const next = { apiVersion: API_VERSION, kind: ref.kind, metadata, spec } as const;
  const warnings = body.spec?.warn === undefined ? [] : ['say "hi"\r\nInjected: yes ü'];
  if (request.dryRun || same) return { object: same && old !== undefined ? old : next, created: old === undefined, warnings };
  return { object: books.record(old === undefined ? "ADDED" : "MODIFIED", next), created: old === undefined, warnings };
}
