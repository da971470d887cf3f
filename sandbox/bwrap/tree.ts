// Where in the host's trees of control groups this gateway may make groups of its own.
import { join } from "node:path";

export type Controller = "memory" | "cpu" | "pids";
export const CONTROLLERS: readonly Controller[] = ["memory", "cpu", "pids"];

export interface Place {
  readonly version: 1 | 2;
  /** The folder of all groups of beige; not there while there are none. */
  readonly parent: string;
  readonly controllers: readonly Controller[];
}

/** The few ways in which these trees are touched. What cannot be read is the empty text; the others throw. */
export interface GroupFiles {
  read(path: string): string;
  /** Into a file that is there. */
  write(path: string, text: string): void;
  mkdir(path: string): void;
  rmdir(path: string): void;
  /** Folders in a folder. */
  list(path: string): readonly string[];
}

export interface Self {
  readonly pid: number;
  readonly root: boolean;
  /** /proc/self/mountinfo and /proc/self/cgroup. */
  readonly mounts: string;
  readonly groups: string;
  readonly parentOf: (pid: number) => number;
}

/** Groups of beige, and where the gateway goes that stands in their way: a group of version 2 has processes or inner groups. */
const GROUPS = "beige";
const GATEWAY = "beige-gateway";

interface Mounted {
  readonly version: 1 | 2;
  readonly path: string;
  /** Of the tree, what is mounted there. */
  readonly root: string;
  readonly options: readonly string[];
}

function mountedIn(text: string): readonly Mounted[] {
  return text.split("\n").flatMap((line) => {
    const [left = "", right = ""] = line.split(" - ", 2);
    const [, , , root = "", path = ""] = left.split(" ");
    const [kind, , options = ""] = right.split(" ");
    if (kind !== "cgroup" && kind !== "cgroup2") return [];
    return [{ version: kind === "cgroup" ? 1 : 2, path, root, options: options.split(",") } as const];
  });
}

/** The group of this process in a tree, below its mount. */
function ownIn(text: string, { version, root, options }: Mounted): string {
  const line = text.split("\n").find((one) => {
    const [number, names = ""] = one.split(":", 3);
    return version === 2 ? number === "0" : names.split(",").some((name) => name !== "" && options.includes(name));
  });
  const path = line?.split(":").slice(2).join(":") ?? "/";
  const below = root !== "/" && path.startsWith(root) ? path.slice(root.length) : path;
  return below.endsWith(`/${GATEWAY}`) ? below.slice(0, -GATEWAY.length - 1) || "/" : below;
}

function isOwn(self: Self, pid: number): boolean {
  let at = pid;
  for (let step = 0; step < 64 && at > 1; step++) {
    if (at === self.pid) return true;
    at = self.parentOf(at);
  }
  return at === self.pid;
}

/** Lets groups below a folder have limits of these kinds. Throws what the kernel says. */
export function enable(files: GroupFiles, folder: string, controllers: readonly Controller[]): void {
  const on = files.read(join(folder, "cgroup.subtree_control")).trim().split(" ");
  const words = controllers.filter((one) => !on.includes(one)).map((one) => `+${one}`);
  if (words.length > 0) files.write(join(folder, "cgroup.subtree_control"), words.join(" "));
}

/** Where only the gateway and what it started stand in the way, they go into a group beside. Nobody else's process is moved. */
function makeRoom(files: GroupFiles, self: Self, folder: string): boolean {
  const pids = files.read(join(folder, "cgroup.procs")).split("\n").filter(Boolean).map(Number);
  if (!pids.includes(self.pid) || !pids.every((pid) => isOwn(self, pid))) return false;
  files.mkdir(join(folder, GATEWAY));
  for (const pid of pids) files.write(join(folder, GATEWAY, "cgroup.procs"), String(pid));
  return true;
}

function placeOfTwo(files: GroupFiles, self: Self, folder: string): Place | undefined {
  const there = files.read(join(folder, "cgroup.controllers")).trim().split(" ");
  const controllers = CONTROLLERS.filter((one) => there.includes(one));
  if (controllers.length === 0) return undefined;
  const parent = join(folder, GROUPS);
  try {
    try {
      enable(files, folder, controllers);
    } catch (error) {
      if ((error as { code?: string }).code !== "EBUSY" || !makeRoom(files, self, folder)) return undefined;
      enable(files, folder, controllers);
    }
    files.mkdir(parent);
    enable(files, parent, controllers);
    return { version: 2, parent, controllers };
  } catch {
    return undefined;
  }
}

function placeOfOne(files: GroupFiles, folder: string, controllers: readonly Controller[]): Place | undefined {
  const parent = join(folder, GROUPS);
  try {
    files.mkdir(parent);
    return { version: 1, parent, controllers };
  } catch {
    return undefined;
  }
}

/** At the top as root, as an engine does it: a limit of the gateway's is not one of its agents. Else in what was delegated to it. */
function foldersIn(self: Self, mount: Mounted): readonly string[] {
  const own = ownIn(self.groups, mount);
  return [...new Set(self.root ? ["/", own] : [own])].map((path) => join(mount.path, path));
}

export function placesOf(files: GroupFiles, self: Self): readonly Place[] {
  const taken = new Set<Controller>();
  const places: Place[] = [];
  for (const mount of mountedIn(self.mounts)) {
    const controllers = CONTROLLERS.filter((one) => !taken.has(one) && mount.options.includes(one));
    if (mount.version === 1 && controllers.length === 0) continue;
    for (const folder of foldersIn(self, mount)) {
      const place = mount.version === 2 ? placeOfTwo(files, self, folder) : placeOfOne(files, folder, controllers);
      if (place === undefined) continue;
      for (const one of place.controllers) taken.add(one);
      places.push(place);
      break;
    }
  }
  return places;
}

/** Wherever groups of beige may be; changes nothing. */
export const parentsOf = (self: Self): readonly string[] =>
  mountedIn(self.mounts).flatMap((mount) => foldersIn(self, mount).map((folder) => join(folder, GROUPS)));
