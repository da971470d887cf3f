// Opens a chain's growing file, finds the row that the next one follows, and sets aside what a crash left half-written.
import {
  closeSync,
  constants,
  createReadStream,
  fchmodSync,
  fstatSync,
  ftruncateSync,
  mkdirSync,
  openSync,
  readdirSync,
  readSync,
  writeFileSync,
} from "node:fs";
import { basename, dirname, join } from "node:path";
import { createInterface } from "node:readline";
import type { AuditRow } from "../../core/audit.ts";
import { sha256 } from "../../core/cap.ts";
import { chainSegments, type ChainHead, EMPTY, LINE_BYTES_MAX, openRow } from "../../core/chain.ts";

export interface Growing {
  readonly fd: number;
  readonly ino: number;
  readonly size: number;
  readonly head: ChainHead;
  /** What was cut off behind the last whole row. */
  readonly cut?: { readonly bytes: number; readonly hash: string };
}

interface Tail {
  readonly head: ChainHead | undefined;
  /** End of the last whole row. */
  readonly end: number;
}

/** The last row of a file: looks at its last MiB only, since rows are far smaller. */
function lastRow(fd: number, size: number): Tail {
  const from = Math.max(0, size - LINE_BYTES_MAX);
  const data = Buffer.alloc(size - from);
  for (let had = 0; had < data.length;) {
    const count = readSync(fd, data, had, data.length - had, from + had);
    if (count === 0) break;
    had += count;
  }
  let end = data.lastIndexOf(10);
  while (end >= 0) {
    const start = end === 0 ? 0 : data.lastIndexOf(10, end - 1) + 1;
    const opened = openRow(data.toString("utf8", start, end));
    if (opened !== undefined) return { head: { seq: opened.row.seq, hash: opened.row.hash }, end: from + end + 1 };
    end = start - 1;
  }
  return { head: undefined, end: 0 };
}

/** Where a chain whose growing file is empty goes on: behind its newest closed segment that has a row. */
function olderHead(path: string): ChainHead {
  const folder = dirname(path);
  const closed = chainSegments(readdirSync(folder), basename(path)).filter((name) => name !== basename(path));
  for (const name of closed.toReversed()) {
    const fd = openSync(join(folder, name), constants.O_RDONLY | constants.O_NOFOLLOW);
    try {
      const { head } = lastRow(fd, fstatSync(fd).size);
      if (head !== undefined) return head;
    } finally {
      closeSync(fd);
    }
  }
  return EMPTY;
}

/** Keeps the cut bytes beside the chain, where they fit; their hash goes into the chain either way. */
function setAside(fd: number, path: string, range: { readonly from: number; readonly to: number }): { bytes: number; hash: string } {
  const bytes = range.to - range.from;
  const data = Buffer.alloc(Math.min(bytes, 64 * LINE_BYTES_MAX));
  readSync(fd, data, 0, data.length, range.from);
  const hash = sha256(data);
  try {
    writeFileSync(`${path}.cut-${hash.slice(0, 12)}`, data, { mode: 0o600, flag: "wx" });
  } catch {
    // A full disk must not stop the repair.
  }
  return { bytes, hash };
}

export function openGrowing(path: string): Growing {
  mkdirSync(dirname(path), { recursive: true, mode: 0o700 });
  const fd = openSync(path, constants.O_RDWR | constants.O_APPEND | constants.O_CREAT | constants.O_NOFOLLOW, 0o600);
  fchmodSync(fd, 0o600);
  const { size, ino } = fstatSync(fd);
  const tail = lastRow(fd, size);
  const head = tail.head ?? olderHead(path);
  if (tail.end === size) return { fd, ino, size, head };
  const cut = setAside(fd, path, { from: tail.end, to: size });
  ftruncateSync(fd, tail.end);
  return { fd, ino, size: tail.end, head, cut };
}

/** Calls without an outcome in the growing file and the segment before it: no call lives longer than that. */
export async function openCalls(path: string): Promise<readonly AuditRow[]> {
  const open = new Map<string, AuditRow>();
  const names = chainSegments(readdirSync(dirname(path)), basename(path)).slice(-2);
  for (const name of names) {
    const lines = createInterface({ input: createReadStream(join(dirname(path), name)), crlfDelay: Infinity });
    for await (const line of lines) {
      // The phase is looked for first: parsing every row of a large file would delay the start.
      const begins = line.includes(',"phase":"begin",');
      if (!begins && !line.includes(',"phase":"end",')) continue;
      const row = openRow(line)?.row;
      if (row?.phase === "begin") open.set(row.call, row);
      else if (row?.phase === "end") open.delete(row.call);
    }
  }
  return [...open.values()];
}
