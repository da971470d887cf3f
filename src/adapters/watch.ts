// The one door to chokidar: says that something below a folder may have changed, never what.
import type { FSWatcher } from "chokidar";
import type { Clock, Log } from "../core/world.ts";

export interface Watch {
  /** When it stopped seeing everything, in milliseconds of the monotonic clock. */
  readonly failedAt: () => number | undefined;
  close(): void;
}

export type StartWatch = (path: string, onHint: () => void) => Watch;

/** Several changes at once are one hint. */
const GATHER_MS = 100;
/** A folder that never rests is not looked at without rest. */
const APART_MS = 500;
/** Folders that hold no manifests and many files. */
const SKIPPED = /(^|\/)(\.git|node_modules)(\/|$)/;

export function createWatches(deps: { readonly clock: Clock; readonly log: Log }): StartWatch {
  const { clock, log } = deps;
  return (path, onHint) => {
    let watcher: FSWatcher | undefined;
    let closed = false;
    let failedAt: number | undefined;
    let timer: { cancel(): void } | undefined;
    let next = 0;
    const hint = (): void => {
      if (closed) return;
      timer ??= clock.after(Math.max(GATHER_MS, next - clock.monotonic()), () => {
        timer = undefined;
        next = clock.monotonic() + APART_MS;
        onHint();
      });
    };
    const fail = (error: unknown): void => {
      if (failedAt === undefined && !closed)
        log.warn("a folder cannot be watched: it is read at its interval only", { path, error: String(error) });
      failedAt ??= clock.monotonic();
    };
    const start = async (): Promise<void> => {
      const { watch } = await import("chokidar");
      if (closed) return;
      const below = (name: string): boolean => SKIPPED.test(name.slice(path.length));
      // Links are seen to be pointed elsewhere, and not followed: what they lead to is in the folder itself, or not read.
      watcher = watch(path, { ignoreInitial: true, followSymlinks: false, ignored: below, ignorePermissionErrors: true, depth: 32 });
      watcher.on("all", hint);
      watcher.on("error", fail);
      // What changed before the watch stood was nobody's event.
      watcher.on("ready", hint);
    };
    start().catch(fail);
    return {
      failedAt: () => failedAt,
      close() {
        closed = true;
        timer?.cancel();
        watcher?.close().catch(() => undefined);
      },
    };
  };
}
