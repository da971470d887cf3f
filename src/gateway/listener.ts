// A unix socket in an agent's folder: made whatever an earlier gateway left there, for the sandbox's user alone.
import { chmod, chown, lstat, mkdir, rmdir, unlink } from "node:fs/promises";
import type { Server } from "node:net";
import { BeigeError } from "../core/errors.ts";
import { SOCKET_PATH_MAX } from "../core/paths.ts";

export type Owner = { readonly uid: number; readonly gid: number };

/** Removes what an earlier gateway left: a socket, or the empty folder that an engine makes where a mount's source is missing. */
export async function clear(path: string): Promise<void> {
  const left = await lstat(path).catch(() => undefined);
  if (left === undefined) return;
  if (
    left.isDirectory() &&
    (await rmdir(path).then(
      () => true,
      () => false,
    ))
  )
    return;
  if (!left.isSocket()) throw new BeigeError("unavailable", `${path} is in the way: it is no socket`, { hint: `ls -ld ${path}` });
  await unlink(path);
}

export async function makeFolder(path: string): Promise<void> {
  await mkdir(path, { recursive: true, mode: 0o711 });
  const stats = await lstat(path);
  if (!stats.isDirectory()) throw new BeigeError("unavailable", `${path} is in the way: it is no folder`, { hint: `ls -ld ${path}` });
  await chmod(path, 0o711);
}

export async function listen(server: Server, path: string, owner: Owner): Promise<number> {
  await new Promise<void>((done, fail) => {
    server.once("error", fail);
    server.listen({ path, backlog: 511 }, () => {
      server.off("error", fail);
      done();
    });
  });
  await chmod(path, 0o600);
  if (process.getuid?.() === 0) await chown(path, owner.uid, owner.gid);
  return (await lstat(path)).ino;
}

export function checkLength(path: string): void {
  const size = Buffer.byteLength(path);
  if (size <= SOCKET_PATH_MAX) return;
  throw new BeigeError("invalid", `socket path ${path} has ${size} bytes, and a unix socket takes ${SOCKET_PATH_MAX}`, {
    hint: "use a shorter BEIGE_HOME",
  });
}

export async function dropSocket(path: string): Promise<void> {
  const left = await lstat(path).catch(() => undefined);
  if (left?.isSocket() === true) await unlink(path).catch(() => undefined);
}
