// One look at a whole folder: its manifests, the text files that they name, and a hash of all that was read.
import { createHash } from "node:crypto";
import { dirname, join } from "node:path";
import type { ManifestFile } from "../../core/control.ts";
import { BeigeError, type Problem } from "../../core/errors.ts";
import { MAX_FILE, readManifests } from "../../core/manifest.ts";
import { type FileRead, Moved, readBelow } from "./file.ts";
import { walkFolder, type WalkLimits } from "./walk.ts";

export interface Snapshot {
  readonly hash: string;
  readonly files: readonly ManifestFile[];
  readonly problems: readonly Problem[];
}

export interface SnapshotLimits extends WalkLimits {
  /** Bytes of all files together. */
  readonly bytes: number;
}

export type Vars = Readonly<Record<string, string>>;

const TEXT_BYTES_MAX = 256 * 1024;
/** Files that are open at once. */
const SIDE_BY_SIDE = 16;

/** Which text files a manifest names. */
export type Needs = (file: ManifestFile) => readonly string[];

/** Each manifest is parsed for it once, as long as neither it nor the variables change. */
export function createNeeds(): (vars: Vars) => Needs {
  let before = new Map<string, readonly string[]>();
  return (vars) => {
    const known = before;
    const now = new Map<string, readonly string[]>();
    before = now;
    const salt = JSON.stringify(vars);
    return (file) => {
      if (!/\bfile\b/.test(file.text)) return [];
      const key = createHash("sha256").update(file.text).update("\0").update(salt).digest("hex");
      const found = now.get(key) ?? known.get(key) ?? [...new Set(readManifests([file]).needFiles.map(({ path }) => path))];
      now.set(key, found);
      return found;
    };
  };
}

interface Look {
  readonly root: string;
  readonly limits: SnapshotLimits;
  bytes: number;
}

async function readAll<K>(
  look: Look,
  wanted: readonly { readonly key: K; readonly name: string }[],
  limit: number,
): Promise<Map<K, FileRead>> {
  const read = new Map<K, FileRead>();
  const queue = wanted.values();
  const worker = async (): Promise<void> => {
    for (const { key, name } of queue) {
      const found = await readBelow(look.root, join(look.root, name), limit);
      if (found.ok) look.bytes += found.bytes.length;
      if (look.bytes > look.limits.bytes)
        throw new BeigeError("invalid", `the folder's manifests are larger than ${look.limits.bytes / 1024 / 1024} MiB`, {
          hint: "name a folder that holds the manifests only",
        });
      read.set(key, found);
    }
  };
  await Promise.all(Array.from({ length: SIDE_BY_SIDE }, worker));
  return read;
}

function decode(bytes: Buffer): string | undefined {
  try {
    return new TextDecoder("utf-8", { fatal: true }).decode(bytes);
  } catch {
    return undefined;
  }
}

const problemOf = (name: string, message: string, hint: string): Problem => ({
  message: `${name} ${message}`,
  at: { file: name, line: 1, column: 1 },
  hint,
});

/** A text file that is not there is left out: the reader says where it is named. */
async function texts(look: Look, files: readonly ManifestFile[], needs: Needs): Promise<ReadonlyMap<string, FileRead>> {
  const names = new Set(files.flatMap((file) => needs(file).map((path) => join(dirname(file.name), path))));
  const read = new Map<string, FileRead>();
  for (const name of [...names].toSorted()) {
    const found = await readAll(look, [{ key: name, name }], TEXT_BYTES_MAX).catch((error: unknown) => {
      if (error instanceof Moved) return undefined;
      throw error;
    });
    for (const [key, value] of found ?? []) read.set(key, value);
  }
  return read;
}

/** Throws Moved when something went away meanwhile, `invalid` beyond a limit. */
export async function takeSnapshot(
  place: { readonly root: string; readonly folder: string; readonly limits: SnapshotLimits },
  vars: Vars,
  needs: Needs,
): Promise<Snapshot> {
  const look: Look = { ...place, bytes: 0 };
  const hash = createHash("sha256");
  const problems: Problem[] = [];
  const note = (name: string, message: string, hint: string): void => {
    problems.push(problemOf(name, message, hint));
    hash.update(`!${name}\0${message}\0`);
  };
  const found = await walkFolder(place.root, place.limits);
  for (const [name, message] of found.bad) note(name, message, "copy the file into the folder, or remove the link");
  const read = await readAll(
    look,
    found.names.map((name) => ({ key: name, name })),
    MAX_FILE,
  );
  const bare = found.names.flatMap((name): ManifestFile[] => {
    const file = read.get(name);
    const text = file?.ok === true ? decode(file.bytes) : undefined;
    if (file?.ok === true) hash.update(`${name}\0${file.bytes.length}\0`).update(file.bytes);
    if (file?.ok === false) note(name, file.message, file.hint);
    else if (text === undefined) note(name, "is not UTF-8 text", "save it as UTF-8");
    return text === undefined ? [] : [{ name, folder: join(place.folder, dirname(name)), text, vars, files: {} }];
  });
  const content = new Map<string, string>();
  for (const [name, file] of await texts(look, bare, needs)) {
    const text = file.ok ? decode(file.bytes) : undefined;
    if (file.ok) hash.update(`:${name}\0${file.bytes.length}\0`).update(file.bytes);
    if (!file.ok) note(name, file.message, file.hint);
    else if (text === undefined) note(name, "is not UTF-8 text", "save it as UTF-8");
    if (text !== undefined) content.set(name, text);
  }
  const files = bare.map((file) => ({ ...file, files: textsOf(file, needs, content) }));
  return { hash: hash.digest("hex"), files, problems };
}

const textsOf = (file: ManifestFile, needs: Needs, content: ReadonlyMap<string, string>): Record<string, string> =>
  Object.fromEntries(
    needs(file).flatMap((path) => {
      const text = content.get(join(dirname(file.name), path));
      return text === undefined ? [] : [[path, text] as const];
    }),
  );
