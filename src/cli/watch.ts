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

/** One path from its present version on; ends only with the signal or by an error. */
async function follow(context: Context, path: string, each: (event: WatchLine, path: string) => Promise<void>): Promise<void> {
  let version: string | undefined;
  while (!context.signal.aborted) {
    version ??= (await context.client.get<{ metadata?: { resourceVersion?: string } }>({ path })).metadata?.resourceVersion ?? "0";
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

export async function watchTargets(
  context: Context,
  paths: readonly string[],
  each: (event: WatchLine, path: string) => Promise<void>,
): Promise<number> {
  try {
    await Promise.all(paths.map((path) => follow(context, path, each)));
  } catch (error) {
    // Ctrl-C is how a watch ends.
    if (!context.signal.aborted || !(error instanceof BeigeError)) throw error;
  }
  return 0;
}
