// Snapshots of workspaces below BEIGE_HOME: copies of the gateway's own, shared between snapshots where a file did not change.
import { constants } from "node:fs";
import { open, type FileHandle } from "node:fs/promises";
import { BeigeError } from "../core/errors.ts";
import type { Snapshots, SnapshotChange, SnapshotDiff, SnapshotPlace, SnapshotView, SnapshotWish } from "../core/snapshot.ts";
import type { Clock } from "../core/world.ts";
import { clearFolder } from "./disk.ts";
import { layOut } from "./snapshots/restore.ts";
import { assertRoom, blobPath, cards, copyIn, drop, entries, newId, openShelf, put, type Shelf } from "./snapshots/shelf.ts";
import { asText, below, openRoot, walk, type Entry, type Found } from "./snapshots/walk.ts";

export interface SnapshotLimits {
  readonly bytesMax: number;
  readonly countMax: number;
  /** Of those that nobody asked for by hand. */
  readonly ownMax: number;
}
const LIMITS: SnapshotLimits = { bytesMax: 16 * 2 ** 30, countMax: 200, ownMax: 30 };
const CHANGES_MAX = 5_000;
const NOTE_MAX = 500;
const PIECE_BYTES = 1 << 20;

async function taken(shelf: Shelf, place: SnapshotPlace, limits: SnapshotLimits, signal: AbortSignal) {
  const before = (await cards(shelf)).at(-1);
  const known = new Map(before === undefined ? [] : (await entries(shelf, before.id)).map((entry) => [entry.path, entry]));
  const list: Entry[] = [];
  const sums = { files: 0, bytes: 0, copied: 0, skipped: 0 };
  const count = (bytes: number): void => {
    sums.files += 1;
    sums.bytes += bytes;
    if (sums.bytes <= limits.bytesMax) return;
    throw new BeigeError("exhausted", `the workspace holds more than ${limits.bytesMax / 2 ** 30} GiB`, {
      hint: `du -xh ${place.workspace}`,
    });
  };
  const visit = async (found: Found): Promise<void> => {
    if (found.entry.type !== "file") return void list.push(found.entry);
    // Asked before anything is copied: a file can claim any size.
    count(found.entry.size);
    const old = known.get(found.entry.path);
    if (old?.blob !== undefined && old.identity === found.entry.identity) return void list.push({ ...found.entry, blob: old.blob });
    const copy = await copyIn(shelf, found);
    if (copy === undefined) return;
    sums.copied += copy.size;
    list.push(copy);
  };
  const root = await openRoot(place.workspace);
  try {
    await walk(root, { visit, skip: () => void (sums.skipped += 1), signal, seen: 0 });
  } finally {
    await root.close();
  }
  return { list, sums };
}

/** The oldest of those that were made by themselves go when there are too many. */
async function prune(shelf: Shelf, ownMax: number): Promise<void> {
  const own = (await cards(shelf)).filter(({ cause }) => cause !== "person");
  for (const { id } of own.slice(0, Math.max(0, own.length - ownMax))) await drop(shelf, id);
}

interface Parts {
  readonly home: string;
  readonly clock: Clock;
  readonly limits: SnapshotLimits;
}

async function create(
  { home, clock, limits }: Parts,
  place: SnapshotPlace,
  wish: SnapshotWish,
  signal: AbortSignal,
): Promise<SnapshotView> {
  const shelf = await openShelf(home, place.agent);
  if ((await cards(shelf)).length >= limits.countMax)
    throw new BeigeError("exhausted", `there are ${limits.countMax} snapshots already`, { hint: "beige snapshot delete AGENT ID" });
  try {
    const { list, sums } = await taken(shelf, place, limits, signal);
    const at = clock.now();
    const card: SnapshotView = { id: newId(at), at, note: (wish.note ?? "").slice(0, NOTE_MAX), cause: wish.cause ?? "person", ...sums };
    await put(shelf, card, list);
    await prune(shelf, limits.ownMax);
    return card;
  } catch (error) {
    // Copies of a snapshot that did not come to be.
    await drop(shelf, undefined).catch(() => undefined);
    throw error;
  }
}

async function restore({ home }: Parts, place: SnapshotPlace, id: string, signal: AbortSignal): Promise<void> {
  const shelf = await openShelf(home, place.agent);
  const list = await entries(shelf, id);
  await assertRoom(
    shelf,
    list.reduce((sum, { size }) => sum + size, 0),
  );
  const root = await openRoot(place.workspace);
  try {
    await clearFolder(root);
    await layOut(root, list, { shelf, signal });
  } finally {
    await root.close();
  }
}

/** Closes what it is given. */
async function sameBytes(one: FileHandle, path: string): Promise<boolean> {
  let other: FileHandle | undefined;
  const a = Buffer.alloc(PIECE_BYTES);
  const b = Buffer.alloc(PIECE_BYTES);
  try {
    other = await open(path, constants.O_RDONLY);
    for (let at = 0; ;) {
      const [x, y] = await Promise.all([one.read(a, 0, PIECE_BYTES, at), other.read(b, 0, PIECE_BYTES, at)]);
      if (x.bytesRead !== y.bytesRead || !a.subarray(0, x.bytesRead).equals(b.subarray(0, y.bytesRead))) return false;
      if (x.bytesRead === 0) return true;
      at += x.bytesRead;
    }
  } finally {
    await Promise.all([one.close(), other?.close()]);
  }
}

type Same = (old: Entry, now: Entry) => Promise<boolean>;

async function compare(
  before: readonly Entry[],
  after: ReadonlyMap<string, { readonly entry: Entry; readonly same: Same }>,
): Promise<SnapshotDiff> {
  const changes: SnapshotChange[] = [];
  let more = 0;
  const tell = (path: string, change: SnapshotChange["change"]): void => {
    if (changes.length < CHANGES_MAX) changes.push({ path: asText(path), change });
    else more += 1;
  };
  const old = new Map(before.map((entry) => [entry.path, entry]));
  for (const entry of before) if (!after.has(entry.path)) tell(entry.path, "removed");
  for (const { entry, same } of after.values()) {
    const was = old.get(entry.path);
    if (was === undefined) tell(entry.path, "added");
    else if (was.type !== entry.type || was.to !== entry.to || was.size !== entry.size) tell(entry.path, "changed");
    else if (entry.type === "file" && was.identity !== entry.identity && !(await same(was, entry))) tell(entry.path, "changed");
    else if (entry.type !== "link" && was.mode !== entry.mode) tell(entry.path, "mode");
  }
  return { changes: changes.toSorted((a, b) => (a.path < b.path ? -1 : 1)), more };
}

/** The folder is walked once; a file of the same size is compared while its folder is open. */
async function nowOf(shelf: Shelf, place: SnapshotPlace, before: readonly Entry[], signal: AbortSignal) {
  const old = new Map(before.map((entry) => [entry.path, entry]));
  const now = new Map<string, { readonly entry: Entry; readonly same: Same }>();
  const visit = async ({ entry, folder, name }: Found): Promise<void> => {
    const was = old.get(entry.path);
    let same = true;
    if (entry.type === "file" && was?.blob !== undefined && was.size === entry.size && was.identity !== entry.identity) {
      const file = await open(below(folder, name), constants.O_RDONLY | constants.O_NOFOLLOW | constants.O_NONBLOCK).catch(() => undefined);
      same = file !== undefined && (await sameBytes(file, blobPath(shelf, was.blob)));
    }
    now.set(entry.path, { entry, same: () => Promise.resolve(same) });
  };
  const root = await openRoot(place.workspace);
  try {
    await walk(root, { visit, skip: () => undefined, signal, seen: 0 });
  } finally {
    await root.close();
  }
  return now;
}

async function diff(
  { home }: Parts,
  place: SnapshotPlace,
  [id, other]: readonly [string, string?],
  signal: AbortSignal,
): Promise<SnapshotDiff> {
  const shelf = await openShelf(home, place.agent);
  const before = await entries(shelf, id);
  if (other === undefined) return compare(before, await nowOf(shelf, place, before, signal));
  const same: Same = async (old, now) => {
    if (old.blob === now.blob) return true;
    const file = await open(blobPath(shelf, now.blob ?? ""), constants.O_RDONLY);
    return sameBytes(file, blobPath(shelf, old.blob ?? ""));
  };
  return compare(before, new Map((await entries(shelf, other)).map((entry) => [entry.path, { entry, same }])));
}

/** What the disk refuses is `unavailable`, in its words. */
async function told<T>(what: string, work: () => Promise<T>, signal?: AbortSignal): Promise<T> {
  try {
    return await work();
  } catch (error) {
    signal?.throwIfAborted();
    if (error instanceof BeigeError) throw error;
    throw new BeigeError("unavailable", `${what} failed: ${error instanceof Error ? error.message : String(error)}`, { cause: error });
  }
}

export function createSnapshots(parts: Omit<Parts, "limits"> & { readonly limits?: Partial<SnapshotLimits> }): Snapshots {
  const whole: Parts = { ...parts, limits: { ...LIMITS, ...parts.limits } };
  const lanes = new Map<string, Promise<unknown>>();
  /** One at a time an agent: a copy that one drops must not be one that another counts on. */
  const alone = <T>(agent: SnapshotPlace["agent"], work: () => Promise<T>): Promise<T> => {
    const key = `${agent.namespace}.${agent.name}`;
    const run = (lanes.get(key) ?? Promise.resolve()).catch(() => undefined).then(work);
    lanes.set(key, run);
    void run.catch(() => undefined).finally(() => void (lanes.get(key) === run && lanes.delete(key)));
    return run;
  };
  const shelfOf = (agent: SnapshotPlace["agent"]): Promise<Shelf> => openShelf(whole.home, agent);
  return {
    create: (place, wish, signal) => alone(place.agent, () => told("the snapshot", () => create(whole, place, wish, signal), signal)),
    list: (agent) => alone(agent, () => told("the list of snapshots", async () => cards(await shelfOf(agent)))),
    restore: (place, id, signal) =>
      alone(place.agent, () => told(`restoring ${id.slice(0, 40)}`, () => restore(whole, place, id, signal), signal)),
    diff: (place, ids, signal) => alone(place.agent, () => told("the comparison", () => diff(whole, place, ids, signal), signal)),
    remove: (agent, id) => alone(agent, () => told("deleting the snapshot", async () => drop(await shelfOf(agent), id))),
  };
}
