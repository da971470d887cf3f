// Which host folders may be given away: pure checks on real paths, those with every link resolved.
import { overlaps, within } from "./paths.ts";

/** A folder and whose it is. `path` is absolute and real. */
export interface Folder {
  /** As people write it: `agent/travel`, `plugin/git`. */
  readonly owner: string;
  readonly path: string;
  readonly use: "workspace" | "mount" | "plugin" | "source";
  readonly writable: boolean;
  /** The owner allows another agent to have the same workspace. */
  readonly shared?: boolean;
}

export interface Clash {
  readonly folder: Folder;
  readonly other?: Folder;
  readonly message: string;
  readonly hint: string;
}

/** Where beige and its user live. */
export interface Homes {
  /** BEIGE_HOME, real. */
  readonly beige: string;
  /** Folder of an agent's own workspace below BEIGE_HOME, by owner: the only part of it that may be mounted. */
  readonly own?: Readonly<Record<string, string>>;
  /** Folders of beige's own code, real: whoever writes there is the gateway. */
  readonly code?: readonly string[];
  /** Home folders of users, real. */
  readonly users?: readonly string[];
}

/** Nothing at, above or below these is ever mounted. */
const SYSTEM = [
  "/etc",
  "/proc",
  "/sys",
  "/dev",
  "/boot",
  "/var/run/docker.sock",
  "/run/docker.sock",
  "/var/lib/docker",
  "/var/lib/containerd",
  "/run/containerd",
];
/** Nothing at or above these, but a folder below them may be. */
const CROWDED = [
  "/",
  "/bin",
  "/home",
  "/lib",
  "/lib64",
  "/media",
  "/mnt",
  "/opt",
  "/root",
  "/run",
  "/sbin",
  "/srv",
  "/tmp",
  "/usr",
  "/var",
  "/var/lib",
  "/var/run",
  "/run/user",
];
/** Below every home folder: keys, tokens, and files that run at the next sign-in. */
const PRIVATE = [
  ".ssh",
  ".aws",
  ".azure",
  ".gnupg",
  ".config",
  ".kube",
  ".docker",
  ".npmrc",
  ".netrc",
  ".pgpass",
  ".git-credentials",
  ".password-store",
  ".local/share/keyrings",
  ".mozilla",
  ".bash_history",
  ".bashrc",
  ".profile",
  ".zshrc",
];

/** Why a host path is never mounted or made a workspace; undefined when it may be. */
export function dangerous(path: string, homes: Homes): string | undefined {
  if (CROWDED.includes(path)) return `${path} holds far more than one agent should see`;
  const system = SYSTEM.find((root) => overlaps(path, root));
  if (system !== undefined)
    return path === system ? `${path} gives power over the host` : `${path} holds or lies in ${system}, which gives power over the host`;
  if (/(^|\/)(docker|containerd|podman|crio)\.sock$/.test(path)) return `${path} gives power over the host`;
  const code = homes.code?.find((root) => overlaps(path, root));
  if (code !== undefined) return `${path} holds or lies in ${code}, which is code of beige itself`;
  for (const home of homes.users ?? []) {
    if (path === home || within(home, path)) return `${path} is or holds a home folder`;
    const secret = PRIVATE.map((name) => `${home}/${name}`).find((root) => overlaps(path, root));
    if (secret !== undefined) return `${path} holds or lies in ${secret}, where keys are kept`;
  }
  const kept = path.split("/").find((part) => PRIVATE.slice(0, 8).includes(part));
  return kept === undefined ? undefined : `${path} lies in ${kept}, where keys are kept`;
}

/** Whether a path is one of the roots or lies below one; the empty list allows nothing. */
export const allowedBy = (path: string, roots: readonly string[]): boolean => roots.some((root) => within(path, stripSlash(root)));

const stripSlash = (path: string): string => (path.length > 1 ? path.replace(/\/+$/, "") : path);

/** Everything that is wrong with `mine`, each against BEIGE_HOME and against `others`. Order does not matter; `mine` are also compared with each other. */
export function clashes(mine: readonly Folder[], others: readonly Folder[], homes: Homes): readonly Clash[] {
  const found: Clash[] = [];
  for (const [i, folder] of mine.entries()) {
    const home = homeClash(folder, homes);
    if (home) found.push(home);
    for (const other of [...others, ...mine.slice(i + 1)]) {
      const clash = pair(folder, other);
      if (clash) found.push(clash);
    }
  }
  return found;
}

function homeClash(folder: Folder, homes: Homes): Clash | undefined {
  if (folder.use !== "workspace" && folder.use !== "mount") return undefined;
  const own = homes.own?.[folder.owner];
  if (own !== undefined && folder.use === "workspace" && folder.path === own) return undefined;
  if (!overlaps(folder.path, homes.beige)) return undefined;
  const message = `${folder.use} ${folder.path} of ${folder.owner} overlaps BEIGE_HOME ${homes.beige}`;
  return { folder, message, hint: "keys, audit and other agents live there: choose a folder outside it" };
}

/** A folder inside one that an agent writes, its own as well: the agent could put a link in its place, which the next start would follow. */
function swappable(a: Folder, b: Folder): Clash | undefined {
  if (!isAgents(a) || !isAgents(b) || a.path === b.path) return undefined;
  const [inner, outer] = a.path.length > b.path.length ? [a, b] : [b, a];
  if (!outer.writable) return undefined;
  const message = `${inner.use} ${inner.path} of ${inner.owner} overlaps ${outer.use} ${outer.path} of ${outer.owner}, who could put a link in its place`;
  return { folder: a, other: b, message, hint: `name ${outer.path} itself, make that one readOnly, or choose another folder` };
}

/** Two folders that must not meet: writable ones with what decides about agents, and with other agents' work. */
function pair(a: Folder, b: Folder): Clash | undefined {
  if (!overlaps(a.path, b.path)) return undefined;
  const nested = swappable(a, b);
  if (nested !== undefined) return nested;
  if (a.owner === b.owner && isAgents(a) && isAgents(b)) return undefined;
  const guarded = [a, b].find((f) => !isAgents(f));
  const writer = [a, b].find((f) => isAgents(f) && f.writable);
  if (guarded) {
    if (!writer) return undefined;
    const message = `${writer.use} ${writer.path} of ${writer.owner} overlaps ${guarded.path} of ${guarded.owner}`;
    return { folder: a, other: b, message, hint: "what an agent can write must not decide what agents may do: choose another folder" };
  }
  const workspace = [a, b].find((f) => f.use === "workspace");
  if (!workspace || !writer) return undefined;
  if (a.use === "workspace" && b.use === "workspace" && a.path === b.path && a.shared === true && b.shared === true) return undefined;
  const message = `${a.use} ${a.path} of ${a.owner} overlaps ${b.use} ${b.path} of ${b.owner}`;
  return {
    folder: a,
    other: b,
    message,
    hint: "choose another folder, or set workspace.shared: true on both agents for one common folder",
  };
}

const isAgents = (folder: Folder): boolean => folder.use === "workspace" || folder.use === "mount";
