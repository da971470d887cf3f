// Folders of manifests: read whole when they have settled, and watched for hints.
import { BeigeError } from "../core/errors.ts";
import type { Tree, Trees } from "../core/source.ts";
import type { Clock, Log } from "../core/world.ts";
import { Moved } from "./trees/file.ts";
import { checkoutOf, isChecking } from "./trees/git.ts";
import { createNeeds, type Snapshot, type SnapshotLimits, takeSnapshot, type Vars } from "./trees/snapshot.ts";
import { placeOf, WALK } from "./trees/walk.ts";
import { createWatches, type StartWatch, type Watch } from "./watch.ts";

export interface TreeLimits extends SnapshotLimits {
  /** Time between two looks. */
  readonly gapMs: number;
  /** How long a folder may keep changing. */
  readonly patienceMs: number;
}
export const TREE: TreeLimits = { ...WALK, bytes: 64 * 1024 * 1024, gapMs: 100, patienceMs: 3_000 };

/** A watch that failed is tried again after this. */
const WATCH_AGAIN_MS = 300_000;

/** Looks in a row that find no folder before it is said to be missing. */
const LOOKS_AT_NOTHING = 3;

export interface TreesDeps {
  readonly clock: Clock;
  readonly log: Log;
  /** Something in the folder of this Source may have changed. */
  readonly onHint: (name: string) => void;
  readonly limits?: Partial<TreeLimits>;
  readonly startWatch?: StartWatch;
}

interface Look {
  readonly place: string;
  readonly snapshot: Snapshot;
}

export function createTrees(deps: TreesDeps): Trees & { close(): void } {
  const { clock, log } = deps;
  const limits = { ...TREE, ...deps.limits };
  const startWatch = deps.startWatch ?? createWatches({ clock, log });
  const watches = new Map<string, { readonly watches: readonly Watch[]; readonly place: string }>();
  const needs = new Map<string, ReturnType<typeof createNeeds>>();

  const needsOf = (path: string, vars: Vars) => {
    const known = needs.get(path) ?? createNeeds();
    // Of folders that are no longer asked for nothing is kept for long.
    if (needs.size > 64) needs.clear();
    needs.set(path, known);
    return known(vars);
  };

  /** Undefined when something went away under the look: a folder that is being replaced is missing for a moment. */
  async function look(path: string, vars: Vars, last: boolean): Promise<Look | undefined> {
    try {
      const { root, place } = await placeOf(path);
      const snapshot = await takeSnapshot({ root, folder: path, limits }, vars, needsOf(path, vars));
      return (await isChecking(root, clock.now())) ? undefined : { place, snapshot };
    } catch (error) {
      if (error instanceof Moved || (!last && error instanceof BeigeError && error.code === "not_found")) return undefined;
      throw error;
    }
  }

  const close = (name: string): void => {
    for (const watch of watches.get(name)?.watches ?? []) watch.close();
    watches.delete(name);
  };

  return {
    async read(path, { vars, known }): Promise<Tree> {
      const end = clock.monotonic() + limits.patienceMs;
      let before: Look | undefined;
      for (let missed = 0; ;) {
        const now = await look(path, vars, missed >= LOOKS_AT_NOTHING);
        missed = now === undefined ? missed + 1 : 0;
        const settled =
          now !== undefined && (now.snapshot.hash === known || (before?.snapshot.hash === now.snapshot.hash && before.place === now.place));
        if (settled) {
          const git = await checkoutOf(now.place.slice(0, now.place.lastIndexOf(" ")));
          return { place: now.place, ...now.snapshot, ...(git === undefined ? {} : { git }) };
        }
        if (clock.monotonic() > end)
          throw new BeigeError("unavailable", `folder ${path} keeps changing while it is read`, { hint: "it is read again when it rests" });
        before = now;
        await clock.sleep(limits.gapMs);
      }
    },
    watched(name) {
      const known = watches.get(name);
      const failed = known?.watches.flatMap((watch) => watch.failedAt() ?? []) ?? [];
      return failed.some((at) => clock.monotonic() - at > WATCH_AGAIN_MS) ? undefined : known?.place;
    },
    watch(name, path, place) {
      close(name);
      // The path itself may be a link: what it leads to is watched, and the place tells when that is another folder.
      const real = place.slice(0, place.lastIndexOf(" "));
      const hint = (): void => deps.onHint(name);
      const paths = path === real ? [real] : [real, path];
      watches.set(name, { place, watches: paths.map((each) => startWatch(each, hint)) });
    },
    unwatch: close,
    names: () => [...watches.keys()],
    close: () => [...watches.keys()].forEach(close),
  };
}
