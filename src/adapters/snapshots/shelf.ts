// The folder of an agent's snapshots: a list of entries and a card for each, and the copies that they share.
import { randomBytes } from "node:crypto";
import { constants } from "node:fs";
import { chmod, copyFile, mkdir, open, readdir, readFile, rename, rm, statfs, unlink, writeFile, type FileHandle } from "node:fs/promises";
import { join } from "node:path";
import { BeigeError } from "../../core/errors.ts";
import { agentFolder } from "../../core/paths.ts";
import type { SnapshotPlace, SnapshotView } from "../../core/snapshot.ts";
import { below, identityOf, type Entry, type Found } from "./walk.ts";

const ID = /^[0-9]{8}T[0-9]{9}-[0-9a-f]{4}$/;
/** Room that stays on the disk: every call is written to the audit first. */
const FREE_BYTES = 256 * 2 ** 20;
const FILE = constants.O_RDONLY | constants.O_NOFOLLOW | constants.O_NONBLOCK;

export interface Shelf {
  readonly root: string;
}

export async function openShelf(home: string, agent: SnapshotPlace["agent"]): Promise<Shelf> {
  const root = join(agentFolder(home, agent), "snapshots");
  await mkdir(join(root, "blobs"), { recursive: true, mode: 0o700 });
  await chmod(root, 0o700);
  return { root };
}

export const newId = (now: number): string => `${new Date(now).toISOString().replaceAll(/[-:.Z]/g, "")}-${randomBytes(2).toString("hex")}`;

export const notFound = (id: string): BeigeError =>
  new BeigeError("not_found", `there is no snapshot ${JSON.stringify(id.slice(0, 40))}`, { hint: "beige snapshot list AGENT" });

const known = (id: string): string => {
  if (!ID.test(id)) throw notFound(id);
  return id;
};

async function whole(path: string, id: string): Promise<string> {
  try {
    return await readFile(path, "utf8");
  } catch (error) {
    if ((error as { code?: string }).code === "ENOENT") throw notFound(id);
    throw error;
  }
}

export async function cards(shelf: Shelf): Promise<readonly SnapshotView[]> {
  const names = (await readdir(shelf.root)).filter((name) => name.endsWith(".json") && ID.test(name.slice(0, -5)));
  const read = await Promise.all(
    names.toSorted().map(async (name) => JSON.parse(await readFile(join(shelf.root, name), "utf8")) as SnapshotView),
  );
  return read.toSorted((a, b) => a.at - b.at);
}

export async function entries(shelf: Shelf, id: string): Promise<readonly Entry[]> {
  const text = await whole(join(shelf.root, `${known(id)}.list`), id);
  return text === ""
    ? []
    : text
        .trimEnd()
        .split("\n")
        .map((line) => JSON.parse(line) as Entry);
}

/** The card comes last: without it there is no snapshot. */
export async function put(shelf: Shelf, card: SnapshotView, list: readonly Entry[]): Promise<void> {
  const write = async (name: string, text: string): Promise<void> => {
    const temp = join(shelf.root, `.${name}.new`);
    await writeFile(temp, text, { mode: 0o600 });
    await rename(temp, join(shelf.root, name));
  };
  await write(`${card.id}.list`, list.map((entry) => `${JSON.stringify(entry)}\n`).join(""));
  await write(`${card.id}.json`, JSON.stringify(card));
}

export const blobPath = (shelf: Shelf, blob: string): string => join(shelf.root, "blobs", blob);

export async function assertRoom(shelf: Shelf, bytes: number): Promise<void> {
  const { bavail, bsize } = await statfs(shelf.root);
  if (bavail * bsize - bytes >= FREE_BYTES) return;
  throw new BeigeError("exhausted", `the disk of ${shelf.root} has no room for ${Math.ceil(bytes / 2 ** 20)} MiB more`, {
    hint: "beige snapshot delete AGENT ID",
  });
}

/** A copy that shares its blocks where the filesystem can. The file is opened first, and only what was opened is copied. */
export async function copyIn(shelf: Shelf, { entry, folder, name }: Found): Promise<Entry | undefined> {
  let file: FileHandle;
  try {
    file = await open(below(folder, name), FILE);
  } catch {
    // It went away, or is something else now.
    return undefined;
  }
  try {
    const stats = await file.stat({ bigint: true });
    if (!stats.isFile()) return undefined;
    const size = Number(stats.size);
    await assertRoom(shelf, size);
    const blob = randomBytes(16).toString("hex");
    await copyFile(`/proc/self/fd/${file.fd}`, blobPath(shelf, blob), constants.COPYFILE_EXCL | constants.COPYFILE_FICLONE);
    await chmod(blobPath(shelf, blob), 0o600);
    return { ...entry, size, identity: identityOf(stats), blob };
  } finally {
    await file.close();
  }
}

/** Takes a snapshot away, and every copy that no other one has. */
export async function drop(shelf: Shelf, id: string | undefined): Promise<void> {
  if (id !== undefined) {
    await whole(join(shelf.root, `${known(id)}.json`), id);
    await unlink(join(shelf.root, `${id}.json`));
    await rm(join(shelf.root, `${id}.list`), { force: true });
  }
  const used = new Set<string>();
  for (const card of await cards(shelf)) for (const { blob } of await entries(shelf, card.id)) if (blob !== undefined) used.add(blob);
  for (const blob of await readdir(join(shelf.root, "blobs"))) if (!used.has(blob)) await unlink(blobPath(shelf, blob));
}
