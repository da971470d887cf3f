// The watch verb: a stream of {type, object} from a resourceVersion on, or from the present state.
import type { Control, WatchEvent } from "../core/control.ts";
import { API_VERSION } from "../core/resource.ts";
import type { RouteDeps } from "./deps.ts";
import { queryOf, type Exchange } from "./exchange.ts";
import { optionalText, queryFlag, queryNumber } from "./fields.ts";
import { badRequest, failure, Refusal } from "./status.ts";
import { send } from "./stream.ts";
import { itemOf, rowObject, table, wantsTable, type Heading, type Item } from "./table.ts";
import type { Collection } from "./target.ts";

type Selection = Parameters<Control["list"]>[1];
type Line = { readonly type: string; readonly object: object };

/** What a watch tells, whatever it watches. */
export type Shown =
  | { readonly type: "ADDED" | "MODIFIED" | "DELETED"; readonly item: Item }
  /** `initial` marks the end of the present state. */
  | { readonly type: "BOOKMARK"; readonly resourceVersion: string; readonly initial?: true }
  | { readonly type: "EXPIRED" };

/** What the client asked for. */
export interface Asked {
  /** Absent: from the present state on. */
  readonly resourceVersion?: string;
  readonly bookmarks: boolean;
  /** The present state first, then a bookmark that says that it was all, then changes. */
  readonly initial: boolean;
}

export interface Source {
  readonly apiVersion: string;
  readonly kind: string;
  readonly columns: readonly Heading[];
  events(asked: Asked, signal: AbortSignal): AsyncIterable<Shown>;
}

export function watch(
  deps: RouteDeps,
  exchange: Exchange,
  target: { readonly collection: Collection; readonly selection: Selection },
): Promise<void> {
  const { info } = target.collection;
  return serveWatch(deps, exchange, {
    apiVersion: API_VERSION,
    kind: info.kind,
    columns: info.columns,
    async *events(asked, signal) {
      for await (const event of changes(deps.control, { kind: info.kind, selection: target.selection, asked }, signal)) {
        if (!("object" in event)) yield event;
        else yield { type: event.type, item: itemOf(info, event.object) };
      }
    },
  });
}

/** Changes of a kind, after the present state where that was asked for. */
export async function* changes(
  control: Control,
  what: { readonly kind: string; readonly selection: Selection; readonly asked: Asked },
  signal: AbortSignal,
): AsyncIterable<WatchEvent | { readonly type: "BOOKMARK"; readonly resourceVersion: string; readonly initial: true }> {
  const { kind, selection, asked } = what;
  let from = asked.resourceVersion;
  if (asked.initial) {
    const { items, resourceVersion } = control.list(kind, selection);
    for (const object of items) yield { type: "ADDED", object };
    yield { type: "BOOKMARK", resourceVersion, initial: true };
    from = resourceVersion;
  }
  const options = { ...selection, bookmarks: asked.bookmarks, ...(from !== undefined && { resourceVersion: from }) };
  yield* control.watch(kind, options, signal);
}

function askedOf(exchange: Exchange): Asked {
  const query = queryOf(exchange.request);
  const version = optionalText(query, "resourceVersion", 40) ?? "";
  if (version !== "" && !/^\d+$/.test(version)) throw badRequest(`resourceVersion ${JSON.stringify(version)} is not a number`);
  return {
    // "0" means any state that is at hand, which is the present one.
    ...(version !== "" && version !== "0" && { resourceVersion: version }),
    bookmarks: queryFlag(query, "allowWatchBookmarks"),
    initial: queryFlag(query, "sendInitialEvents"),
  };
}

export async function serveWatch(deps: RouteDeps, exchange: Exchange, source: Source): Promise<void> {
  const asked = askedOf(exchange);
  const query = queryOf(exchange.request);
  const seconds = queryNumber(query, "timeoutSeconds", { min: 0, max: deps.limits.watchMs / 1000, absent: 0 });
  const ms = seconds === 0 ? deps.limits.watchMs : seconds * 1000;
  await send(deps, exchange, {
    events: (signal) => limited(deps, ms, (s) => source.events(asked, s), signal),
    line: liner(deps, exchange, source),
    broken: (error): Line => ({ type: "ERROR", object: failure(error) }),
    type: "application/json",
    eager: true,
    stop: deps.closing,
  });
}

/** Ends quietly after its time, as Kubernetes watches do; the client goes on from the last version it saw. */
async function* limited<T>(
  deps: RouteDeps,
  ms: number,
  events: (signal: AbortSignal) => AsyncIterable<T>,
  signal: AbortSignal,
): AsyncIterable<T> {
  const end = new AbortController();
  const stop = (): void => end.abort(signal.reason);
  if (signal.aborted) stop();
  signal.addEventListener("abort", stop, { once: true });
  const timer = deps.clock.after(ms, () => end.abort(new DOMException("the watch's time is over", "TimeoutError")));
  try {
    yield* events(end.signal);
  } catch (error) {
    if (!end.signal.aborted) throw error;
  } finally {
    timer.cancel();
    signal.removeEventListener("abort", stop);
  }
}

const END_OF_STATE = { "k8s.io/initial-events-end": "true" };

function liner(deps: RouteDeps, { request }: Exchange, source: Source): (event: Shown) => Line {
  const asTable = wantsTable(request.headers.accept);
  const rows = rowObject(optionalText(queryOf(request), "includeObject", 20));
  let head = true;
  const drawn = (items: readonly Item[], resourceVersion: string): object => {
    const object = table(source.columns, items, { head, rowObject: rows, now: deps.clock.now(), resourceVersion });
    head = false;
    return object;
  };
  return (event) => {
    if (event.type === "EXPIRED") return { type: "ERROR", object: failure(expired()) };
    if (event.type === "BOOKMARK") {
      const { resourceVersion, initial } = event;
      const metadata = { resourceVersion, creationTimestamp: null, ...(initial === true && { annotations: END_OF_STATE }) };
      return { type: event.type, object: { apiVersion: source.apiVersion, kind: source.kind, metadata, spec: {} } };
    }
    const { whole } = event.item;
    return { type: event.type, object: asTable ? drawn([event.item], whole.metadata.resourceVersion) : whole };
  };
}

export const expired = (): Refusal =>
  new Refusal(
    410,
    "Expired",
    "this resourceVersion is too old: its history is no longer kept",
    "list again and watch from the list's resourceVersion",
  );
