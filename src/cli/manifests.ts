// Reads what -f names: files, folders, globs and standard input, with the variables that they mention and the text files that they point to.
import { closeSync, constants, fstatSync, globSync, openSync, readdirSync, readSync, realpathSync, statSync } from "node:fs";
import { dirname, join, resolve, sep } from "node:path";
import type { ManifestFile } from "../core/control.ts";
import { BeigeError } from "../core/errors.ts";
import { scanVariables } from "../core/scan.ts";
import type { Context } from "./flags.ts";

const MANIFEST_MAX_BYTES = 4 * 1024 * 1024;
const TEXT_MAX_BYTES = 256 * 1024;
const FILES_MAX = 10_000;

export const isManifest = (name: string): boolean => /\.(ya?ml|json)$/.test(name) && !name.startsWith(".");

/** Manifests of a folder in name order. Hidden files and folders are left alone, links to folders are not followed. */
function folderFiles(folder: string, deep: boolean): string[] {
  const entries = readdirSync(folder, { withFileTypes: true }).toSorted((a, b) => (a.name < b.name ? -1 : 1));
  return entries.flatMap((entry) => {
    const path = join(folder, entry.name);
    if (entry.isDirectory()) return deep && !entry.name.startsWith(".") && entry.name !== "node_modules" ? folderFiles(path, true) : [];
    return isManifest(entry.name) ? [path] : [];
  });
}

const isFolder = (path: string): boolean | undefined => statSync(path, { throwIfNoEntry: false })?.isDirectory();

export interface Collecting {
  /** Look into the folders of a folder. */
  readonly deep?: boolean;
  /** A folder may hold no manifests. */
  readonly empty?: boolean;
}

function expand(context: Context, given: string, { deep = false, empty = false }: Collecting): readonly string[] {
  if (given === "") throw new BeigeError("invalid", "-f needs a file, a folder, a glob or -");
  if (/^[a-z]+:\/\//.test(given)) {
    throw new BeigeError("invalid", `-f ${given}: manifests are not fetched from the network`, {
      hint: `curl -fsS ${given} | beige apply -f -`,
    });
  }
  const path = resolve(context.cwd, given);
  const folder = isFolder(path);
  if (folder === false) return [given];
  if (folder === true) {
    const found = folderFiles(path, deep).map((file) => join(given, file.slice(path.length)));
    if (found.length > 0 || empty) return found;
    const below = !deep && folderFiles(path, true).length > 0;
    throw new BeigeError(
      "invalid",
      `no *.yaml, *.yml or *.json in ${given}`,
      below ? { hint: `-R looks into its folders: -f ${given} -R` } : {},
    );
  }
  const globbed = /[*?[{]/.test(given)
    ? globSync(given, { cwd: context.cwd }).filter((file) => isFolder(resolve(context.cwd, file)) === false)
    : [];
  if (globbed.length > 0) return globbed.toSorted();
  throw new BeigeError("invalid", `-f ${given}: no such file or folder`, { hint: `ls ${dirname(given)}` });
}

/** At most `limit` bytes of a file or pipe, as UTF-8. */
function readCapped(path: string, shown: string, limit: number, flags = 0): string {
  let file;
  try {
    file = openSync(path, constants.O_RDONLY | flags);
  } catch (error) {
    throw new BeigeError("invalid", `cannot read ${shown}: ${reasonOf(error)}`, { cause: error });
  }
  try {
    if (flags !== 0 && !fstatSync(file).isFile()) throw new BeigeError("invalid", `${shown} is not a file`);
    const parts: Buffer[] = [];
    let size = 0;
    for (;;) {
      const part = Buffer.alloc(64 * 1024);
      const got = readSync(file, part);
      if (got === 0) break;
      size += got;
      if (size > limit) throw new BeigeError("invalid", `${shown} is longer than ${limit / 1024} KiB`);
      parts.push(part.subarray(0, got));
    }
    return decode(Buffer.concat(parts), shown);
  } finally {
    closeSync(file);
  }
}

function decode(bytes: Buffer, shown: string): string {
  try {
    return new TextDecoder("utf-8", { fatal: true }).decode(bytes);
  } catch (error) {
    throw new BeigeError("invalid", `${shown} is not UTF-8 text`, { cause: error });
  }
}

export function reasonOf(error: unknown): string {
  const code = (error as NodeJS.ErrnoException).code;
  const known: Readonly<Record<string, string>> = {
    ENOENT: "no such file",
    EACCES: "permission denied",
    ELOOP: "it is a link",
    EISDIR: "it is a folder",
  };
  return (code !== undefined ? known[code] : undefined) ?? (error instanceof Error ? error.message : String(error));
}

export function manifest(context: Context, name: string, folder: string, text: string): ManifestFile {
  const named = scanVariables(text).flatMap((variable) => {
    const value = context.env[variable];
    return value === undefined ? [] : [[variable, value] as const];
  });
  return { name, folder, text, vars: Object.fromEntries(named), files: {} };
}

/** Every manifest that the -f flags name, each once. */
export async function collect(context: Context, given: readonly string[], how: Collecting = {}): Promise<readonly ManifestFile[]> {
  if (given.length === 0)
    throw new BeigeError("invalid", "no manifest given", { hint: "-f FILE, -f FOLDER, -f 'GLOB' or -f - for standard input" });
  const files = new Map<string, ManifestFile>();
  for (const each of given) {
    if (each === "-") {
      if (!files.has("-")) files.set("-", manifest(context, "<stdin>", realpathSync(context.cwd), await context.stdin(MANIFEST_MAX_BYTES)));
      continue;
    }
    for (const name of expand(context, each, how)) {
      const path = resolve(context.cwd, name);
      if (files.has(path)) continue;
      if (files.size >= FILES_MAX) throw new BeigeError("invalid", `more than ${FILES_MAX} manifests`);
      files.set(path, manifest(context, name, dirname(path), readCapped(path, name, MANIFEST_MAX_BYTES)));
    }
  }
  return [...files.values()];
}

function readText(folder: string, path: string, manifestName: string): string {
  const shown = `${path} (named in ${manifestName})`;
  let root, real;
  try {
    root = realpathSync(folder);
    real = realpathSync(resolve(folder, path));
  } catch (error) {
    throw new BeigeError("invalid", `cannot read ${shown}: ${reasonOf(error)}`, { cause: error });
  }
  if (!real.startsWith(root.endsWith(sep) ? root : root + sep)) {
    throw new BeigeError("invalid", `${shown} lies outside the manifest's folder`, { hint: `copy it below ${folder}` });
  }
  return readCapped(real, shown, TEXT_MAX_BYTES, constants.O_NOFOLLOW | constants.O_NONBLOCK);
}

/** The same manifests with the text files that the gateway asked for: only from below each manifest's own folder. */
export function answerFiles(
  files: readonly ManifestFile[],
  wanted: readonly { readonly manifest: string; readonly path: string }[],
): readonly ManifestFile[] {
  return files.map((file) => {
    const mine = wanted.filter((each) => each.manifest === file.name && file.files[each.path] === undefined);
    if (mine.length === 0) return file;
    const read = mine.map((each) => [each.path, readText(file.folder ?? "", each.path, file.name)] as const);
    return { ...file, files: { ...file.files, ...Object.fromEntries(read) } };
  });
}
