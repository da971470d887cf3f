// Reads one file below a folder, bounded, and never one that lies outside it, whatever its path leads to meanwhile.
import { constants } from "node:fs";
import { type FileHandle, open, readlink, realpath } from "node:fs/promises";
import { BeigeError } from "../../core/errors.ts";

/** Something moved while it was looked at: look again. */
export class Moved extends Error {}

export const codeOf = (error: unknown): string => (error as { code?: string }).code ?? "";

export type FileRead =
  | { readonly ok: true; readonly bytes: Buffer }
  /** What a person has to mend. */
  | { readonly ok: false; readonly message: string; readonly hint: string };

export const isBelow = (root: string, path: string): boolean => path.startsWith(root === "/" ? "/" : `${root}/`);

/** Where an open file really lies. */
async function placeOf(file: FileHandle, path: string): Promise<string> {
  try {
    return await readlink(`/proc/self/fd/${file.fd}`);
  } catch {
    return realpath(path);
  }
}

/** Does not wait for a pipe or a device: those are no files. */
const FLAGS = constants.O_RDONLY | constants.O_NONBLOCK | constants.O_NOCTTY;

export async function readBelow(root: string, path: string, limit: number): Promise<FileRead> {
  let file: FileHandle;
  try {
    file = await open(path, FLAGS);
  } catch (error) {
    return unreadable(error);
  }
  try {
    const stats = await file.stat();
    if (!stats.isFile()) return { ok: false, message: "is not a file", hint: "remove it, or give it another name" };
    const place = await placeOf(file, path);
    if (stats.nlink === 0) throw new Moved(path);
    if (!isBelow(root, place))
      return { ok: false, message: "is a link that leads out of the folder", hint: "copy the file into the folder" };
    if (stats.size > limit) return { ok: false, message: `is larger than ${limit / 1024} KiB`, hint: "split it" };
    const bytes = Buffer.alloc(stats.size + 1);
    let size = 0;
    for (;;) {
      const { bytesRead } = await file.read(bytes, size, bytes.length - size, size);
      size += bytesRead;
      if (bytesRead === 0) return { ok: true, bytes: bytes.subarray(0, size) };
      // It grows while it is read.
      if (size === bytes.length) throw new Moved(path);
    }
  } finally {
    await file.close();
  }
}

function unreadable(error: unknown): FileRead {
  switch (codeOf(error)) {
    case "ENOENT":
    case "ENOTDIR":
      throw new Moved(codeOf(error));
    case "EACCES":
    case "EPERM":
      return { ok: false, message: "cannot be read: permission denied", hint: "let the gateway's user read it" };
    case "ELOOP":
      return { ok: false, message: "is a link that leads nowhere", hint: "remove it" };
    case "ENXIO":
    case "ENODEV":
      return { ok: false, message: "is not a file", hint: "remove it, or give it another name" };
    default:
      throw new BeigeError("unavailable", `cannot read a file of the folder: ${String(error)}`, { cause: error });
  }
}
