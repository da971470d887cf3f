// Watches: changes after a version, in order, read from the history at the reader's own pace, so that no reader has a buffer.
import type { Control, ListOptions, WatchEvent } from "../core/control.ts";
import type { Resource } from "../core/resource.ts";
import { selector } from "../core/selector.ts";
import type { Clock } from "../core/world.ts";
import type { HistoryRow } from "./store/history.ts";
import type { Store } from "./store.ts";

export const BOOKMARK_MS = 30_000;
const PAGE = 200;

/** The row as this watcher sees it: an object that comes into the selection is added, one that leaves it is deleted. */
function seenBy(row: HistoryRow, selected: (object: Resource) => boolean) {
  const { object, type, before } = row;
  const after = type !== "DELETED" && selected(object);
  // Names and namespaces never change, so only labels decide whether it was selected before.
  const old = before === undefined ? object : { ...object, metadata: { ...object.metadata, labels: before } };
  const was = type !== "ADDED" && selected(old);
  if (!was && !after) return undefined;
  return { type: after ? (was ? "MODIFIED" : "ADDED") : "DELETED", object } as const;
}

/** Keeps up with commits that are none of a reader's business, and wakes him for the others. */
function createBell(store: Store, kind: string, signal: AbortSignal) {
  let ring: (() => void) | undefined;
  let waitsAfter = 0;
  const wake = (): void => {
    ring?.();
    ring = undefined;
  };
  const subscription = store.objects.subscribe((rows) => {
    if (rows.some((row) => row.kind === kind)) return wake();
    if (ring !== undefined && rows[0]?.rv === waitsAfter + 1) waitsAfter = rows.at(-1)?.rv ?? waitsAfter;
  });
  signal.addEventListener("abort", wake);
  return {
    wake,
    /** Resolves at the next commit of the kind, when woken, or when aborted: with the version that nothing was missed up to. */
    async after(version: number): Promise<number> {
      if (signal.aborted || store.history.version() > version) return version;
      waitsAfter = version;
      await new Promise<void>((resolve) => (ring = resolve));
      return waitsAfter;
    },
    close() {
      subscription.unsubscribe();
      signal.removeEventListener("abort", wake);
    },
  };
}

/** A version as a client writes it; undefined is "from now, with what there is". */
function parseVersion(text: string | undefined): number | undefined {
  if (text === undefined || text === "" || text === "0") return undefined;
  return /^\d{1,15}$/.test(text) ? Number(text) : Number.NaN;
}

export type WatchOptions = ListOptions & { readonly resourceVersion?: string; readonly bookmarks?: boolean };

/** Of each page of the history what everybody sees who selects nothing: one list for all of them. */
const whole = new WeakMap<readonly HistoryRow[], readonly WatchEvent[]>();

function eventsOf(rows: readonly HistoryRow[], selected: ((object: Resource) => boolean) | undefined): readonly WatchEvent[] {
  if (selected !== undefined) return rows.flatMap((row) => seenBy(row, selected) ?? []);
  const known = whole.get(rows);
  if (known !== undefined) return known;
  const events = rows.map(({ type, object }): WatchEvent => ({ type, object }));
  whole.set(rows, events);
  return events;
}

const selects = ({ namespace, labelSelector, fieldSelector }: ListOptions): boolean =>
  namespace !== undefined || (labelSelector ?? "") !== "" || (fieldSelector ?? "") !== "";

/** Ends with EXPIRED when the version is no longer kept, also for a reader who fell too far behind; or with the signal. */
export function createWatch(store: Store, clock: Clock): Control["watch"] {
  async function* run(kind: string, options: WatchOptions, signal: AbortSignal): AsyncGenerator<readonly WatchEvent[]> {
    const selected = selects(options) ? selector(options) : undefined;
    const asked = parseVersion(options.resourceVersion);
    let cursor = asked ?? store.history.version();
    if (asked === undefined) {
      const objects = store.objects.list(kind).filter(selected ?? (() => true));
      for (let i = 0; i < objects.length && !signal.aborted; i += PAGE)
        yield objects.slice(i, i + PAGE).map((object): WatchEvent => ({ type: "ADDED", object }));
    }
    const bell = createBell(store, kind, signal);
    let timer = clock.after(BOOKMARK_MS, bell.wake);
    let bookmarkAt = clock.monotonic() + BOOKMARK_MS;
    try {
      while (!signal.aborted) {
        const page = Number.isNaN(cursor) ? undefined : store.history.page(kind, cursor, PAGE);
        if (page === undefined) {
          yield [{ type: "EXPIRED" }];
          return;
        }
        const events = eventsOf(page.rows, selected);
        if (events.length > 0) yield events;
        if (signal.aborted) return;
        cursor = page.upTo;
        if (clock.monotonic() >= bookmarkAt) {
          bookmarkAt = clock.monotonic() + BOOKMARK_MS;
          timer.cancel();
          timer = clock.after(BOOKMARK_MS, bell.wake);
          if (options.bookmarks === true) yield [{ type: "BOOKMARK", resourceVersion: String(cursor) }];
        }
        cursor = await bell.after(cursor);
      }
    } finally {
      timer.cancel();
      bell.close();
    }
  }
  return (kind, options, signal) => {
    // A bad selector is said to the caller, not in the middle of the stream.
    selector(options);
    return run(kind, options, signal);
  };
}
