// Manifests as they are in a commit: read from the caller's own repository by git's plumbing, without hooks, monitors, replacements or fetches.
import { spawnSync } from "node:child_process";
import { statSync } from "node:fs";
import { dirname, join, matchesGlob, posix, relative, resolve } from "node:path";
import type { ManifestFile } from "../core/control.ts";
import { BeigeError } from "../core/errors.ts";
import type { Context } from "./flags.ts";
import { isManifest, manifest } from "./manifests.ts";

const MAX_FILES = 10_000;
const MAX_BYTES = 4 * 1024 * 1024;
const ALL_BYTES = 256 * 1024 * 1024;
const TIMEOUT_MS = 60_000;

/** Nothing that a repository's configuration names is run. */
const SAFE = [
  "--no-pager",
  "--no-replace-objects",
  "--literal-pathspecs",
  "-c",
  "core.fsmonitor=false",
  "-c",
  "core.hooksPath=/dev/null",
  "-c",
  "protocol.allow=never",
];
const SAFE_ENV = { GIT_OPTIONAL_LOCKS: "0", GIT_TERMINAL_PROMPT: "0", GIT_NO_LAZY_FETCH: "1", LC_ALL: "C" };

function git(
  context: Context,
  cwd: string,
  args: readonly string[],
  input?: string,
): { readonly code: number; readonly out: Buffer; readonly err: string } {
  const env = { ...context.env, ...SAFE_ENV };
  const ran = spawnSync("git", [...SAFE, ...args], { cwd, env, input: input ?? "", maxBuffer: ALL_BYTES, timeout: TIMEOUT_MS });
  if (ran.error !== undefined) {
    const missing = (ran.error as NodeJS.ErrnoException).code === "ENOENT";
    throw new BeigeError("invalid", missing ? "git is not installed" : `git ${args[0] ?? ""} failed: ${ran.error.message}`, {
      cause: ran.error,
      hint: "--against FOLDER compares without git",
    });
  }
  return { code: ran.status ?? 1, out: ran.stdout, err: ran.stderr.toString().trim() };
}

/** Where git is not installed there is no work tree either. */
export function inWorkTree(context: Context): boolean {
  try {
    return git(context, context.cwd, ["rev-parse", "--is-inside-work-tree"]).out.toString().trim() === "true";
  } catch {
    return false;
  }
}

export interface Commit {
  /** Folder of the work tree. */
  readonly root: string;
  readonly hash: string;
}

/** Undefined when the words name no commit here. Throws where there is no repository. */
export function commitOf(context: Context, ref: string): Commit | undefined {
  const top = git(context, context.cwd, ["rev-parse", "--show-toplevel"]);
  if (top.code !== 0)
    throw new BeigeError("invalid", `--against ${ref}: no such file or folder, and here is no git repository`, {
      hint: "--against live, FOLDER, snapshot.json, or a commit in a clone",
    });
  const found = git(context, context.cwd, ["rev-parse", "--verify", "--quiet", "--end-of-options", `${ref}^{commit}`]);
  const hash = found.out.toString().trim();
  return found.code === 0 && /^[0-9a-f]{40,64}$/.test(hash) ? { root: top.out.toString().replace(/\n$/, ""), hash } : undefined;
}

/** Regular files only: a link could lead anywhere. */
function filesIn(context: Context, { root, hash }: Commit): readonly string[] {
  const listed = git(context, root, ["ls-tree", "-r", "-z", "--full-tree", hash]);
  if (listed.code !== 0)
    throw new BeigeError("invalid", `git cannot list ${hash.slice(0, 12)}: ${listed.err}`, {
      hint: "in a shallow clone: git fetch --unshallow, or fetch-depth: 0",
    });
  return listed.out
    .toString()
    .split("\0")
    .flatMap((line) => /^100(?:644|755) blob [0-9a-f]+\t(.*)$/s.exec(line)?.[1] ?? []);
}

const hidden = (path: string): boolean => path.split("/").some((part) => part.startsWith(".") || part === "node_modules");

/** What -f names, in the commit: a file, a folder's manifests, or a glob. */
function chosen(
  context: Context,
  given: string,
  of: { readonly commit: Commit; readonly all: readonly string[]; readonly deep: boolean },
): readonly string[] {
  const path = relative(of.commit.root, resolve(realCwd(context), given))
    .split("\\")
    .join("/");
  if (path.startsWith("../")) throw new BeigeError("invalid", `-f ${given} lies outside the repository ${of.commit.root}`);
  if (of.all.includes(path)) return [path];
  const prefix = path === "" ? "" : `${path}/`;
  const below = of.all.filter((file) => file.startsWith(prefix) && isManifest(posix.basename(file)));
  const inside = below.filter((file) => !hidden(file.slice(prefix.length)) && (of.deep || !file.slice(prefix.length).includes("/")));
  if (inside.length > 0) return inside;
  return /[*?[{]/.test(given) ? of.all.filter((file) => matchesGlob(file, path)) : [];
}

/** Git says real paths; the caller may stand behind a link. */
function realCwd(context: Context): string {
  const shown = git(context, context.cwd, ["rev-parse", "--show-prefix"]).out.toString().replace(/\n$/, "");
  const top = git(context, context.cwd, ["rev-parse", "--show-toplevel"]).out.toString().replace(/\n$/, "");
  return join(top, shown);
}

/** Contents by path; what is not in the commit is absent. */
function readAll(context: Context, { root, hash }: Commit, paths: readonly string[]): ReadonlyMap<string, string> {
  if (paths.length === 0) return new Map();
  const odd = paths.find((path) => path.includes("\n"));
  if (odd !== undefined) throw new BeigeError("invalid", `a manifest's name holds a line break: ${JSON.stringify(odd)}`);
  const { out } = git(context, root, ["cat-file", "--batch"], paths.map((path) => `${hash}:${path}\n`).join(""));
  const found = new Map<string, string>();
  let at = 0;
  for (const path of paths) {
    const end = out.indexOf(10, at);
    const size = /^[0-9a-f]+ blob (\d+)$/.exec(out.toString("utf8", at, end))?.[1];
    at = end + 1;
    if (size === undefined) continue;
    if (Number(size) > MAX_BYTES) throw new BeigeError("invalid", `${path} in ${hash.slice(0, 12)} is longer than 4 MiB`);
    found.set(path, out.toString("utf8", at, at + Number(size)));
    at += Number(size) + 1;
  }
  return found;
}

export interface InCommit {
  readonly files: readonly ManifestFile[];
  /** The text files that manifests name, from the same commit and from below their folders. */
  readonly answer: (
    files: readonly ManifestFile[],
    wanted: readonly { readonly manifest: string; readonly path: string }[],
  ) => readonly ManifestFile[];
}

/** The same manifests as -f names, as they are in the commit. */
export function manifestsIn(context: Context, commit: Commit, of: { readonly given: readonly string[]; readonly deep: boolean }): InCommit {
  const all = filesIn(context, commit);
  const paths = [
    ...new Set(of.given.filter((each) => each !== "-").flatMap((each) => chosen(context, each, { commit, all, deep: of.deep }))),
  ];
  if (paths.length > MAX_FILES) throw new BeigeError("invalid", `more than ${MAX_FILES} manifests`);
  const texts = readAll(context, commit, paths);
  const files = paths.map((path) => manifest(context, path, dirname(join(commit.root, path)), texts.get(path) ?? ""));
  const known = new Set(all);
  return {
    files,
    answer: (given, wanted) => {
      const pathFor = (name: string, path: string): string | undefined => {
        const folder = posix.dirname(name);
        const full = posix.normalize(posix.join(folder, path));
        const below = folder === "." ? !full.startsWith("../") : full.startsWith(`${folder}/`);
        return !path.startsWith("/") && below && known.has(full) ? full : undefined;
      };
      const needed = wanted.map(({ manifest: name, path }) => ({ name, path, full: pathFor(name, path) }));
      const lost = needed.find((each) => each.full === undefined);
      if (lost !== undefined) throw new BeigeError("invalid", `${lost.path} (named in ${lost.name}) is not in ${commit.hash.slice(0, 12)}`);
      const found = readAll(
        context,
        commit,
        needed.flatMap((each) => each.full ?? []),
      );
      return given.map((file) => {
        const mine = needed.filter((each) => each.name === file.name).map((each) => [each.path, found.get(each.full ?? "") ?? ""] as const);
        return mine.length === 0 ? file : { ...file, files: { ...file.files, ...Object.fromEntries(mine) } };
      });
    },
  };
}

/** Whether something of this name is on the disk. */
export const onDisk = (context: Context, given: string): boolean =>
  statSync(resolve(context.cwd, given), { throwIfNoEntry: false }) !== undefined;
