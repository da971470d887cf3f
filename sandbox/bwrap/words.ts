// The command line of bwrap for a sandbox: namespaces, a root of read-only pieces, mounts, environment. Pure but for a look at the image.
import { lstatSync, readdirSync, readlinkSync, realpathSync, statSync } from "node:fs";
import { createHash } from "node:crypto";
import { join } from "node:path";
import type { SandboxSpec } from "../../src/core/sandbox.ts";
import type { Group } from "./group.ts";

/** The image that is this machine's own programs. */
export const HOST_IMAGE = "host";
const HOST_PIECES = ["bin", "lib", "lib32", "lib64", "sbin", "usr"];
/** Of /etc no more than programs need to run. */
const HOST_ETC = ["/etc/alternatives", "/etc/ssl/certs", "/etc/ld.so.cache", "/etc/localtime"];
/** Made anew in every sandbox. */
const OWN = new Set(["beige", "boot", "dev", "home", "media", "mnt", "proc", "root", "run", "srv", "sys", "tmp", "tools", "workspace"]);
/** Inside the mount namespace that bwrap is started in; nothing of it is seen on the host. */
export const STAGE = "/run/beige-stage";
export const SHM_BYTES = 64 << 20;

export const imageFolder = (home: string, ref: string): string | undefined => {
  if (ref === HOST_IMAGE) return "/";
  const path = join(home, "images", ref);
  return statSync(path, { throwIfNoEntry: false })?.isDirectory() === true ? realpathSync(path) : undefined;
};

/** Moves when the folder is exchanged. */
export function imageId(home: string, ref: string): string | undefined {
  const folder = imageFolder(home, ref);
  if (folder === undefined) return undefined;
  const { ino, dev } = statSync(folder);
  return `folder:${createHash("sha256").update(`${ref} ${folder} ${dev} ${ino}`).digest("hex")}`;
}

function pieces(folder: string): readonly string[] {
  const host = folder === "/";
  const names = readdirSync(folder).filter((name) => (host ? HOST_PIECES.includes(name) : !OWN.has(name)));
  return names.toSorted().flatMap((name) => {
    const path = join(folder, name);
    return lstatSync(path).isSymbolicLink() ? ["--symlink", readlinkSync(path), `/${name}`] : ["--ro-bind", path, `/${name}`];
  });
}

/** Folders of the host that bwrap cannot reach as the sandbox's user; each is bound to STAGE/INDEX before. */
export const staged = (spec: SandboxSpec, folder: string): readonly string[] => [
  ...(folder === "/" ? [] : [folder]),
  ...spec.mounts.map(({ source }) => source),
];

export function bwrapWords(
  spec: SandboxSpec,
  about: Pick<Group, "kills"> & { readonly id: string; readonly folder: string; readonly stage: boolean; readonly pids?: number },
): readonly string[] {
  const { id, folder, stage, pids, kills } = about;
  const sources = staged(spec, folder);
  const at = (source: string): string => (stage ? `${STAGE}/${sources.indexOf(source)}` : source);
  const root =
    folder === "/" || !stage
      ? pieces(folder)
      : pieces(folder).map((word) => (word.startsWith(`${folder}/`) ? at(folder) + word.slice(folder.length) : word));
  const mounts = spec.mounts.flatMap(({ source, target, readOnly }) => [readOnly ? "--ro-bind" : "--bind", at(source), target]);
  const env = Object.entries(spec.env).flatMap(([name, value]) => ["--setenv", name, value]);
  const { uid, gid } = spec.user;
  const isolate = `--unshare-user --disable-userns --uid ${uid} --gid ${gid} --unshare-ipc --unshare-pid --unshare-net --unshare-uts`;
  const alone = `--unshare-cgroup-try --hostname ${id.slice(0, 12)} --as-pid-1 --new-session --cap-drop ALL --clearenv`;
  const shared = `--proc /proc --dev /dev --size ${SHM_BYTES} --perms 1777 --tmpfs /dev/shm --remount-ro /dev`;
  return [
    ...`${isolate} ${alone}`.split(" "),
    ...env,
    "--json-status-fd",
    "3",
    ...root,
    ...(folder === "/" ? HOST_ETC.flatMap((path) => ["--ro-bind-try", path, path]) : []),
    ...`${shared} --size ${spec.tmpBytes} --perms 1777 --tmpfs /tmp`.split(" "),
    ...mounts,
    ...(kills === undefined ? [] : ["--ro-bind", kills.source, kills.target]),
    ..."--remount-ro / --chdir /workspace -- /beige/tool-client init".split(" "),
    ...(pids === undefined ? [] : ["--processes", String(pids)]),
    // Behind the limit: the filter is the last word.
    "--filter",
  ];
}
