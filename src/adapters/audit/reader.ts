// Reads the end of a chain's growing file, for people who look at what happened lately; whole proofs are the verifier's.
import { open } from "node:fs/promises";
import type { AuditRow } from "../../core/audit.ts";

export interface AuditFilter {
  readonly agent?: string;
  readonly tool?: string;
  readonly decision?: string;
  readonly session?: string;
  readonly call?: string;
  readonly request?: string;
  readonly type?: string;
}

/** How far back it looks. */
const BYTES_MAX = 4 * 1024 * 1024;

/** The last rows that match, oldest first; those of closed files are not looked at. */
export function createAuditReader(path: string): { readonly tail: (n: number, filter: AuditFilter) => Promise<readonly AuditRow[]> } {
  return {
    async tail(n, filter) {
      const wanted = Object.entries(filter) as [keyof AuditFilter, string][];
      const rows = (await lastLines(path)).flatMap((line) => parse(line) ?? []);
      return rows.filter((row) => wanted.every(([key, value]) => row[key] === value)).slice(-n);
    },
  };
}

async function lastLines(path: string): Promise<readonly string[]> {
  const file = await open(path, "r").catch((error: NodeJS.ErrnoException) => {
    if (error.code === "ENOENT") return undefined;
    throw error;
  });
  if (file === undefined) return [];
  try {
    const { size } = await file.stat();
    const from = Math.max(0, size - BYTES_MAX);
    const bytes = Buffer.alloc(size - from);
    const { bytesRead } = await file.read(bytes, 0, bytes.length, from);
    const lines = bytes.toString("utf8", 0, bytesRead).split("\n");
    // The first may have lost its beginning; what follows the last line's end is still being written.
    return lines.slice(from === 0 ? 0 : 1, -1);
  } finally {
    await file.close();
  }
}

function parse(line: string): AuditRow | undefined {
  try {
    const row: unknown = JSON.parse(line);
    return typeof row === "object" && row !== null ? (row as AuditRow) : undefined;
  } catch {
    return undefined;
  }
}
