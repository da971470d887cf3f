// Looks at a Source's folder and at what of it is in the store. Reads only.
import { asBeigeError } from "../../src/core/errors.ts";
import { fingerprint } from "../../src/core/fingerprint.ts";
import { sourceFolder, writableFolders } from "../../src/core/folders.ts";
import type { View } from "../../src/core/kind.ts";
import type { Ref, Source } from "../../src/core/resource.ts";
import { sourceLimits } from "../../src/core/sourcepolicy.ts";
import { BEING_DELETED, type StackRecord, type StackRequest, type Tree } from "../../src/core/source.ts";
import type { World } from "../../src/core/world.ts";
import { folderProblems } from "./check.ts";
import { askedOf } from "./asked.ts";
import { baseOf, revisionText } from "./revision.ts";
import type { SourceSeen, TreeSeen } from "./seen.ts";

/** Sources that hold or watch anything, wanted or not. */
export const sourceNames = (w: World): Promise<readonly Ref[]> =>
  Promise.resolve([...new Set([...w.stacks.names(), ...w.trees.names()])].map((name) => ({ kind: "Source", namespace: "", name })));

/** On real paths: what agents can write that meets this folder. */
async function meets(w: World, source: Source, at: { readonly view: View; readonly root: string }): Promise<TreeSeen | undefined> {
  const { view, root } = at;
  const folder = sourceFolder(source, view);
  if (folder === undefined) return undefined;
  const real = async (path: string): Promise<string> => (await w.workspaces.seen(path)).real;
  const writable = await Promise.all(writableFolders(view).map(async (each) => ({ ...each, path: await real(each.path) })));
  const problems = folderProblems({ ...folder, path: root }, writable, await real(view.home));
  const [first] = problems;
  return first === undefined ? undefined : { ok: false, reason: "PathRefused", message: `${first.message}; ${first.hint ?? ""}`, problems };
}

const REASONS = { not_found: "PathMissing", invalid: "TooLarge", unavailable: "Unsettled" } as const;

async function read(w: World, source: Source, path: string, known: string | undefined): Promise<Tree | Extract<TreeSeen, { ok: false }>> {
  try {
    return await w.trees.read(path, { vars: source.spec.vars, ...(known === undefined ? {} : { known }) });
  } catch (thrown) {
    const error = asBeigeError(thrown);
    const reason = error.code in REASONS ? REASONS[error.code as keyof typeof REASONS] : undefined;
    if (reason === undefined) throw error;
    return { ok: false, reason, message: error.hint === undefined ? error.message : `${error.message}; ${error.hint}` };
  }
}

interface Looked {
  readonly source: Source;
  readonly tree: Tree;
  readonly view: View;
  readonly accepted: StackRecord | undefined;
}

/** The folder as it is, as a request. Its key moves with everything that the answer depends on, other objects aside. */
function requestOf({ source, tree, view, accepted }: Looked): StackRequest {
  const { prune, maxDeletes, allowEmpty, vars, selfHeal } = source.spec;
  const limits = sourceLimits(view.host);
  const { token, force } = askedOf(source);
  const key = fingerprint({ hash: tree.hash, prune, maxDeletes, allowEmpty, vars, limits, uid: source.metadata.uid });
  return {
    source: source.metadata.name,
    files: tree.files,
    key,
    hash: tree.hash,
    revision: revisionText(tree, baseOf(tree, source.status?.observed)),
    ...(token === undefined ? {} : { asked: token }),
    heal: selfHeal === "heal",
    force: force && token !== accepted?.asked,
    prune,
    maxDeletes,
    allowEmpty,
    ...limits,
  };
}

/** Not while something is still on its way out: then it would be in its own way. */
const heal = (source: Source, drift: SourceSeen["drift"]): boolean =>
  source.spec.selfHeal === "heal" && drift.length > 0 && drift.every(({ after }) => after !== BEING_DELETED);

async function offerOf(w: World, looked: Looked, heals: boolean): Promise<SourceSeen["offer"]> {
  const { tree, accepted } = looked;
  const request = requestOf(looked);
  if (tree.problems.length > 0) return { request, answer: { state: "problems", problems: tree.problems } };
  if (accepted?.key === request.key && accepted.asked === request.asked && !heals) return undefined;
  return { request, answer: await w.stacks.check(request) };
}

/** What was accepted, for as long as the folder holds nothing better. */
async function repairOf(w: World, source: Source, view: View): Promise<SourceSeen["repair"]> {
  const good = w.stacks.good(source.metadata.name);
  if (good === undefined) return undefined;
  // It is the accepted content under today's policy; whatever left it since is not deleted for it.
  const request = { ...good, ...sourceLimits(view.host), heal: true, force: false, prune: false };
  return { request, answer: await w.stacks.check(request) };
}

export async function observeSource(w: World, ref: Ref, source: Source | undefined, view: View): Promise<SourceSeen> {
  const { name } = ref;
  const accepted = w.stacks.accepted(name);
  const watched = w.trees.watched(name);
  const base: SourceSeen = {
    name,
    drift: [],
    held: w.stacks.held(name),
    ...(watched === undefined ? {} : { watched }),
    ...(accepted === undefined ? {} : { accepted }),
  };
  const path = source === undefined ? undefined : sourceFolder(source, view)?.path;
  if (source === undefined || path === undefined) return base;
  if (source.metadata.deletionTimestamp !== undefined || source.spec.suspend) return { ...base, path };
  const drift = w.stacks.drift(name);
  const seen = { ...base, path, drift };
  const heals = heal(source, drift);
  const tree = await read(w, source, path, accepted?.hash);
  const repaired = async (): Promise<Pick<SourceSeen, "repair">> => {
    const repair = heals ? await repairOf(w, source, view) : undefined;
    return repair === undefined ? {} : { repair };
  };
  if ("ok" in tree) return { ...seen, tree, ...(await repaired()) };
  const refused = await meets(w, source, { view, root: tree.place.slice(0, tree.place.lastIndexOf(" ")) });
  if (refused !== undefined) return { ...seen, tree: refused };
  const { place, hash, git, files } = tree;
  const treeSeen: TreeSeen = { ok: true, tree: { place, hash, files: files.length, ...(git === undefined ? {} : { git }) } };
  const offer = await offerOf(w, { source, tree, view, accepted }, heals);
  if (offer === undefined) return { ...seen, tree: treeSeen };
  return { ...seen, tree: treeSeen, offer, ...(offer.answer.state === "fine" ? {} : await repaired()) };
}
