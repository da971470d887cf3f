// Reads the documentation of plugins: only files that a manifest names, only from inside the plugin's folder, only so many bytes.
import { realpath } from "node:fs/promises";
import { join, normalize, sep } from "node:path";
import { BeigeError } from "../src/core/errors.ts";
import { within } from "../src/core/paths.ts";
import type { Entry } from "./digests.ts";

/** Reads one ordinary file, or what stands for it; undefined when absent. */
type Read<T> = (path: string) => T | undefined;
type Listings = (folder: string) => readonly Entry[] | undefined;
/** By relative path. */
export type Files<T> = ReadonlyMap<string, T>;

const PACKAGE_MAX = 8 << 20;
const FILES_MAX = 256;
const DEPTH_MAX = 8;

/** Where a named file really lies; refuses what leads out of the plugin's folder. */
async function locate(root: string, file: string): Promise<{ readonly path: string; readonly name: string } | undefined> {
  const name = normalize(file);
  if (file === "" || file.includes("\0") || name.startsWith("/") || name === ".." || name.startsWith(`..${sep}`)) {
    throw new BeigeError("invalid", `file ${JSON.stringify(file)} is outside its plugin's folder ${root}`);
  }
  const path = await realpath(join(root, name)).catch(() => undefined);
  if (path === undefined) return undefined;
  if (!within(path, root)) throw new BeigeError("invalid", `file ${JSON.stringify(file)} leads out of its plugin's folder ${root}`);
  return { path, name };
}

/** The files of one plugin. One that is named and not there is left out; one that leads outside refuses all. */
export async function packageFiles<T extends { readonly length: number }>(
  root: string,
  names: readonly string[],
  read: Read<T>,
): Promise<Files<T>> {
  if (names.length > FILES_MAX) throw new BeigeError("invalid", `plugin in ${root} names more than ${FILES_MAX} files`);
  const real = await realpath(root).catch((error: unknown) => {
    throw new BeigeError("not_found", `plugin folder ${root} is not there`, { cause: error });
  });
  const files = new Map<string, T>();
  let total = 0;
  for (const file of names) {
    const found = await locate(real, file);
    // A file system that hangs has held the asynchronous look above, and nobody else with it.
    const data = found === undefined ? undefined : read(found.path);
    if (found === undefined || data === undefined) continue;
    total += data.length;
    if (total > PACKAGE_MAX)
      throw new BeigeError("invalid", `files of the plugin in ${root} are larger than ${PACKAGE_MAX} bytes together`);
    files.set(found.name, data);
  }
  return files;
}

interface Walk<T> {
  readonly list: Listings;
  readonly read: Read<T>;
  /** Stands for whatever is no file. */
  readonly nothing: T;
  readonly into: Map<string, T>;
}

function walk<T>(folder: string, prefix: string, about: Walk<T>): void {
  const { list, read, nothing, into } = about;
  if (prefix.split("/").length > DEPTH_MAX + 1 || into.size > FILES_MAX) throw new BeigeError("invalid", `too much in ${folder}`);
  for (const entry of list(folder) ?? []) {
    const path = join(folder, entry.name);
    if (entry.is === "folder") walk(path, `${prefix}${entry.name}/`, about);
    else if (entry.is === "file") into.set(prefix + entry.name, read(path) ?? nothing);
    else into.set(`${prefix}${entry.name} (not a file)`, nothing);
  }
}

/** What stands in a folder of ours, which lies on a local disk; undefined when it is none. */
export function readTree<T>(
  folder: string,
  how: { readonly list: Listings; readonly read: Read<T>; readonly nothing: T },
): Files<T> | undefined {
  if (how.list(folder) === undefined) return undefined;
  const into = new Map<string, T>();
  walk(folder, "", { ...how, into });
  return into;
}
