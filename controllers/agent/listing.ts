// One listing of containers for all looks of one moment: at a resync every agent asks for the same one.
import type { Sandbox, SandboxListed } from "../../src/core/sandbox.ts";
import type { World } from "../../src/core/world.ts";

// A listing says only which containers there may be. What each of them is, `inspect` says, and that is never kept. So an old
// listing misses at most a container that somebody else made in this short time; our own acts throw it away.
const KEPT_MS = 100;

interface Listing {
  readonly atMs: number;
  readonly store: string;
  readonly boxes: Promise<readonly SandboxListed[]>;
}

const listings = new WeakMap<Sandbox, Listing>();

export function listBoxes(w: World): Promise<readonly SandboxListed[]> {
  const now = w.clock.monotonic();
  const known = listings.get(w.sandbox);
  if (known !== undefined && known.store === w.store && now - known.atMs < KEPT_MS) return known.boxes;
  const boxes = w.sandbox.list(w.store);
  listings.set(w.sandbox, { atMs: now, store: w.store, boxes });
  boxes.catch(() => forgetListing(w));
  return boxes;
}

/** After anything that makes, renames or removes a container, whether it worked or not. */
export const forgetListing = (w: World): void => void listings.delete(w.sandbox);
