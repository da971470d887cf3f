// One look at containers and images for all agents of one moment: at a resync and in a plan every agent asks for the same.
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
/** Images that are being asked for: an answer is not kept. */
const asking = new WeakMap<Sandbox, Map<string, Promise<string | undefined>>>();

export function listBoxes(w: World): Promise<readonly SandboxListed[]> {
  const now = w.clock.monotonic();
  const known = listings.get(w.sandbox);
  if (known !== undefined && known.store === w.store && now - known.atMs < KEPT_MS) return known.boxes;
  const boxes = w.sandbox.list(w.store);
  listings.set(w.sandbox, { atMs: now, store: w.store, boxes });
  boxes.catch(() => forgetListing(w));
  return boxes;
}

/** Id of an image; undefined when it is not on this machine. */
export function imageIdOf(w: World, ref: string): Promise<string | undefined> {
  const asked = asking.get(w.sandbox) ?? new Map<string, Promise<string | undefined>>();
  asking.set(w.sandbox, asked);
  const known = asked.get(ref);
  if (known !== undefined) return known;
  const answer = w.sandbox.image(ref).finally(() => asked.delete(ref));
  asked.set(ref, answer);
  return answer;
}

/** After anything that makes, renames or removes a container, whether it worked or not. */
export function forgetListing(w: World): void {
  listings.delete(w.sandbox);
  asking.delete(w.sandbox);
}
