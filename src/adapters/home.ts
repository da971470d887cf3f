// The gateway's folder: made where it is missing, and refused in plain words where nothing can be kept in it.
import { accessSync, constants, mkdirSync, realpathSync } from "node:fs";
import { join } from "node:path";
import { BeigeError } from "../core/errors.ts";

const ROOM = 0o700;
const WHY: Readonly<Record<string, string>> = {
  EACCES: "it belongs to somebody else",
  EPERM: "it belongs to somebody else",
  EROFS: "its file system is read-only",
  EEXIST: "there is a file of that name",
  ENOTDIR: "a part of it is a file",
  ENOSPC: "the disk is full",
  ELOOP: "its links go round in a circle",
  ENAMETOOLONG: "it is too long",
};

/** Answers the path with links resolved: Docker shows mounts that way, and another spelling would look like drift. Throws `unavailable`. */
export function openHome(path: string): string {
  try {
    mkdirSync(path, { recursive: true, mode: ROOM });
    const home = realpathSync(path);
    const logs = join(home, "logs");
    accessSync(home, constants.R_OK | constants.W_OK | constants.X_OK);
    mkdirSync(logs, { recursive: true, mode: ROOM });
    accessSync(logs, constants.W_OK | constants.X_OK);
    return home;
  } catch (error) {
    const code = (error as NodeJS.ErrnoException).code ?? "";
    throw new BeigeError("unavailable", `${path} cannot be the gateway's folder: ${WHY[code] ?? String(error)}`, {
      hint: `ls -ld ${path}; or: export BEIGE_HOME=/another/folder`,
      cause: error,
    });
  }
}
