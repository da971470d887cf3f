// One look at containers and images for all agents of one moment: at a resync and in a plan every agent asks for the same.
import type { Sandbox, SandboxListed, SandboxSpec } from "../../src/core/sandbox.ts";
import type { FolderSeen, Workspaces, World } from "../../src/core/world.ts";

// A listing says only which containers there may be. What each of them is, `inspect` says, and that is never kept. So an old
// listing misses at most a container that somebody else made in this short time; our own acts throw it away.
const KEPT_MS = 100;

interface Listing {
  readonly atMs: number;
  readonly store: string;
  readonly boxes: Promise<readonly SandboxListed[]>;
}

const listings = new WeakMap<Sandbox, Listing>();
/** Questions on their way: whoever asks the same meanwhile gets the same answer, which is not kept. */
const images = new WeakMap<Sandbox, Map<string, Promise<string | undefined>>>();
const folders = new WeakMap<Workspaces, Map<string, Promise<FolderSeen>>>();

type Asked<P extends object, T> = WeakMap<P, Map<string, Promise<T>>>;

function together<P extends object, T>(
  asked: Asked<P, T>,
  about: { readonly port: P; readonly key: string },
  ask: () => Promise<T>,
): Promise<T> {
  const { port, key } = about;
  const open = asked.get(port) ?? new Map<string, Promise<T>>();
  asked.set(port, open);
  const known = open.get(key);
  if (known !== undefined) return known;
  const answer = ask().finally(() => open.delete(key));
  open.set(key, answer);
  return answer;
}

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
export const imageIdOf = (w: World, { image, backend }: Pick<SandboxSpec, "image" | "backend">): Promise<string | undefined> =>
  together(images, { port: w.sandbox, key: `${backend ?? "docker"} ${image}` }, () => w.sandbox.image(image, undefined, backend));

/** A folder that every agent asks for; whoever acts on one looks for himself. */
export const folderSeen = (w: World, path: string): Promise<FolderSeen> =>
  together(folders, { port: w.workspaces, key: path }, () => w.workspaces.seen(path));

/** After anything that makes, renames or removes a container, whether it worked or not. */
export function forgetListing(w: Pick<World, "sandbox">): void {
  listings.delete(w.sandbox);
  images.delete(w.sandbox);
}
