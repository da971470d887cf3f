// Follows objects over the watch of the API: goes on after a quiet end, and starts anew when the history is gone.
import { setTimeout as pause } from "node:timers/promises";
import type { Resource } from "../core/resource.ts";
import { BeigeError } from "../core/errors.ts";
import { saidNo } from "./client.ts";
import type { Context } from "./flags.ts";

export interface WatchLine {
  readonly type: "ADDED" | "MODIFIED" | "DELETED" | "BOOKMARK" | "ERROR";
  readonly object: Resource & { readonly code?: number };
}

/** A watch that ends sooner than this is not asked again at once. */
const REST_MS = 1_000;

const join = (path: string, more: string): string => `${path}${path.includes("?") ? "&" : "?"}${more}`;

type Each = (event: WatchLine, path: string) => Promise<void>;

interface Following {
  readonly each: Each;
  /** Version of a state that has been shown already. */
  readonly from?: (path: string) => string | undefined;
}

interface Listed {
  readonly items?: readonly WatchLine["object"][];
  readonly metadata?: { readonly resourceVersion?: string };
}

/** One path, from its present state on or from the version given; ends only with the signal or by an error. */
async function follow(context: Context, path: string, how: Following): Promise<void> {
  const { each } = how;
  let version = how.from?.(path);
  while (!context.signal.aborted) {
    if (version === undefined) {
      const list = await context.client.get<Listed>({ path });
      version = list.metadata?.resourceVersion ?? "0";
      const items = list.items ?? [list as WatchLine["object"]];
      for (const object of items) await each({ type: "ADDED", object }, path);
    }
    const started = performance.now();
    for await (const line of context.client.stream<WatchLine>({
      path: join(path, `watch=1&allowWatchBookmarks=true&resourceVersion=${version}`),
      idleMs: 0,
    })) {
      if (line.type === "ERROR") {
        if (line.object.code !== 410) throw saidNo(line.object.code ?? 500, JSON.stringify(line.object));
        version = undefined;
        break;
      }
      version = line.object.metadata.resourceVersion;
      if (line.type !== "BOOKMARK") await each(line, path);
      if (context.signal.aborted) return;
    }
    if (performance.now() - started < REST_MS) await pause(REST_MS, undefined, { signal: context.signal }).catch(() => undefined);
  }
}

export async function watchTargets(context: Context, paths: readonly string[], how: Following): Promise<number> {
  try {
    await Promise.all(paths.map((path) => follow(context, path, how)));
  } catch (error) {
    // Ctrl-C is how a watch ends.
    if (!context.signal.aborted || !(error instanceof BeigeError)) throw error;
  }
  return 0;
}
