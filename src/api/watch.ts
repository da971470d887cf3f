// The watch verb: a stream of {type, object} from a resourceVersion on, or from the present state.
import type { Control, KindInfo, WatchEvent } from "../core/control.ts";
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
  /** What is there at once comes together. */
  events(asked: Asked, signal: AbortSignal): AsyncIterable<readonly Shown[]>;
}

/** What watches of everything get is the same list for all of them: shown once. */
const shownOnce = new WeakMap<readonly WatchEvent[], readonly Shown[]>();

function shownAll(info: KindInfo, events: readonly Change[]): readonly Shown[] {
  const known = shownOnce.get(events);
  if (known !== undefined) return known;
  const shown = events.map((event): Shown => ("object" in event ? { type: event.type, item: itemOf(info, event.object) } : event));
  shownOnce.set(events, shown);
  return shown;
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
      for await (const events of changes(deps.control, { kind: info.kind, selection: target.selection, asked }, signal))
        yield shownAll(info, events);
    },
  });
}

export type Change = WatchEvent | { readonly type: "BOOKMARK"; readonly resourceVersion: string; readonly initial: true };

/** Changes of a kind, after the present state where that was asked for. */
export async function* changes(
  control: Control,
  what: { readonly kind: string; readonly selection: Selection; readonly asked: Asked },
  signal: AbortSignal,
): AsyncIterable<readonly Change[]> {
  const { kind, selection, asked } = what;
  let from = asked.resourceVersion;
  if (asked.initial) {
    const { items, resourceVersion } = control.list(kind, selection);
    yield [...items.map((object) => ({ type: "ADDED", object }) as const), { type: "BOOKMARK", resourceVersion, initial: true }];
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
    events: (signal) =>
      pieces(
        limited(deps, ms, (s) => source.events(asked, s), signal),
        liner(deps, exchange, source),
      ),
    line: (piece) => piece,
    broken: (error): Line => ({ type: "ERROR", object: failure(error) }),
    type: "application/json",
    eager: true,
    // Not a line: some clients take each line for an event, and all skip what is before an object.
    alive: " ",
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

/** About the most that is handed to the client's socket at once. */
const PIECE_CHARS = 64 * 1024;

/** Bytes of small batches that several watches may be sent. */
const piecesOnce = new WeakMap<readonly Shown[], Buffer>();

/** Lines of what came together, as few pieces: one, and one for all watches, where it is not much. */
async function* pieces(batches: AsyncIterable<readonly Shown[]>, liner: Liner): AsyncIterable<Buffer> {
  for await (const batch of batches) {
    const known = liner.shared ? piecesOnce.get(batch) : undefined;
    if (known !== undefined) yield known;
    else yield* piecesOf(batch, liner);
  }
}

function* piecesOf(batch: readonly Shown[], { line, shared }: Liner): Iterable<Buffer> {
  let text = "";
  let whole = true;
  for (const event of batch) {
    text += `${JSON.stringify(line(event))}\n`;
    if (text.length < PIECE_CHARS) continue;
    yield Buffer.from(text);
    text = "";
    whole = false;
  }
  if (text === "") return;
  const piece = Buffer.from(text);
  if (whole && shared) piecesOnce.set(batch, piece);
  yield piece;
}

const END_OF_STATE = { "k8s.io/initial-events-end": "true" };

interface Liner {
  readonly line: (event: Shown) => Line;
  /** Whether every watch with the same events has the same lines. */
  readonly shared: boolean;
}

function liner(deps: RouteDeps, { request }: Exchange, source: Source): Liner {
  const asTable = wantsTable(request.headers.accept);
  const rows = rowObject(optionalText(queryOf(request), "includeObject", 20));
  let head = true;
  const drawn = (items: readonly Item[], resourceVersion: string): object => {
    const object = table(source.columns, items, { head, rowObject: rows, now: deps.clock.now(), resourceVersion });
    head = false;
    return object;
  };
  const line = (event: Shown): Line => {
    if (event.type === "EXPIRED") return { type: "ERROR", object: failure(expired()) };
    if (event.type === "BOOKMARK") {
      const { resourceVersion, initial } = event;
      const metadata = { resourceVersion, creationTimestamp: null, ...(initial === true && { annotations: END_OF_STATE }) };
      return { type: event.type, object: { apiVersion: source.apiVersion, kind: source.kind, metadata, spec: {} } };
    }
    const { whole } = event.item;
    return { type: event.type, object: asTable ? drawn([event.item], whole.metadata.resourceVersion) : whole };
  };
  return { line, shared: !asTable };
}

export const expired = (): Refusal =>
  new Refusal(
    410,
    "Expired",
    "this resourceVersion is too old: its history is no longer kept",
    "list again and watch from the list's resourceVersion",
  );
