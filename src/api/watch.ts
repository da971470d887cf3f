// The watch verb: a stream of {type, object} from a resourceVersion on, or from the present state.
import type { Control, WatchEvent } from "../core/control.ts";
import { API_VERSION } from "../core/resource.ts";
import type { RouteDeps } from "./deps.ts";
import { queryOf, type Exchange } from "./exchange.ts";
import { optionalText, queryFlag, queryNumber } from "./fields.ts";
import { onWire } from "./render.ts";
import { badRequest, failure, Refusal } from "./status.ts";
import { send } from "./stream.ts";
import { rowObject, table, wantsTable } from "./table.ts";
import type { Collection } from "./target.ts";

type Selection = Parameters<Control["list"]>[1];
type Line = { readonly type: string; readonly object: object };

export async function watch(
  deps: RouteDeps,
  exchange: Exchange,
  target: { readonly collection: Collection; readonly selection: Selection },
): Promise<void> {
  const { request } = exchange;
  const query = queryOf(request);
  const asked = optionalText(query, "resourceVersion", 40);
  // "0" means any state that is at hand, which is the present one.
  const resourceVersion = asked === undefined || asked === "" || asked === "0" ? undefined : asked;
  if (resourceVersion !== undefined && !/^\d+$/.test(resourceVersion))
    throw badRequest(`resourceVersion ${JSON.stringify(resourceVersion)} is not a number`);
  if (queryFlag(query, "sendInitialEvents"))
    throw new Refusal(422, "Invalid", "sendInitialEvents is not offered", "list first, then watch from its resourceVersion");
  const seconds = queryNumber(query, "timeoutSeconds", { min: 0, max: deps.limits.watchMs / 1000, absent: 0 });
  const options = {
    ...target.selection,
    bookmarks: queryFlag(query, "allowWatchBookmarks"),
    ...(resourceVersion !== undefined && { resourceVersion }),
  };
  await send(deps, exchange, {
    events: (signal) =>
      limited(
        deps,
        seconds === 0 ? deps.limits.watchMs : seconds * 1000,
        (s) => deps.control.watch(target.collection.info.kind, options, s),
        signal,
      ),
    line: liner(deps, exchange, target.collection),
    broken: (error): Line => ({ type: "ERROR", object: failure(error) }),
    type: "application/json",
    eager: true,
    stop: deps.closing,
  });
}

/** Ends quietly after its time, as Kubernetes watches do; the client goes on from the last version it saw. */
async function* limited(
  deps: RouteDeps,
  ms: number,
  events: (signal: AbortSignal) => AsyncIterable<WatchEvent>,
  signal: AbortSignal,
): AsyncIterable<WatchEvent> {
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

function liner(deps: RouteDeps, { request }: Exchange, { info }: Collection): (event: WatchEvent) => Line {
  const asTable = wantsTable(request.headers.accept);
  const rows = rowObject(optionalText(queryOf(request), "includeObject", 20));
  let head = true;
  return (event) => {
    if (event.type === "EXPIRED") return { type: "ERROR", object: failure(expired()) };
    if (event.type === "BOOKMARK")
      return {
        type: event.type,
        object: {
          apiVersion: API_VERSION,
          kind: info.kind,
          metadata: { resourceVersion: event.resourceVersion, creationTimestamp: null },
          spec: {},
        },
      };
    if (!asTable) return { type: event.type, object: onWire(event.object) };
    const object = table(info, [event.object], {
      head,
      rowObject: rows,
      now: deps.clock.now(),
      resourceVersion: event.object.metadata.resourceVersion,
    });
    head = false;
    return { type: event.type, object };
  };
}

const expired = (): Refusal =>
  new Refusal(
    410,
    "Expired",
    "this resourceVersion is too old: its history is no longer kept",
    "list again and watch from the list's resourceVersion",
  );
