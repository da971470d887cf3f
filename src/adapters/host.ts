// Reads host.yaml, the policy of this machine's operator, whenever it changed; a broken file changes nothing and is said.
import { readFileSync, type Stats, statSync } from "node:fs";
import { join } from "node:path";
import { validateHost } from "../core/validate.ts";
import type { HostPolicy } from "../../schemas/types.ts";

const FILE_BYTES_MAX = 1024 * 1024;
const NOTHING: HostPolicy = { secrets: [], paths: { mounts: [], workspaces: [], plugins: [] } };

export interface Host {
  /** The last good policy; nothing is allowed where there is no file. */
  policy(): HostPolicy;
  /** What is wrong with the file as it is now. */
  error(): string | undefined;
}

/** Why a file cannot be trusted to be the operator's word. */
function distrust(path: string, stats: Stats): string | undefined {
  if (!stats.isFile()) return `${path} is not a file`;
  if ((stats.mode & 0o077) !== 0) return `${path} can be read or written by others: chmod 600 ${path}`;
  const uid = process.getuid?.();
  if (uid !== undefined && stats.uid !== uid && stats.uid !== 0) return `${path} belongs to uid ${stats.uid}: chown ${uid} ${path}`;
  return stats.size > FILE_BYTES_MAX ? `${path} is larger than ${FILE_BYTES_MAX} bytes` : undefined;
}

/** Messages name fields, never values: a secret may have been written in the wrong place. */
function parse(text: string, path: string): { readonly policy?: HostPolicy; readonly error?: string } {
  const { policy, problems } = validateHost(text, path);
  if (policy !== undefined) return { policy };
  const told = problems.map(({ message, at }) => `${at === undefined ? path : `${path}:${at.line}:${at.column}`}: ${message}`);
  return { error: told.join("; ") };
}

export function createHost(options: { readonly home: string }): Host {
  const path = join(options.home, "host.yaml");
  let policy = NOTHING;
  let error: string | undefined;
  let mark = "";

  const read = (stats: Stats): void => {
    error = distrust(path, stats);
    if (error !== undefined) return;
    const parsed = parse(readFileSync(path, "utf8"), path);
    error = parsed.error;
    policy = parsed.policy ?? policy;
  };
  const refresh = (): void => {
    try {
      const stats = statSync(path, { throwIfNoEntry: false });
      if (stats === undefined) {
        [policy, error, mark] = [NOTHING, undefined, ""];
        return;
      }
      const now = `${stats.ino}:${stats.size}:${stats.mtimeMs}:${stats.ctimeMs}:${stats.mode}`;
      if (now === mark) return;
      mark = now;
      read(stats);
    } catch (thrown) {
      error = `${path} cannot be read: ${thrown instanceof Error ? thrown.message : String(thrown)}`;
    }
  };
  return {
    policy: () => {
      refresh();
      return policy;
    },
    error: () => {
      refresh();
      return error;
    },
  };
}
