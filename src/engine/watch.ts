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

/** Resolves at the next commit, at a bookmark's time, or when aborted. */
function nextChange(store: Store, clock: Clock, wait: { readonly after: number; readonly ms: number; readonly signal: AbortSignal }) {
  return new Promise<"change" | "time" | "aborted">((resolve) => {
    const end = (why: "change" | "time" | "aborted"): void => {
      timer.cancel();
      subscription.unsubscribe();
      wait.signal.removeEventListener("abort", abort);
      resolve(why);
    };
    const abort = (): void => end("aborted");
    const timer = clock.after(wait.ms, () => end("time"));
    const subscription = store.objects.subscribe(() => end("change"));
    wait.signal.addEventListener("abort", abort);
    if (wait.signal.aborted) abort();
    else if (store.history.version() > wait.after) end("change");
  });
}

/** A version as a client writes it; undefined is "from now, with what there is". */
function parseVersion(text: string | undefined): number | undefined {
  if (text === undefined || text === "" || text === "0") return undefined;
  return /^\d{1,15}$/.test(text) ? Number(text) : Number.NaN;
}

export type WatchOptions = ListOptions & { readonly resourceVersion?: string; readonly bookmarks?: boolean };

/** Ends with EXPIRED when the version is no longer kept, also for a reader who fell too far behind; or with the signal. */
export function createWatch(store: Store, clock: Clock): Control["watch"] {
  async function* run(kind: string, options: WatchOptions, signal: AbortSignal): AsyncGenerator<WatchEvent> {
    const selected = selector(options);
    const asked = parseVersion(options.resourceVersion);
    let cursor = asked ?? store.history.version();
    if (asked === undefined) {
      for (const object of store.objects.list(kind).filter(selected)) {
        if (signal.aborted) return;
        yield { type: "ADDED", object };
      }
    }
    let bookmarkAt = clock.monotonic() + BOOKMARK_MS;
    while (!signal.aborted) {
      const page = Number.isNaN(cursor) ? undefined : store.history.page(kind, cursor, PAGE);
      if (page === undefined) {
        yield { type: "EXPIRED" };
        return;
      }
      for (const row of page.rows) {
        const event = seenBy(row, selected);
        if (event !== undefined) yield event;
        if (signal.aborted) return;
      }
      cursor = page.upTo;
      if (options.bookmarks === true && clock.monotonic() >= bookmarkAt) {
        bookmarkAt = clock.monotonic() + BOOKMARK_MS;
        yield { type: "BOOKMARK", resourceVersion: String(cursor) };
      }
      await nextChange(store, clock, { after: cursor, ms: Math.max(1, bookmarkAt - clock.monotonic()), signal });
    }
  }
  return (kind, options, signal) => {
    // A bad selector is said to the caller, not in the middle of the stream.
    selector(options);
    return run(kind, options, signal);
  };
}
