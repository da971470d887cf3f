// Revisions of Sources on their way to the store: read, checked and planned as an apply is, in one transaction, under the manager source/NAME.
import type { Change } from "./store/objects.ts";
import { BeigeError, type Problem } from "../core/errors.ts";
import { MAX_PROBLEMS, type NeededFile } from "../core/documents.ts";
import { refKey, refOf, type Ref, type Resource } from "../core/resource.ts";
import { sourceProblems } from "../core/sourcepolicy.ts";
import type { StackAnswer, StackRequest, Stacks } from "../core/source.ts";
import type { Shelf } from "../core/world.ts";
import { deedsOf, recordDeed } from "./asked.ts";
import { commit, markDeleted, pruned } from "./apply/commit.ts";
import { readSet, type WantedDocument } from "./apply/read.ts";
import { planSet, SetRefusal, stillSo, type PlannedSet, type SetDeps } from "./apply/set.ts";
import { placed } from "./language.ts";
import { createPace } from "./pace.ts";
import { createRecords, driftOf, managerOf, ownedNow, wasOwned } from "./stacks/record.ts";

export interface StacksDeps extends SetDeps {
  readonly shelf: Shelf;
}

type Checked =
  | { readonly answer: Exclude<StackAnswer, { state: "fine" }> }
  | { readonly answer: Extract<StackAnswer, { state: "fine" }>; readonly set: PlannedSet };

/** How long a plan may be taken again: what it refers to may change without it. */
const FRESH_MS = 10_000;

const EMPTY_HINT = "put the manifests back, or say on the Source that it may be empty: allowEmpty: true";

function needed(files: readonly NeededFile[]): readonly Problem[] {
  return files.map(({ manifest, path }) => ({
    message: `text file ${path} is not there`,
    at: { file: manifest, line: 1, column: 1 },
    hint: "put it beside the manifest, or below it",
  }));
}

const forbidden = (deps: StacksDeps, request: StackRequest, wanted: readonly WantedDocument[]): readonly Problem[] =>
  wanted.flatMap(({ ref, document }) => {
    const of = { limits: request, schema: deps.language.schemas.get(ref.kind) };
    const object = `${ref.kind}/${ref.name}`;
    return sourceProblems(ref.kind, document.value, of).map((problem) => placed({ ...problem, object }, document));
  });

function answerOf(thrown: unknown): Exclude<StackAnswer, { state: "fine" }> {
  if (!(thrown instanceof SetRefusal)) throw thrown;
  if (thrown.why === "problems") return { state: "problems", problems: thrown.problems };
  return { state: thrown.why === "guard" ? "refused" : "conflicts", message: thrown.message, hint: thrown.hint ?? "" };
}

/** The key says the content and the conditions. */
const sameAsk = (a: StackRequest, b: StackRequest): boolean =>
  a.key === b.key && a.heal === b.heal && a.force === b.force && a.prune === b.prune;

export function createStacks(deps: StacksDeps): Stacks {
  const { store } = deps;
  const records = createRecords(deps.shelf);
  /** The last plan of each Source, so that what was checked is what is stored. */
  const checked = new Map<
    string,
    { readonly request: StackRequest; readonly atMs: number } & Extract<Checked, { readonly set: PlannedSet }>
  >();

  /** Text that is wrong by itself is not read again until it changes. */
  const broken = new Map<string, { readonly key: string; readonly answer: Extract<StackAnswer, { state: "problems" }> }>();

  async function look(request: StackRequest): Promise<Checked> {
    const pace = createPace(deps.clock);
    const bad = broken.get(request.source);
    if (bad?.key === request.key) return { answer: bad.answer };
    const read = await readSet(request.files, deps.language, pace, store.objects.get);
    const problems = [...read.problems, ...needed(read.needFiles), ...forbidden(deps, request, read.wanted)].slice(0, MAX_PROBLEMS);
    if (problems.length > 0) {
      const answer = { state: "problems", problems } as const;
      broken.set(request.source, { key: request.key, answer });
      return { answer };
    }
    broken.delete(request.source);
    if (read.wanted.length === 0 && !request.allowEmpty)
      return { answer: { state: "refused", message: "the folder holds no objects any more", hint: EMPTY_HINT } };
    const owned = request.heal ? wasOwned(records.owned(request.source)) : undefined;
    const guard = {
      maxDeletes: request.maxDeletes,
      allowEmpty: request.allowEmpty,
      hint: "allow more on the Source: maxDeletes: NUMBER",
    };
    try {
      const set = await planSet(
        deps,
        {
          manager: managerOf(request.source),
          force: request.force,
          ...(owned === undefined ? {} : { reclaim: (ref: Ref, conflict: { readonly path: string }) => owned(ref, conflict.path) }),
          prune: request.prune,
          guard,
          lookAtAll: false,
        },
        read.wanted,
        pace,
      );
      const changed = set.stage.staged.filter((staged) => staged.changed).length;
      return {
        set,
        answer: { state: "fine", changed, unchanged: set.stage.staged.length - changed, deleted: set.pruned.remove.length },
      };
    } catch (thrown) {
      return { answer: answerOf(thrown) };
    }
  }

  async function planned(request: StackRequest): Promise<PlannedSet> {
    const known = checked.get(request.source);
    if (known?.request === request && stillSo(deps, known.set)) return known.set;
    const found = await look(request);
    if ("set" in found) return found.set;
    const { answer } = found;
    if (answer.state === "problems")
      throw new BeigeError("invalid", `revision ${request.revision} of source ${request.source} is not valid`, {
        problems: answer.problems,
      });
    throw new BeigeError("conflict", answer.message, answer.hint === "" ? {} : { hint: answer.hint });
  }

  function accept(request: StackRequest, refs: readonly Ref[]): void {
    const { key, hash, revision, asked } = request;
    const record = { key, hash, revision, ...(asked === undefined ? {} : { asked }), at: deps.clock.now(), objects: refs.length };
    records.put(request.source, record, { owned: ownedNow(store, request.source, refs), request });
  }

  return {
    accepted: (source) => records.get(source),
    drift: (source) => driftOf(store, source, records.owned(source)),
    async check(request) {
      const known = checked.get(request.source);
      const fresh = known !== undefined && deps.clock.monotonic() - known.atMs < FRESH_MS;
      if (fresh && sameAsk(known.request, request) && stillSo(deps, known.set)) {
        checked.set(request.source, { ...known, request });
        return known.answer;
      }
      checked.delete(request.source);
      const found = await look(request);
      if ("set" in found) checked.set(request.source, { request, atMs: deps.clock.monotonic(), ...found });
      return found.answer;
    },
    async apply(request) {
      const set = await planned(request);
      checked.delete(request.source);
      commit(store, set.manager, { staged: set.stage.staged, pruned: set.pruned, now: deps.clock.now() });
      const refs = deedsOf(set);
      const by = { principal: { kind: "source", name: request.source }, door: "source" } as const;
      accept(
        request,
        set.stage.staged.map(({ ref }) => ref),
      );
      if (refs.length > 0) await recordDeed(deps.world, by, { verb: "apply", refs, manager: set.manager, what: request.revision });
    },
    good: (source) => records.request(source),
    async release(source, how) {
      const pace = createPace(deps.clock);
      checked.delete(source);
      broken.delete(source);
      const manager = managerOf(source);
      const gone = how.delete ? pruned(store, manager, { keep: [], prune: true }).remove.map((object) => refKey(refOf(object))) : [];
      const deleted = new Set(gone);
      const changes: Change[] = [];
      for (const ref of store.records.held(manager)) {
        const object = store.objects.get(ref);
        const free = object === undefined ? undefined : disowned(object, manager);
        if (free !== undefined)
          changes.push({ type: "put", object: deleted.has(refKey(ref)) ? markDeleted(free, deps.clock.now()) : free });
        changes.push({ type: "release", manager, ref });
        await pace();
      }
      if (changes.length > 0) store.objects.write(changes, "full");
      records.forget(source);
    },
    held: (source) => store.records.held(managerOf(source)).length,
    names: () => records.names(),
  };
}

/** The object without its owner: its fields stay. */
function disowned(object: Resource, manager: string): Resource {
  const { managedFields, ...metadata } = object.metadata;
  const kept = (managedFields ?? []).filter((each) => each.manager !== manager);
  return { ...object, metadata: { ...metadata, ...(kept.length === 0 ? {} : { managedFields: kept }) } };
}
