// Kinds of Kubernetes that beige does not store: objects made from its own at every question, with selectors, tables and watches.
import { parseLabels, matchesLabels } from "../../core/selector.ts";
import type { Exchange } from "../exchange.ts";
import { paramsOf, queryOf } from "../exchange.ts";
import { optionalText, queryFlag } from "../fields.ts";
import type { RouteDeps } from "../deps.ts";
import { badRequest, Refusal } from "../status.ts";
import { rowObject, table, wantsTable, type Heading, type Item } from "../table.ts";
import { checkName } from "../target.ts";
import { expired, serveWatch, type Asked, type Shown } from "../watch.ts";

export interface Projected {
  readonly apiVersion: "v1";
  readonly kind: string;
  readonly metadata: {
    readonly name: string;
    readonly namespace?: string;
    readonly resourceVersion: string;
    readonly labels?: Readonly<Record<string, string>>;
    readonly [more: string]: unknown;
  };
  readonly [more: string]: unknown;
}

export interface Column extends Heading {
  readonly value: (object: Projected, now: number) => string | number;
}

export interface Scope {
  readonly namespace?: string;
  /** Fields that the client selects by, for projections that depend on them. */
  readonly fields: ReadonlyMap<string, string>;
}

export interface Projection {
  readonly kind: string;
  readonly columns: readonly Column[];
  list(scope: Scope): { readonly items: readonly Projected[]; readonly resourceVersion: string };
  watch(scope: Scope & { readonly asked: Asked }, signal: AbortSignal): AsyncIterable<Change>;
}

export type Change = { readonly type: "ADDED" | "MODIFIED" | "DELETED"; readonly object: Projected } | Exclude<Shown, { item: Item }>;

interface FieldRequirement {
  readonly path: string;
  readonly value: string;
  readonly equal: boolean;
}

/** Any field may be selected by: these objects are few, and made here. */
export function parseFieldSelector(text: string): readonly FieldRequirement[] {
  if (text.trim() === "") return [];
  return text.split(",").map((part) => {
    const match = /^\s*([A-Za-z][\w.]*)\s*(==|=|!=)\s*(.*?)\s*$/.exec(part);
    if (match === null) throw badRequest(`field selector part ${JSON.stringify(part.trim())} is not understood`);
    return { path: match[1] ?? "", value: match[3] ?? "", equal: match[2] !== "!=" };
  });
}

function fieldOf(object: Projected, path: string): string {
  let at: unknown = object;
  for (const key of path.split("."))
    at = typeof at === "object" && at !== null && Object.hasOwn(at, key) ? (at as Record<string, unknown>)[key] : undefined;
  return typeof at === "string" || typeof at === "number" ? String(at) : "";
}

interface Selection extends Scope {
  readonly matches: (object: Projected) => boolean;
}

function selectionOf(exchange: Exchange): Selection {
  const query = queryOf(exchange.request);
  const labels = parseLabels(optionalText(query, "labelSelector", 8192) ?? "");
  const wanted = parseFieldSelector(optionalText(query, "fieldSelector", 8192) ?? "");
  const { namespace, name } = paramsOf(exchange.request);
  return {
    ...(namespace !== undefined && { namespace: checkName(namespace, "namespace") }),
    fields: new Map(wanted.filter((each) => each.equal).map((each) => [each.path, each.value])),
    matches: (object) =>
      (name === undefined || object.metadata.name === name) &&
      matchesLabels(labels, object.metadata.labels) &&
      wanted.every((each) => (fieldOf(object, each.path) === each.value) === each.equal),
  };
}

const itemOf = (projection: Projection, object: Projected): Item => ({
  whole: object,
  cells: (now) => projection.columns.map((column) => column.value(object, now)),
});

function drawn(
  deps: RouteDeps,
  exchange: Exchange,
  projection: Projection,
  what: { items: readonly Projected[]; version: string },
): object {
  const form = {
    head: true,
    resourceVersion: what.version,
    now: deps.clock.now(),
    rowObject: rowObject(optionalText(queryOf(exchange.request), "includeObject", 20)),
  };
  return table(
    projection.columns,
    what.items.map((object) => itemOf(projection, object)),
    form,
  );
}

export async function listProjected(deps: RouteDeps, exchange: Exchange, projection: Projection): Promise<unknown> {
  const query = queryOf(exchange.request);
  const selection = selectionOf(exchange);
  if (queryFlag(query, "watch")) return watchProjected(deps, exchange, projection, selection);
  if ((optionalText(query, "continue") ?? "") !== "") throw expired();
  const all = projection.list(selection);
  const items = all.items.filter(selection.matches);
  const version = all.resourceVersion;
  if (wantsTable(exchange.request.headers.accept)) return drawn(deps, exchange, projection, { items, version });
  return { apiVersion: "v1", kind: `${projection.kind}List`, metadata: { resourceVersion: version }, items };
}

export function getProjected(deps: RouteDeps, exchange: Exchange, projection: Projection): unknown {
  const { name } = paramsOf(exchange.request);
  const selection = selectionOf(exchange);
  if (queryFlag(queryOf(exchange.request), "watch")) return watchProjected(deps, exchange, projection, selection);
  const object = projection.list(selection).items.find(selection.matches);
  if (object === undefined)
    throw new Refusal(404, "NotFound", `${projection.kind.toLowerCase()}s ${JSON.stringify(name)} not found`, "kubectl get agents -A");
  if (!wantsTable(exchange.request.headers.accept)) return object;
  return drawn(deps, exchange, projection, { items: [object], version: object.metadata.resourceVersion });
}

function watchProjected(deps: RouteDeps, exchange: Exchange, projection: Projection, selection: Selection): Promise<void> {
  const { kind, columns } = projection;
  return serveWatch(deps, exchange, {
    apiVersion: "v1",
    kind,
    columns,
    async *events(asked, signal) {
      // What the client has seen of the selection already: labels may move an object into it and out of it.
      const seen = new Set(
        asked.resourceVersion === undefined ? [] : projection.list(selection).items.filter(selection.matches).map(keyOf),
      );
      for await (const change of projection.watch({ ...selection, asked }, signal)) {
        if (!("object" in change)) yield [change];
        else {
          const type = typeFor(change, seen, selection.matches(change.object));
          if (type !== undefined) yield [{ type, item: itemOf(projection, change.object) }];
        }
      }
    },
  });
}

const keyOf = ({ metadata }: Projected): string => `${metadata.namespace ?? ""}/${metadata.name}`;

function typeFor(change: Extract<Change, { object: Projected }>, seen: Set<string>, matches: boolean) {
  const key = keyOf(change.object);
  if (change.type === "DELETED" || !matches) return seen.delete(key) || (change.type === "DELETED" && matches) ? "DELETED" : undefined;
  const known = seen.has(key) && change.type !== "ADDED";
  seen.add(key);
  return known ? "MODIFIED" : "ADDED";
}

export interface Polling {
  readonly clock: RouteDeps["clock"];
  readonly look: () => readonly Projected[];
  readonly asked: Asked;
  /** Version of a list made now. */
  readonly version: () => string;
  /** Whether the client, who has listed at that version, knows the object already. */
  readonly known: (object: Projected, resourceVersion: string) => boolean;
}

const POLL_MS = 500;

/** A watch by looking again and again, for projections of what has no history. Ends with the signal. */
export async function* polled({ clock, look, asked, version, known }: Polling, signal: AbortSignal): AsyncIterable<Change> {
  const since = asked.resourceVersion;
  const there = since === undefined ? [] : look().filter((object) => known(object, since));
  let before = new Map(there.map((object) => [keyOf(object), object] as const));
  for (let first = true; !signal.aborted; first = false) {
    const now = new Map(look().map((object) => [keyOf(object), object] as const));
    for (const [key, object] of now) {
      const old = before.get(key);
      if (old === undefined) yield { type: "ADDED", object };
      else if (old.metadata.resourceVersion !== object.metadata.resourceVersion) yield { type: "MODIFIED", object };
    }
    for (const [key, object] of before) if (!now.has(key)) yield { type: "DELETED", object };
    if (first && asked.initial) yield { type: "BOOKMARK", resourceVersion: version(), initial: true };
    before = now;
    await clock.sleep(POLL_MS, signal).catch(() => undefined);
  }
}
