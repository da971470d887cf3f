// Reads small ordinary files and lists folders, and remembers digests and names as long as the inode says that nobody touched them.
import { createHash } from "node:crypto";
import { type BigIntStats, closeSync, constants, fstatSync, lstatSync, openSync, readdirSync, readlinkSync, readSync } from "node:fs";
import { join } from "node:path";
import { BeigeError } from "../src/core/errors.ts";

export const FILE_MAX = 1 << 20;
/** Digests kept; all are forgotten when there are more. */
const KEPT_MAX = 10_000;
/** A file that changed so recently may change again without its times moving. */
const STEADY_MS = 1000;

export interface Digest {
  /** SHA-256, hex. */
  readonly sha256: string;
  readonly length: number;
}

export const sha256 = (data: Uint8Array | string): string => createHash("sha256").update(data).digest("hex");

const absent = (code: string | undefined): boolean => code === "ENOENT" || code === "ENOTDIR";

function openPlain(path: string): number | undefined {
  try {
    return openSync(path, constants.O_RDONLY | constants.O_NOFOLLOW | constants.O_NONBLOCK);
  } catch (error) {
    const { code, message } = error as NodeJS.ErrnoException;
    if (absent(code)) return undefined;
    throw new BeigeError("invalid", `cannot read ${path}: ${code ?? message}`, { cause: error });
  }
}

/** The whole content of an ordinary file, without following a link in its last part; undefined when absent. */
export function readPlain(path: string, limit = FILE_MAX): Buffer | undefined {
  const file = openPlain(path);
  if (file === undefined) return undefined;
  try {
    const stat = fstatSync(file);
    if (!stat.isFile()) throw new BeigeError("invalid", `${path} is not a file`, { hint: "name each file in plugin.json" });
    const data = Buffer.alloc(Math.min(stat.size, limit) + 1);
    let length = 0;
    for (;;) {
      const count = readSync(file, data, length, data.length - length, length);
      length += count;
      if (count === 0) return data.subarray(0, length);
      if (length > limit) throw new BeigeError("invalid", `${path} is larger than ${limit} bytes`);
      // It grew since it was measured: what fits is a state that it had.
      if (length === data.length) return data.subarray(0, stat.size);
    }
  } finally {
    closeSync(file);
  }
}

/** What moves with any write, and nobody can set back: the time of the last change of the inode. */
type Mark = Pick<BigIntStats, "dev" | "ino" | "size" | "mode" | "ctimeNs">;

function markOf(path: string, now: number): Mark | undefined {
  const stat = lstatSync(path, { bigint: true, throwIfNoEntry: false });
  return stat === undefined || Number(stat.ctimeMs) > now - STEADY_MS ? undefined : stat;
}

const sameMark = (a: Mark, b: Mark): boolean =>
  a.ctimeNs === b.ctimeNs && a.ino === b.ino && a.size === b.size && a.dev === b.dev && a.mode === b.mode;

/** Answers as `read` does, without reading again what has not been touched. */
function remembered<T>(read: (path: string) => T | undefined): (path: string) => T | undefined {
  const kept = new Map<string, { readonly value: T; readonly mark: Mark }>();
  return (path) => {
    const mark = markOf(path, Date.now());
    const known = kept.get(path);
    if (known !== undefined && mark !== undefined && sameMark(known.mark, mark)) return known.value;
    kept.delete(path);
    // The mark is older than the content: what was written in between shows at the next look.
    const value = read(path);
    if (value !== undefined && mark !== undefined) {
      if (kept.size >= KEPT_MAX) kept.clear();
      kept.set(path, { value, mark });
    }
    return value;
  };
}

/** Answers as `readPlain` does, with the digest in place of the content. */
export const createDigests = (): ((path: string) => Digest | undefined) =>
  remembered((path) => {
    const data = readPlain(path);
    return data === undefined ? undefined : { sha256: sha256(data), length: data.length };
  });

export interface Entry {
  readonly name: string;
  readonly is: "folder" | "file" | "link" | "other";
  /** Where a link leads. */
  readonly to?: string;
}

function entriesOf(folder: string): readonly Entry[] | undefined {
  const stat = lstatSync(folder, { throwIfNoEntry: false });
  if (stat === undefined || !stat.isDirectory()) return undefined;
  return readdirSync(folder, { withFileTypes: true }).map((entry): Entry => {
    const { name } = entry;
    if (entry.isSymbolicLink()) return { name, is: "link", to: readlinkSync(join(folder, name)) };
    return { name, is: entry.isDirectory() ? "folder" : entry.isFile() ? "file" : "other" };
  });
}

/** What stands in a folder, undefined when it is none. Neither a name nor a link changes without the folder's own time moving. */
export const createListings = (): ((folder: string) => readonly Entry[] | undefined) => remembered(entriesOf);
