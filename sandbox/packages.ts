// Reads the documentation of plugins: only files that a manifest names, only from inside the plugin's folder, only so many bytes.
import { constants } from "node:fs";
import { lstat, open, readdir, realpath } from "node:fs/promises";
import { join, normalize, sep } from "node:path";
import { BeigeError } from "../src/core/errors.ts";
import { within } from "../src/core/paths.ts";

/** Relative path -> content. */
export type Files = ReadonlyMap<string, Buffer>;

const FILE_MAX = 1 << 20;
const PACKAGE_MAX = 8 << 20;
const FILES_MAX = 256;
const DEPTH_MAX = 8;

/** The whole content of an ordinary file, without following a link in its last part; undefined when absent. */
async function readPlain(path: string, limit: number): Promise<Buffer | undefined> {
  const file = await open(path, constants.O_RDONLY | constants.O_NOFOLLOW | constants.O_NONBLOCK).catch((error: NodeJS.ErrnoException) => {
    if (error.code === "ENOENT" || error.code === "ENOTDIR") return undefined;
    throw new BeigeError("invalid", `cannot read ${path}: ${error.code ?? error.message}`, { cause: error });
  });
  if (file === undefined) return undefined;
  try {
    const stat = await file.stat();
    if (!stat.isFile()) throw new BeigeError("invalid", `${path} is not a file`, { hint: "name each file in plugin.json" });
    const data = Buffer.alloc(Math.min(stat.size, limit) + 1);
    let length = 0;
    for (;;) {
      const { bytesRead } = await file.read(data, length, data.length - length, length);
      length += bytesRead;
      if (bytesRead === 0) return data.subarray(0, length);
      if (length > limit) throw new BeigeError("invalid", `${path} is larger than ${limit} bytes`);
      // It grew since it was measured: what fits is a state that it had.
      if (length === data.length) return data.subarray(0, stat.size);
    }
  } finally {
    await file.close();
  }
}

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
export async function packageFiles(root: string, names: readonly string[]): Promise<Files> {
  if (names.length > FILES_MAX) throw new BeigeError("invalid", `plugin in ${root} names more than ${FILES_MAX} files`);
  const real = await realpath(root).catch((error: unknown) => {
    throw new BeigeError("not_found", `plugin folder ${root} is not there`, { cause: error });
  });
  const files = new Map<string, Buffer>();
  let total = 0;
  for (const file of names) {
    const found = await locate(real, file);
    const data = found === undefined ? undefined : await readPlain(found.path, FILE_MAX);
    if (found === undefined || data === undefined) continue;
    total += data.length;
    if (total > PACKAGE_MAX)
      throw new BeigeError("invalid", `files of the plugin in ${root} are larger than ${PACKAGE_MAX} bytes together`);
    files.set(found.name, data);
  }
  return files;
}

async function walk(folder: string, prefix: string, into: Map<string, Buffer>): Promise<void> {
  if (prefix.split("/").length > DEPTH_MAX + 1 || into.size > FILES_MAX) throw new BeigeError("invalid", `too much in ${folder}`);
  for (const entry of await readdir(folder, { withFileTypes: true })) {
    const path = join(folder, entry.name);
    if (entry.isDirectory()) await walk(path, `${prefix}${entry.name}/`, into);
    else if (entry.isFile()) into.set(prefix + entry.name, (await readPlain(path, FILE_MAX)) ?? Buffer.alloc(0));
    else into.set(`${prefix}${entry.name} (not a file)`, Buffer.alloc(0));
  }
}

/** What stands in a folder of ours; undefined when it is none. */
export async function readTree(folder: string): Promise<Files | undefined> {
  const stat = await lstat(folder).catch(() => undefined);
  if (stat === undefined || !stat.isDirectory()) return undefined;
  const files = new Map<string, Buffer>();
  await walk(folder, "", files);
  return files;
}
