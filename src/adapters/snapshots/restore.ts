// Puts a snapshot's files where the workspace's were: by open folders only, owned by the workspace's owner.
import { constants } from "node:fs";
import { copyFile, lchown, mkdir, open, symlink, type FileHandle } from "node:fs/promises";
import { blobPath, type Shelf } from "./shelf.ts";
import { below, openFolder, type Entry } from "./walk.ts";

const FILE = constants.O_RDONLY | constants.O_NOFOLLOW;

interface Laying {
  readonly shelf: Shelf;
  readonly owner: { readonly uid: number; readonly gid: number };
  readonly signal: AbortSignal;
}

const nameOf = (path: string): string => path.slice(path.lastIndexOf("/") + 1);

async function finish(laying: Laying, file: FileHandle, entry: Entry): Promise<void> {
  await file.chown(laying.owner.uid, laying.owner.gid);
  await file.chmod(entry.mode);
  await file.utimes(entry.mtimeMs / 1000, entry.mtimeMs / 1000);
}

async function layFile(laying: Laying, folder: FileHandle, entry: Entry): Promise<void> {
  const at = below(folder, nameOf(entry.path));
  await copyFile(blobPath(laying.shelf, entry.blob ?? ""), at, constants.COPYFILE_EXCL | constants.COPYFILE_FICLONE);
  const file = await open(at, FILE);
  try {
    await finish(laying, file, entry);
  } finally {
    await file.close();
  }
}

async function layLink(laying: Laying, folder: FileHandle, entry: Entry): Promise<void> {
  const at = below(folder, nameOf(entry.path));
  await symlink(Buffer.from(entry.to ?? "", "latin1"), at);
  await lchown(at, laying.owner.uid, laying.owner.gid);
}

/** `list` is in the order of a walk: each folder before what is in it. The folder is empty. */
export async function layOut(root: FileHandle, list: readonly Entry[], laying: Omit<Laying, "owner">): Promise<void> {
  const { uid, gid } = await root.stat();
  const whole: Laying = { ...laying, owner: { uid, gid } };
  const way: { readonly entry: Entry; readonly folder: FileHandle }[] = [];
  const leave = async (): Promise<void> => {
    const last = way.pop();
    if (last === undefined) return;
    // Last, so that a folder that cannot be written is filled first.
    try {
      await finish(whole, last.folder, last.entry);
    } finally {
      await last.folder.close();
    }
  };
  try {
    for (const entry of list) {
      laying.signal.throwIfAborted();
      while (way.length > 0 && !entry.path.startsWith(`${way.at(-1)?.entry.path ?? ""}/`)) await leave();
      const folder = way.at(-1)?.folder ?? root;
      if (entry.type === "file") await layFile(whole, folder, entry);
      else if (entry.type === "link") await layLink(whole, folder, entry);
      else {
        const at = below(folder, nameOf(entry.path));
        await mkdir(at, { mode: 0o700 });
        way.push({ entry, folder: await openFolder(at) });
      }
    }
  } finally {
    while (way.length > 0) await leave().catch(() => undefined);
  }
}
