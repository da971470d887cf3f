// Where the store may lie: a private folder on a local disk.
import { chmodSync, closeSync, mkdirSync, openSync, statfsSync } from "node:fs";
import { BeigeError } from "../../core/errors.ts";

/** Magic numbers of statfs(2). Their locks and their mapped memory do not hold what SQLite needs. */
const NETWORK: Readonly<Record<number, string>> = {
  0x6969: "nfs",
  0xff534d42: "cifs",
  0xfe534d42: "smb2",
  0x517b: "smb",
  0x01021997: "9p",
};

/** The name of a network file system, undefined for a local one. */
export const networkName = (type: number): string | undefined => NETWORK[type >>> 0];

/** Makes the folder (0700). Throws `unavailable` when it cannot be made or lies on a network file system. */
export function preparePlace(home: string, typeOf: (path: string) => number = (path) => statfsSync(path).type): void {
  try {
    mkdirSync(home, { recursive: true, mode: 0o700 });
  } catch (cause) {
    throw new BeigeError("unavailable", `cannot make the folder ${home}`, { hint: `mkdir -p ${home}`, cause });
  }
  const network = networkName(typeOf(home));
  if (network === undefined) return;
  throw new BeigeError("unavailable", `the store cannot lie on a network file system: ${home} is on ${network}`, {
    hint: "set BEIGE_HOME to a folder on a local disk",
  });
}

/** Makes the file readable by its owner alone, before SQLite opens it: -wal and -shm inherit the mode. */
export function privateFile(path: string): void {
  try {
    closeSync(openSync(path, "a", 0o600));
    chmodSync(path, 0o600);
  } catch (cause) {
    throw new BeigeError("unavailable", `cannot write ${path}`, { hint: `ls -ld ${path}`, cause });
  }
}
