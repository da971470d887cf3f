// Walks a folder that somebody else may change meanwhile: by open folders only, following no link, bounded in depth and number.
import { constants, type BigIntStats } from "node:fs";
import { lstat, open, readdir, readlink, type FileHandle } from "node:fs/promises";
import { BeigeError } from "../../core/errors.ts";

const FOLDER = constants.O_RDONLY | constants.O_DIRECTORY | constants.O_NOFOLLOW;
/** Folders open at once. */
const DEPTH_MAX = 200;
export const ENTRIES_MAX = 200_000;
const GONE = new Set(["ENOENT", "ENOTDIR", "ELOOP"]);

/** Names are bytes: in latin1 each byte is one letter, and all of them come through. */
export const asText = (path: string): string => Buffer.from(path, "latin1").toString("utf8");

export interface Entry {
  /** In latin1, relative, without a leading slash. */
  readonly path: string;
  readonly type: "file" | "folder" | "link";
  readonly mode: number;
  readonly mtimeMs: number;
  readonly size: number;
  /** Same as before when the file is untouched: its owner can set every other time, not this one. */
  readonly identity: string;
  /** Where a link leads, in latin1. */
  readonly to?: string;
  /** Name of the copy. */
  readonly blob?: string;
}

export interface Found {
  readonly entry: Entry;
  /** The entry's folder is open as long as the visit lasts. */
  readonly folder: FileHandle;
  readonly name: string;
}

export interface Walk {
  visit(found: Found): Promise<void>;
  /** Sockets, pipes, devices. */
  skip(): void;
  readonly signal: AbortSignal;
  seen: number;
}

/** A name in an open folder: whatever becomes of the folder's path, it is the same folder. */
export const below = (folder: FileHandle, name: string): Buffer =>
  Buffer.concat([Buffer.from(`/proc/self/fd/${folder.fd}/`), Buffer.from(name, "latin1")]);

export const identityOf = (stats: BigIntStats): string => `${stats.dev}:${stats.ino}:${stats.ctimeNs}:${stats.size}`;

export const openFolder = (path: string | Buffer): Promise<FileHandle> => open(path, FOLDER);

export async function openRoot(path: string): Promise<FileHandle> {
  try {
    return await openFolder(path);
  } catch (error) {
    if (!GONE.has((error as { code?: string }).code ?? "")) throw error;
    throw new BeigeError("not_found", `workspace ${path} is not there, or is not a folder`, { hint: `ls -ld ${path}` });
  }
}

const typeOf = (stats: BigIntStats): Entry["type"] | undefined =>
  stats.isFile() ? "file" : stats.isDirectory() ? "folder" : stats.isSymbolicLink() ? "link" : undefined;

async function entryOf(folder: FileHandle, name: string, path: string): Promise<Entry | "special" | undefined> {
  const at = below(folder, name);
  try {
    const stats = await lstat(at, { bigint: true });
    const type = typeOf(stats);
    if (type === undefined) return "special";
    const to = type === "link" ? (await readlink(at, "buffer")).toString("latin1") : undefined;
    const mode = Number(stats.mode) & 0o777;
    const mtimeMs = Number(stats.mtimeMs);
    const size = type === "file" ? Number(stats.size) : 0;
    return { path, type, mode, mtimeMs, size, identity: identityOf(stats), ...(to === undefined ? {} : { to }) };
  } catch (error) {
    if (GONE.has((error as { code?: string }).code ?? "") || (error as { code?: string }).code === "EINVAL") return undefined;
    throw error;
  }
}

/** In the order of names, each folder before what is in it. What goes away meanwhile is not there. */
export async function walk(folder: FileHandle, w: Walk, prefix = "", depth = 0): Promise<void> {
  if (depth > DEPTH_MAX) throw new BeigeError("exhausted", `the workspace is nested deeper than ${DEPTH_MAX} folders`);
  const names = (await readdir(`/proc/self/fd/${folder.fd}`, { encoding: "buffer" })).map((name) => name.toString("latin1")).toSorted();
  for (const name of names) {
    w.signal.throwIfAborted();
    if (++w.seen > ENTRIES_MAX)
      throw new BeigeError("exhausted", `the workspace has more than ${ENTRIES_MAX} files`, { hint: "remove some, such as node_modules" });
    const entry = await entryOf(folder, name, prefix === "" ? name : `${prefix}/${name}`);
    if (entry === undefined) continue;
    if (entry === "special") {
      w.skip();
      continue;
    }
    await w.visit({ entry, folder, name });
    if (entry.type !== "folder") continue;
    const inner = await openFolder(below(folder, name)).catch(() => undefined);
    if (inner === undefined) continue;
    try {
      await walk(inner, w, entry.path, depth + 1);
    } finally {
      await inner.close();
    }
  }
}
