// Host folders that agents own: seen, made and removed without ever following a link that an agent may have put there.
import { randomUUID } from "node:crypto";
import { constants, realpathSync, type StatsFs, statfsSync, statSync } from "node:fs";
import { type FileHandle, lchown, lstat, mkdir, open, readdir, realpath, rename, rmdir, stat, statfs, unlink } from "node:fs/promises";
import { basename, dirname, join } from "node:path";
import { BeigeError } from "../core/errors.ts";
import type { Clock, FolderSeen, Workspaces } from "../core/world.ts";
import { createDiskWatch } from "./disk/usage.ts";

const FOLDER = constants.O_RDONLY | constants.O_DIRECTORY | constants.O_NOFOLLOW;
/** Folders open at once while removing; deeper ones are moved up first. */
const DEPTH_MAX = 32;
/** Folders open at once while giving, where nothing can be moved up. */
const GIVE_DEPTH_MAX = 400;

const code = (error: unknown): string => (error as { code?: string }).code ?? "";

/** A name below an open folder: nobody can swap the folder itself, whatever happens to its path. */
const below = (folder: FileHandle, name: Buffer | string): Buffer =>
  Buffer.concat([Buffer.from(`/proc/self/fd/${folder.fd}/`), Buffer.from(name)]);

/** As bytes: an agent may have made names that are no text. */
const namesIn = (folder: FileHandle): Promise<readonly Buffer[]> => readdir(`/proc/self/fd/${folder.fd}`, { encoding: "buffer" });

async function realAsFar(path: string): Promise<string> {
  try {
    return await realpath(path);
  } catch (error) {
    if (code(error) !== "ENOENT" && code(error) !== "ENOTDIR") throw error;
    return path === "/" ? path : join(await realAsFar(dirname(path)), basename(path));
  }
}

async function seen(path: string): Promise<FolderSeen> {
  const there = stat(path).catch((error: unknown) => {
    if (code(error) === "ENOENT" || code(error) === "ENOTDIR") return undefined;
    throw error;
  });
  const [real, stats] = await Promise.all([realAsFar(path), there]);
  if (stats === undefined) return { real, exists: false, folder: false, uid: -1, gid: -1 };
  return { real, exists: true, folder: stats.isDirectory(), uid: stats.uid, gid: stats.gid };
}

/**
 * The same of a folder of the gateway's own: it lies where the store lies, on a disk of this machine, and there asking in turn costs a tenth of
 * what handing the question to another thread costs.
 */
function seenAtOnce(path: string): FolderSeen | undefined {
  const stats = statSync(path, { throwIfNoEntry: false });
  if (stats === undefined) return undefined;
  return { real: realpathSync.native(path), exists: true, folder: stats.isDirectory(), uid: stats.uid, gid: stats.gid };
}

async function create(path: string, owner: { readonly uid: number; readonly gid: number }): Promise<void> {
  await mkdir(dirname(path), { recursive: true, mode: 0o700 });
  let fresh = true;
  try {
    await mkdir(path, { mode: 0o700 });
  } catch (error) {
    if (code(error) !== "EEXIST") throw error;
    fresh = false;
  }
  let folder: FileHandle;
  try {
    folder = await open(path, FOLDER);
  } catch (error) {
    if (code(error) !== "ELOOP" && code(error) !== "ENOTDIR") throw error;
    throw new BeigeError("invalid", `workspace ${path} is not a folder but a link or a file`, { hint: `ls -ld ${path}` });
  }
  try {
    if (fresh && process.getuid?.() === 0) await folder.chown(owner.uid, owner.gid);
  } finally {
    await folder.close();
  }
}

interface Removal {
  readonly root: FileHandle;
  moved: number;
}

async function removeEntry(removal: Removal, folder: FileHandle, name: Buffer, depth: number): Promise<void> {
  const path = below(folder, name);
  const stats = await lstat(path).catch(() => undefined);
  if (stats === undefined) return;
  if (!stats.isDirectory()) return unlink(path);
  if (depth >= DEPTH_MAX) {
    removal.moved += 1;
    return rename(path, below(removal.root, `.beige-removing-${randomUUID()}`));
  }
  const inner = await open(path, FOLDER);
  try {
    await empty(removal, inner, depth + 1);
  } finally {
    await inner.close();
  }
  await rmdir(path);
}

/** Removes what is in an open folder. Permissions do not stop the owner: they are set first. */
async function empty(removal: Removal, folder: FileHandle, depth: number): Promise<void> {
  await folder.chmod(0o700).catch(() => undefined);
  for (const name of await namesIn(folder)) await removeEntry(removal, folder, name, depth);
}

async function remove(path: string): Promise<void> {
  let root: FileHandle;
  try {
    root = await open(path, FOLDER);
  } catch (error) {
    if (code(error) === "ENOENT") return;
    if (code(error) === "ELOOP" || code(error) === "ENOTDIR")
      throw new BeigeError("invalid", `${path} is not a folder but a link or a file`);
    throw error;
  }
  try {
    await clearFolder(root);
  } finally {
    await root.close();
  }
  await rmdir(path);
}

/** Removes all that is in an open folder, which stays. */
export async function clearFolder(root: FileHandle): Promise<void> {
  const { mode } = await root.stat();
  const removal: Removal = { root, moved: 0 };
  // What was moved up from the deep is there in the next pass.
  do {
    removal.moved = 0;
    await empty(removal, root, 0);
  } while (removal.moved > 0);
  await root.chmod(mode & 0o7777);
}

interface Gift {
  /** Only what belonged to the former owner changes hands. */
  readonly from: number;
  readonly owner: { readonly uid: number; readonly gid: number };
}

/** Gives an open folder and what is in it; `depth` bounds the folders open at once, and deeper ones are refused. */
async function giveFolder(gift: Gift, folder: FileHandle, depth: number): Promise<void> {
  if (depth > GIVE_DEPTH_MAX) throw new BeigeError("invalid", `the folder is nested deeper than ${GIVE_DEPTH_MAX}`);
  for (const name of await namesIn(folder)) {
    const path = below(folder, name);
    const stats = await lstat(path);
    if (stats.uid !== gift.from) continue;
    if (!stats.isDirectory()) {
      await lchown(path, gift.owner.uid, gift.owner.gid);
      continue;
    }
    const inner = await open(path, FOLDER);
    try {
      await giveFolder(gift, inner, depth + 1);
    } finally {
      await inner.close();
    }
  }
  // Last, so that a crash half-way leaves a folder that is still given whole the next time.
  if ((await folder.stat()).uid === gift.from) await folder.chown(gift.owner.uid, gift.owner.gid);
}

async function give(path: string, owner: Gift["owner"]): Promise<void> {
  const folder = await open(path, FOLDER);
  try {
    await giveFolder({ from: (await folder.stat()).uid, owner }, folder, 0);
  } finally {
    await folder.close();
  }
}

/** Any failure of the disk is `unavailable`: the engine tries again. */
async function told<T>(what: string, work: Promise<T>): Promise<T> {
  try {
    return await work;
  } catch (error) {
    if (error instanceof BeigeError) throw error;
    const message = error instanceof Error ? error.message : String(error);
    throw new BeigeError("unavailable", `${what} failed: ${message}`, { cause: error });
  }
}

type Room = { readonly freeBytes: number; readonly freeFiles: number };

/** A filesystem without a number of files of its own says 0 of 0. */
const roomOf = ({ bavail, bsize, files, ffree }: StatsFs): Room => ({
  freeBytes: bavail * bsize,
  freeFiles: files === 0 ? Number.MAX_SAFE_INTEGER : ffree,
});

/** Only a try: who gets nothing asks in the other way. */
function atOnce<T>(look: () => T): T | undefined {
  try {
    return look();
  } catch {
    return undefined;
  }
}

/** `home` is the gateway's own folder. */
export function createWorkspaces(clock: Clock, home?: string): Workspaces {
  const isOwn = (path: string): boolean => home !== undefined && path.startsWith(`${home}/`);
  return {
    async room(path) {
      const own = isOwn(path) ? atOnce(() => statfsSync(path)) : undefined;
      const found = own ?? (await statfs(path).catch(() => undefined));
      return found === undefined ? undefined : roomOf(found);
    },
    used: createDiskWatch(clock),
    seen: async (path) => (isOwn(path) ? atOnce(() => seenAtOnce(path)) : undefined) ?? told(`looking at ${path}`, seen(path)),
    create: (path, owner) => told(`making ${path}`, create(path, owner)),
    remove: (path) => told(`removing ${path}`, remove(path)),
    ...(process.getuid?.() === 0 && { give: (path: string, owner: Gift["owner"]) => told(`giving ${path}`, give(path, owner)) }),
  };
}
