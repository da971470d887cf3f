// How much of the disk a workspace takes: measured now and then, one at a time, at half the pace that is possible, following nothing.
import { constants, type BigIntStats } from "node:fs";
import { lstat, open, opendir, type FileHandle } from "node:fs/promises";
import { isOver } from "../../core/disk.ts";
import type { Clock, DiskUse } from "../../core/world.ts";

/** What was measured is true for so long; less where somebody waits for room. */
const FRESH_MS = 20_000;
const FRESH_OVER_MS = 2000;
/** After a long look a place waits so many times as long: the others come first. */
const REST = 3;
const ENTRIES_MAX = 1_000_000;
const WALK_MS = 5 * 60_000;
const DEPTH_MAX = 128;
/** Entries between two pauses. */
const STEP = 500;
/** Files with several names are counted once, up to so many of them. */
const LINKED_MAX = 100_000;
const PLACES_MAX = 4096;
const BLOCK = 512n;
const FOLDER = constants.O_RDONLY | constants.O_DIRECTORY | constants.O_NOFOLLOW;

interface Walk {
  bytes: bigint;
  entries: number;
  whole: boolean;
  beyond?: string;
  readonly device: bigint;
  readonly linked: Set<bigint>;
  readonly pace: () => Promise<boolean>;
}

function count(walk: Walk, stats: BigIntStats): void {
  walk.entries += 1;
  if (!stats.isDirectory() && stats.nlink > 1n) {
    if (walk.linked.has(stats.ino)) return;
    if (walk.linked.size < LINKED_MAX) walk.linked.add(stats.ino);
  }
  walk.bytes += stats.blocks * BLOCK;
}

/** False when the walk is to end. Names are bytes, and below an open folder: nobody can swap what leads to it. */
async function walkFolder(walk: Walk, folder: FileHandle, depth: number): Promise<boolean> {
  const at = `/proc/self/fd/${folder.fd}/`;
  const options = { encoding: "buffer" as BufferEncoding, bufferSize: 256 };
  for await (const { name } of await opendir(at, options)) {
    const path = Buffer.concat([Buffer.from(at), name as unknown as Buffer]);
    const stats = await lstat(path, { bigint: true }).catch(() => undefined);
    if (stats === undefined || stats.dev !== walk.device) continue;
    count(walk, stats);
    if (walk.entries % STEP === 0 && !(await walk.pace())) return false;
    if (!stats.isDirectory()) continue;
    const tooDeep = depth >= DEPTH_MAX;
    if (tooDeep) walk.beyond ??= `folders in more than ${DEPTH_MAX} others`;
    const inner = tooDeep ? undefined : await open(path, FOLDER).catch(() => undefined);
    if (inner === undefined) {
      walk.whole = false;
      continue;
    }
    try {
      if (!(await walkFolder(walk, inner, depth + 1))) return false;
    } finally {
      await inner.close();
    }
  }
  return true;
}

/** Undefined where there is no folder. What is too deep, too much or takes too long is left out, and `whole` false. */
export async function measure(path: string, clock: Clock): Promise<DiskUse | undefined> {
  const root = await open(path, FOLDER).catch(() => undefined);
  if (root === undefined) return undefined;
  try {
    const { dev } = await root.stat({ bigint: true });
    const began = clock.monotonic();
    let rested = began;
    const pace = async (): Promise<boolean> => {
      const worked = clock.monotonic() - rested;
      if (walk.entries >= ENTRIES_MAX) walk.beyond ??= `more than ${ENTRIES_MAX} files`;
      if (walk.entries >= ENTRIES_MAX || clock.monotonic() - began > WALK_MS) return (walk.whole = false);
      await clock.sleep(Math.min(1000, worked));
      rested = clock.monotonic();
      return true;
    };
    const walk: Walk = { bytes: 0n, entries: 0, whole: true, device: dev, linked: new Set(), pace };
    await walkFolder(walk, root, 0);
    const { bytes, entries, whole, beyond } = walk;
    return { bytes: Number(bytes), entries, whole, ...(beyond === undefined ? {} : { beyond }) };
  } finally {
    await root.close();
  }
}

interface Known {
  readonly use: DiskUse | undefined;
  readonly atMs: number;
  readonly tookMs: number;
}

/** Answers what was measured last, and measures again where that is old. */
export function createDiskWatch(clock: Clock): (path: string, limitBytes: number) => DiskUse | undefined {
  const known = new Map<string, Known>();
  const asked = new Set<string>();
  let busy: Promise<void> = Promise.resolve();
  const look = async (path: string): Promise<void> => {
    const began = clock.monotonic();
    const use = await measure(path, clock).catch(() => undefined);
    asked.delete(path);
    known.delete(path);
    const atMs = clock.monotonic();
    known.set(path, { use, atMs, tookMs: atMs - began });
    const [oldest] = known.keys();
    if (known.size > PLACES_MAX && oldest !== undefined) known.delete(oldest);
  };
  return (path, limitBytes) => {
    const last = known.get(path);
    const freshMs = isOver(last?.use, limitBytes) ? FRESH_OVER_MS : FRESH_MS;
    const old = last === undefined || clock.monotonic() - last.atMs > Math.max(freshMs, REST * last.tookMs);
    if (old && !asked.has(path)) {
      asked.add(path);
      busy = busy.then(() => look(path));
    }
    return last?.use;
  };
}
