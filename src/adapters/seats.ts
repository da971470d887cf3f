// The folders of seats: a link at the agent's usual place leads to its workspace, and at the end what is kept moves there.
import { lstat, mkdir, readlink, rename, rm, rmdir, symlink, unlink } from "node:fs/promises";
import { dirname } from "node:path";
import { BeigeError } from "../core/errors.ts";

export interface SeatFolders {
  /** A link at the usual place, for people and their tools; the gateway itself never follows it. What is there already stays. */
  point(usual: string, workspace: string): Promise<void>;
  /** The workspace, if it is still there, moves to the usual place in one step. Throws `conflict` when something else is there. */
  bringHome(usual: string, workspace: string): Promise<void>;
  /** Removes an empty folder; one that is not stays. */
  tidy(folder: string): Promise<void>;
  /** Nobody ever had it, so all that is in it is the gateway's. */
  clear(folder: string): Promise<void>;
}

const kindOf = async (path: string): Promise<"nothing" | "link" | "folder" | "other"> => {
  const stats = await lstat(path).catch(() => undefined);
  if (stats === undefined) return "nothing";
  return stats.isSymbolicLink() ? "link" : stats.isDirectory() ? "folder" : "other";
};

const IN_THE_WAY = ["ENOTEMPTY", "EEXIST", "ENOTDIR", "EISDIR"];

export function notMoved(workspace: string, usual: string, cause: unknown): BeigeError {
  const { code = "", message } = cause as NodeJS.ErrnoException;
  const about = `workspace ${workspace} cannot move to ${usual}`;
  if (IN_THE_WAY.includes(code))
    return new BeigeError("conflict", `${about}: something is there`, { hint: `mv ${usual} ${usual}.other`, cause });
  const away = code === "EXDEV";
  const hint = away
    ? `rm -f ${usual} && cp -a ${workspace} ${usual} && rm -rf ${workspace}`
    : `ls -la ${dirname(usual)} ${dirname(workspace)}`;
  return new BeigeError("conflict", `${about}: ${away ? "that is another file system" : message}`, { hint, cause });
}

export const createSeatFolders = (): SeatFolders => ({
  async point(usual, workspace) {
    const there = await kindOf(usual);
    if (there === "folder" || there === "other") return;
    if (there === "link") {
      if ((await readlink(usual)) === workspace) return;
      await unlink(usual);
    }
    await mkdir(dirname(usual), { recursive: true, mode: 0o700 });
    await symlink(workspace, usual);
  },
  async bringHome(usual, workspace) {
    const here = await kindOf(workspace);
    const there = await kindOf(usual);
    if (there === "link" && (await readlink(usual)) === workspace) await unlink(usual);
    if (here !== "folder") return;
    await mkdir(dirname(usual), { recursive: true, mode: 0o700 });
    // An empty folder in the way is replaced; nothing else is.
    await rename(workspace, usual).catch((cause: unknown) => {
      throw notMoved(workspace, usual, cause);
    });
  },
  tidy: (folder) => rmdir(folder).catch(() => undefined),
  clear: (folder) => rm(folder, { recursive: true, force: true }),
});
