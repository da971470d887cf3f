// Names of the manifests below a folder, in order. Hidden names are left alone; links are followed only as far as the folder goes.
import { lstat, readdir, realpath, stat } from "node:fs/promises";
import { join } from "node:path";
import { BeigeError } from "../../core/errors.ts";
import { codeOf, isBelow, Moved } from "./file.ts";

export interface Found {
  /** Relative to the folder. */
  readonly names: readonly string[];
  /** Links that do not lead to anything in the folder, by name. */
  readonly bad: ReadonlyMap<string, string>;
}

export interface WalkLimits {
  readonly files: number;
  /** Names of any sort. */
  readonly entries: number;
  readonly depth: number;
}
export const WALK: WalkLimits = { files: 10_000, entries: 200_000, depth: 32 };

/** A whole word with an ending of ours: what editors leave beside it (x.yaml~, #x.yaml#, .#x.yaml, .x.yaml.swp, 4913) has none, or is hidden. */
const isManifest = (name: string): boolean => /^[^.#~].*\.(ya?ml|json)$/.test(name);
const isSkipped = (name: string): boolean => name.startsWith(".") || name === "node_modules";

interface Walk {
  readonly root: string;
  readonly limits: WalkLimits;
  readonly names: string[];
  readonly bad: Map<string, string>;
  entries: number;
}

/** What a link leads to; undefined when that is nothing, or outside. */
async function target(walk: Walk, path: string): Promise<{ readonly real: string; readonly folder: boolean } | "away" | "nothing"> {
  try {
    const real = await realpath(path);
    if (real !== walk.root && !isBelow(walk.root, real)) return "away";
    return { real, folder: (await stat(real)).isDirectory() };
  } catch (error) {
    if (codeOf(error) === "ENOENT" || codeOf(error) === "ELOOP" || codeOf(error) === "ENOTDIR") return "nothing";
    throw error;
  }
}

async function linked(walk: Walk, path: string, at: { readonly name: string; readonly above: readonly string[] }): Promise<void> {
  const { name, above } = at;
  const to = await target(walk, path);
  if (to === "away" || to === "nothing") {
    // The link may be on its way elsewhere: it is looked at once more with all the rest.
    if (isManifest(name.slice(name.lastIndexOf("/") + 1)))
      walk.bad.set(name, to === "away" ? "is a link that leads out of the folder" : "is a link that leads nowhere");
    return;
  }
  // A link to a folder that it lies in would go round for ever.
  if (to.folder && !above.includes(to.real)) await folder(walk, to.real, { name, above });
  else if (!to.folder) add(walk, name);
}

function add(walk: Walk, name: string): void {
  if (!isManifest(name.slice(name.lastIndexOf("/") + 1))) return;
  if (walk.names.length >= walk.limits.files) throw tooMuch(`more than ${walk.limits.files} manifests`);
  walk.names.push(name);
}

async function folder(walk: Walk, real: string, at: { readonly name: string; readonly above: readonly string[] }): Promise<void> {
  const { name, above } = at;
  if (above.length >= walk.limits.depth) throw tooMuch(`folders more than ${walk.limits.depth} deep`);
  const entries = await readdir(real, { withFileTypes: true });
  walk.entries += entries.length;
  if (walk.entries > walk.limits.entries) throw tooMuch(`more than ${walk.limits.entries} files`);
  for (const entry of entries) {
    if (isSkipped(entry.name)) continue;
    const below = name === "" ? entry.name : `${name}/${entry.name}`;
    const path = join(real, entry.name);
    if (entry.isSymbolicLink()) await linked(walk, path, { name: below, above: [...above, real] });
    else if (entry.isDirectory()) await folder(walk, path, { name: below, above: [...above, real] });
    else add(walk, below);
  }
}

const tooMuch = (what: string): BeigeError =>
  new BeigeError("invalid", `the folder has ${what}`, { hint: "name a folder that holds the manifests only" });

/** Throws Moved when something went away meanwhile. */
export async function walkFolder(root: string, limits: WalkLimits = WALK): Promise<Found> {
  const walk: Walk = { root, limits, names: [], bad: new Map(), entries: 0 };
  try {
    await folder(walk, root, { name: "", above: [] });
  } catch (error) {
    if (codeOf(error) === "ENOENT" || codeOf(error) === "ENOTDIR") throw new Moved(root);
    if (codeOf(error) === "EACCES")
      throw new BeigeError("invalid", `a folder below ${root} cannot be read: permission denied`, {
        hint: "let the gateway's user read it",
      });
    throw error;
  }
  return { names: walk.names.toSorted(), bad: walk.bad };
}

/** Path with every link resolved and the inode, which tells a folder from another one put in its place. */
export async function placeOf(path: string): Promise<{ readonly root: string; readonly place: string }> {
  try {
    const root = await realpath(path);
    const stats = await lstat(root);
    if (!stats.isDirectory())
      throw new BeigeError("invalid", `${path} is not a folder`, { hint: "name the folder that holds the manifests" });
    return { root, place: `${root} ${stats.dev}:${stats.ino}` };
  } catch (error) {
    if (error instanceof BeigeError) throw error;
    if (codeOf(error) === "ENOENT" || codeOf(error) === "ENOTDIR" || codeOf(error) === "ELOOP")
      throw new BeigeError("not_found", `folder ${path} does not exist`, { hint: `mkdir -p ${path}, or mend spec.path` });
    if (codeOf(error) === "EACCES")
      throw new BeigeError("invalid", `folder ${path} cannot be read: permission denied`, { hint: "let the gateway's user read it" });
    throw error;
  }
}
