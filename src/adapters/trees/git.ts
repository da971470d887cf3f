// What is checked out in the git work tree around a folder, read by hand: git itself would run what the tree's configuration names.
import { constants } from "node:fs";
import { type FileHandle, lstat, open } from "node:fs/promises";
import { dirname, join, resolve } from "node:path";

export interface Checkout {
  readonly commit: string;
  /** Absent when no branch is checked out. */
  readonly branch?: string;
}

const SMALL = 4096;
/** Of a repository with very many references. */
const PACKED = 32 * 1024 * 1024;
const LEVELS = 64;
const LINKS = 5;

const COMMIT = /^(?:[0-9a-f]{40}|[0-9a-f]{64})$/;
/** As git itself allows them, and nothing that leads elsewhere. */
const REF = /^refs\/[\w][\w./+@-]{0,200}$/;
const isRef = (text: string): boolean => REF.test(text) && !text.includes("..") && !text.includes("//") && !text.endsWith("/");

async function textOf(path: string, limit: number): Promise<string | undefined> {
  let file: FileHandle | undefined;
  try {
    file = await open(path, constants.O_RDONLY | constants.O_NONBLOCK);
    const stats = await file.stat();
    if (!stats.isFile() || stats.size > limit) return undefined;
    const bytes = Buffer.alloc(stats.size);
    const { bytesRead } = await file.read(bytes, 0, bytes.length, 0);
    return bytes.toString("utf8", 0, bytesRead);
  } catch {
    return undefined;
  } finally {
    await file?.close().catch(() => undefined);
  }
}

/** The folder that git keeps its state in: .git, or where a file of that name points. */
async function gitFolder(from: string): Promise<string | undefined> {
  let at = from;
  for (let level = 0; level < LEVELS; level++) {
    const path = join(at, ".git");
    const stats = await lstat(path).catch(() => undefined);
    if (stats?.isDirectory() === true) return path;
    if (stats?.isFile() === true) {
      const named = /^gitdir: ([^\n\0]+)\n?$/.exec((await textOf(path, SMALL)) ?? "")?.[1];
      return named === undefined ? undefined : resolve(at, named);
    }
    if (at === dirname(at)) return undefined;
    at = dirname(at);
  }
  return undefined;
}

async function packed(folder: string, ref: string): Promise<string | undefined> {
  const text = await textOf(join(folder, "packed-refs"), PACKED);
  const line = text === undefined ? -1 : text.indexOf(` ${ref}\n`);
  if (text === undefined || line < 0) return undefined;
  const commit = text.slice(text.lastIndexOf("\n", line) + 1, line);
  return COMMIT.test(commit) ? commit : undefined;
}

async function commitOf(folders: readonly string[], ref: string, links = LINKS): Promise<string | undefined> {
  for (const folder of folders) {
    const text = (await textOf(join(folder, ref), SMALL))?.trim();
    if (text !== undefined && COMMIT.test(text)) return text;
    const next = text === undefined ? undefined : /^ref: (.+)$/.exec(text)?.[1];
    if (next !== undefined && isRef(next) && links > 0) return commitOf(folders, next, links - 1);
  }
  for (const folder of folders) {
    const found = await packed(folder, ref);
    if (found !== undefined) return found;
  }
  return undefined;
}

/** A lock that is older than this was left behind. */
const LOCK_MS = 60_000;

/** Whether git is about to change the files: between two of them nothing tells half a checkout from a whole one. */
export async function isChecking(folder: string, nowMs: number): Promise<boolean> {
  const git = await gitFolder(folder);
  const lock = git === undefined ? undefined : await lstat(join(git, "index.lock")).catch(() => undefined);
  return lock !== undefined && nowMs - lock.mtimeMs < LOCK_MS;
}

/** Undefined outside of a work tree, before the first commit, and for a repository in a form that is not known here. */
export async function checkoutOf(folder: string): Promise<Checkout | undefined> {
  const git = await gitFolder(folder);
  if (git === undefined) return undefined;
  const head = (await textOf(join(git, "HEAD"), SMALL))?.trim();
  if (head === undefined) return undefined;
  if (COMMIT.test(head)) return { commit: head };
  const ref = /^ref: (.+)$/.exec(head)?.[1];
  if (ref === undefined || !isRef(ref)) return undefined;
  // A further work tree keeps its HEAD beside the others and its branches with them.
  const common = (await textOf(join(git, "commondir"), SMALL))?.trim();
  const commit = await commitOf(common === undefined || common === "" ? [git] : [git, resolve(git, common)], ref);
  if (commit === undefined) return undefined;
  return { commit, ...(ref.startsWith("refs/heads/") ? { branch: ref.slice("refs/heads/".length) } : {}) };
}
