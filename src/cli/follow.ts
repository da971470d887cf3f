// Reads the end of a growing file of lines, and what is added to it afterwards, over rotations.
import { type FileHandle, open } from "node:fs/promises";
import { setTimeout as pause } from "node:timers/promises";

const POLL_MS = 250;
const BLOCK_BYTES = 64 * 1024;
/** A line beyond this is dropped: no log of ours writes one. */
const LINE_MAX_BYTES = 1024 * 1024;

async function openRead(path: string): Promise<FileHandle | undefined> {
  return open(path, "r").catch((error: NodeJS.ErrnoException) => {
    if (error.code === "ENOENT") return undefined;
    throw error;
  });
}

/** The last `n` whole lines that `keep` wants, oldest first, read from the end; and where the file ended. */
export async function lastLines(
  path: string,
  n: number,
  keep: (line: string) => boolean,
): Promise<{ readonly lines: readonly string[]; readonly end: number }> {
  const file = await openRead(path);
  if (file === undefined) return { lines: [], end: 0 };
  try {
    const size = (await file.stat()).size;
    const kept: string[] = [];
    let at = size;
    let tail: Buffer = Buffer.alloc(0);
    let end = size;
    while (at > 0 && kept.length < n) {
      const length = Math.min(BLOCK_BYTES, at);
      at -= length;
      const block = Buffer.alloc(length);
      await file.read(block, 0, length, at);
      if (at + length === size) end = size - (length - 1 - block.lastIndexOf(10));
      tail = Buffer.concat([block, tail]);
      const first = at === 0 ? 0 : tail.indexOf(10) + 1;
      if (first === 0 && at > 0) {
        if (tail.length > LINE_MAX_BYTES) tail = Buffer.alloc(0);
        continue;
      }
      const lines = tail.subarray(first).toString().split("\n").slice(0, -1);
      for (const line of lines.toReversed()) if (kept.length < n && line !== "" && keep(line)) kept.push(line);
      tail = tail.subarray(0, first);
    }
    return { lines: kept.toReversed(), end };
  } finally {
    await file.close();
  }
}

/** Lines that are added after `from`, until the signal. A file that became shorter, or another one, is read from its start. */
export async function* newLines(path: string, from: number, signal: AbortSignal): AsyncGenerator<string> {
  let at = from;
  let inode: number | undefined;
  let held = "";
  while (!signal.aborted) {
    const file = await openRead(path);
    if (file) {
      try {
        const stat = await file.stat();
        if (stat.size < at || (inode !== undefined && stat.ino !== inode)) [at, held] = [0, ""];
        inode = stat.ino;
        while (at < stat.size) {
          const block = Buffer.alloc(Math.min(BLOCK_BYTES, stat.size - at));
          const { bytesRead } = await file.read(block, 0, block.length, at);
          if (bytesRead === 0) break;
          at += bytesRead;
          // latin1 keeps bytes that a block cuts in two; decoded a line at a time.
          const lines = (held + block.toString("latin1", 0, bytesRead)).split("\n");
          held = (lines.pop() ?? "").slice(-LINE_MAX_BYTES);
          for (const line of lines) if (line !== "") yield Buffer.from(line, "latin1").toString();
        }
      } finally {
        await file.close();
      }
    }
    await pause(POLL_MS, undefined, { signal }).catch(() => undefined);
  }
}
