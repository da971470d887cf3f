// Reads small ordinary files, and remembers their digests as long as the inode says that nobody touched them.
import { createHash } from "node:crypto";
import { closeSync, constants, fstatSync, lstatSync, openSync, readSync } from "node:fs";
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

/** What changes with any write, and nobody can set back: the time of the last change of the inode. */
function markOf(path: string, now: number): string | undefined {
  const stat = lstatSync(path, { bigint: true, throwIfNoEntry: false });
  if (stat === undefined || Number(stat.ctimeMs) > now - STEADY_MS) return undefined;
  return `${stat.dev} ${stat.ino} ${stat.size} ${stat.mode} ${stat.ctimeNs}`;
}

/** Answers as `readPlain` does, with the digest in place of the content. */
export function createDigests(): (path: string) => Digest | undefined {
  const kept = new Map<string, Digest & { readonly mark: string }>();
  return (path) => {
    const mark = markOf(path, Date.now());
    const known = kept.get(path);
    if (known !== undefined && known.mark === mark) return known;
    kept.delete(path);
    // The mark is older than the content: what was written in between shows at the next look.
    const data = readPlain(path);
    if (data === undefined) return undefined;
    const digest = { sha256: sha256(data), length: data.length };
    if (mark !== undefined) {
      if (kept.size >= KEPT_MAX) kept.clear();
      kept.set(path, { ...digest, mark });
    }
    return digest;
  };
}
