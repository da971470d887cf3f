// What is mounted read-only into a sandbox: launchers, documentation of plugins, and the guest binary. Folders are changed in
// place by renames inside them, so that a running sandbox, which has them mounted, sees the new state and hardly ever a half one.
import { createHash, randomBytes } from "node:crypto";
import { chmod, lstat, mkdir, readFile, readdir, readlink, rename, rm, rmdir, symlink, writeFile } from "node:fs/promises";
import { dirname, join } from "node:path";
import type { AgentId } from "../src/core/call.ts";
import { BeigeError } from "../src/core/errors.ts";
import { agentFolder } from "../src/core/paths.ts";
import { placeOf, seatFolder, type AgentPlace, type SeatOf } from "../src/core/seat.ts";
import type { Kit, Kits } from "../src/core/world.ts";
import { createDigests, createListings, type Digest, type Entry, readPlain, sha256 } from "./digests.ts";
import { packageFiles, readTree, type Files } from "./packages.ts";

/** Where every launcher leads, inside. */
export const CLIENT = "/beige/tool-client";
const CLIENT_FILE = "tool-client";
const TOOL_NAME = /^[a-z0-9][a-z0-9._-]{0,126}$/;
const PACKAGE_NAME = /^[a-z0-9][a-z0-9-]{0,62}$/;

type Packages<T> = ReadonlyMap<string, Files<T>>;
/** Both remember what they were asked. */
interface Looks {
  readonly read: (path: string) => Digest | undefined;
  readonly list: (folder: string) => readonly Entry[] | undefined;
}

const NOTHING: Digest = { sha256: sha256(""), length: 0 };

/** Names and contents, each with its length in front, so that nothing can pass for something else. */
function hashKit(guest: string, tools: readonly string[], packages: Packages<Digest>): string {
  const hash = createHash("sha256");
  const add = (text: string): void => void hash.update(`${Buffer.byteLength(text)}:${text}`);
  add("kit 1");
  add(guest);
  for (const tool of tools.toSorted()) add(`tool ${tool}`);
  for (const [name, files] of [...packages].toSorted(([a], [b]) => (a < b ? -1 : 1))) {
    add(`package ${name}`);
    for (const [path, digest] of [...files].toSorted(([a], [b]) => (a < b ? -1 : 1))) {
      add(path);
      add(digest.sha256);
    }
  }
  return hash.digest("hex");
}

function checkNames(kit: Kit): void {
  for (const tool of kit.tools) {
    if (!TOOL_NAME.test(tool)) throw new BeigeError("invalid", `tool name ${JSON.stringify(tool)} cannot be a launcher`);
  }
  for (const { name } of kit.packages) {
    if (!PACKAGE_NAME.test(name)) throw new BeigeError("invalid", `plugin name ${JSON.stringify(name)} cannot be a folder`);
  }
}

async function readPackages<T extends { readonly length: number }>(kit: Kit, read: (path: string) => T | undefined): Promise<Packages<T>> {
  const packages = new Map<string, Files<T>>();
  for (const { name, root, files } of kit.packages) packages.set(name, await packageFiles(root, files, read));
  return packages;
}

const temporary = (folder: string): string => join(folder, `.new-${randomBytes(6).toString("hex")}`);

async function putFile(path: string, data: Uint8Array, mode: number): Promise<void> {
  const fresh = temporary(dirname(path));
  await writeFile(fresh, data, { mode: 0o600, flag: "wx" });
  await chmod(fresh, mode);
  await rename(fresh, path);
}

/** A folder of ours: a link or file in its place is removed, not followed. */
async function ensureFolder(path: string, mode: number): Promise<void> {
  const there = await lstat(path).catch(() => undefined);
  if (there !== undefined && !there.isDirectory()) await rm(path, { force: true });
  await mkdir(path, { recursive: true });
  await chmod(path, mode);
}

async function writeClient(folder: string, guest: Uint8Array): Promise<void> {
  const path = join(folder, CLIENT_FILE);
  const old = await readFile(path).catch(() => undefined);
  if (old === undefined || sha256(old) !== sha256(guest)) await putFile(path, guest, 0o555);
}

async function writeLaunchers(folder: string, tools: readonly string[]): Promise<void> {
  const wanted = new Set(tools);
  for (const name of wanted) {
    if ((await readlink(join(folder, name)).catch(() => undefined)) === CLIENT) continue;
    const fresh = temporary(folder);
    await symlink(CLIENT, fresh);
    await rename(fresh, join(folder, name)).catch(async () => {
      // A folder stands where the launcher belongs.
      await rm(join(folder, name), { recursive: true, force: true });
      await rename(fresh, join(folder, name));
    });
  }
  for (const name of await readdir(folder)) if (!wanted.has(name)) await rm(join(folder, name), { recursive: true, force: true });
}

async function writePackage(folder: string, name: string, files: Files<Uint8Array>): Promise<void> {
  const fresh = temporary(folder);
  await mkdir(fresh, { mode: 0o755 });
  for (const [path, data] of files) {
    await mkdir(dirname(join(fresh, path)), { recursive: true, mode: 0o755 });
    await writeFile(join(fresh, path), data, { mode: 0o444, flag: "wx" });
  }
  const old = temporary(folder);
  await rename(join(folder, name), old).catch(() => undefined);
  await rename(fresh, join(folder, name));
  await rm(old, { recursive: true, force: true });
}

const digested = (files: Files<Uint8Array>): Files<Digest> =>
  new Map([...files].map(([path, data]) => [path, { sha256: sha256(data), length: data.length }]));

async function writePackages(folder: string, packages: Packages<Uint8Array>, looks: Looks): Promise<void> {
  for (const [name, files] of packages) {
    const there = readTree(join(folder, name), { ...looks, nothing: NOTHING });
    const same = there !== undefined && hashKit("", [], new Map([[name, there]])) === hashKit("", [], new Map([[name, digested(files)]]));
    if (!same) await writePackage(folder, name, files);
  }
  for (const name of await readdir(folder)) if (!packages.has(name)) await rm(join(folder, name), { recursive: true, force: true });
}

/** Name of a launcher; what is none spoils the hash. */
const seenTool = ({ name, to }: Entry): string => (to === CLIENT ? name : `not a launcher: ${name}`);

function seenPackages(folder: string, entries: readonly Entry[], looks: Looks): Packages<Digest> {
  const none = new Map([["not a folder", NOTHING]]);
  const how = { ...looks, nothing: NOTHING };
  return new Map(entries.map(({ name }) => [name, readTree(join(folder, name), how) ?? none]));
}

/** All of it lies in the gateway's own folders on a local disk: asking in turn costs less than asking at once. */
function seen(place: AgentPlace, looks: Looks): string | undefined {
  try {
    const client = looks.read(join(place.sockets, CLIENT_FILE));
    const bin = looks.list(place.launchers);
    const docs = looks.list(place.packages);
    if (client === undefined || bin === undefined || docs === undefined) return undefined;
    return hashKit(client.sha256, bin.map(seenTool), seenPackages(place.packages, docs, looks));
  } catch {
    return undefined;
  }
}

async function remove(home: string, agent: AgentId, seatOf: SeatOf | undefined): Promise<void> {
  const place = placeOf(home, agent, seatOf);
  await rm(dirname(place.launchers), { recursive: true, force: true });
  await rm(join(place.sockets, CLIENT_FILE), { force: true });
  // Goes only when the socket has gone too; a workspace below the agent's folder keeps that one.
  await rmdir(place.sockets).catch(() => undefined);
  const seat = seatOf?.(agent.uid);
  await rmdir(seat === undefined ? agentFolder(home, agent) : seatFolder(home, seat)).catch(() => undefined);
}

/** `guest` is the absolute path of the guest binary; it is looked at each time, so that an upgrade shows as another hash. */
export function createKits({ home, guest, seatOf }: { readonly home: string; readonly guest: string; readonly seatOf?: SeatOf }): Kits {
  const looks: Looks = { read: createDigests(), list: createListings() };
  const hashOf = async (kit: Kit): Promise<string> => {
    const client = looks.read(guest);
    if (client === undefined)
      throw new BeigeError("not_found", `the guest binary ${guest} is not there`, { hint: "sandbox/guest/build.sh" });
    return hashKit(client.sha256, kit.tools, await readPackages(kit, looks.read));
  };
  /** Hashes that are being made: agents of one kit that are looked at together need one. */
  const making = new Map<string, Promise<string>>();
  return {
    seen: async (agent) => seen(placeOf(home, agent, seatOf), looks),
    hash: async (kit) => {
      checkNames(kit);
      const key = JSON.stringify([kit.tools, kit.packages]);
      const made = making.get(key) ?? hashOf(kit).finally(() => making.delete(key));
      making.set(key, made);
      return made;
    },
    // The owner needs nothing: all is readable by everybody and writable by the gateway alone.
    write: async (agent, kit) => {
      checkNames(kit);
      const packages = await readPackages(kit, readPlain);
      const binary = await readFile(guest);
      const place = placeOf(home, agent, seatOf);
      const folders = { beige: place.sockets, bin: place.launchers, docs: place.packages };
      await ensureFolder(folders.beige, 0o711);
      await ensureFolder(folders.bin, 0o755);
      await ensureFolder(folders.docs, 0o755);
      await writeClient(folders.beige, binary);
      await writePackages(folders.docs, packages, looks);
      await writeLaunchers(folders.bin, kit.tools);
    },
    remove: (agent) => remove(home, agent, seatOf),
  };
}
