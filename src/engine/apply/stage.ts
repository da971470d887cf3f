// What a set would make of the stored objects: merged by ownership, checked against each other, in apply order.
import { sameSpec } from "../../core/diff.ts";
import { MAX_PROBLEMS } from "../../core/documents.ts";
import type { Problem } from "../../core/errors.ts";
import { cycleProblems, order, unknownReferences } from "../../core/graph.ts";
import type { View } from "../../core/kind.ts";
import { normaliseSpec } from "../../core/normalise.ts";
import { applyOwned, type Conflict } from "../../core/ownership.ts";
import type { Ref, Resource } from "../../core/resource.ts";
import type { Clock, Random } from "../../core/world.ts";
import { placed, type Language } from "../language.ts";
import { checkTogether, type Judged } from "../ratchet.ts";
import { birthUid, changedObject, newObject, sameObject } from "../object.ts";
import type { Store } from "../store.ts";
import { overlaid } from "../view.ts";
import type { WantedDocument } from "./read.ts";

/** One object of the set. */
export interface Staged {
  readonly ref: Ref;
  /** As it is stored now. */
  readonly before?: Resource;
  /** As it would be stored. */
  readonly after: Resource;
  /** Whether the store would change. */
  readonly changed: boolean;
  readonly origin?: string;
  readonly conflicts: readonly Conflict[];
  readonly wanted: WantedDocument;
}

export interface StageDeps {
  readonly store: Store;
  readonly language: Language;
  readonly clock: Clock;
  readonly random: Random;
  readonly view: () => View;
}

export interface StageRequest {
  readonly manager: string;
  readonly force: boolean;
  /** Objects that will be deleted with it: nothing may refer to them. */
  readonly removed: readonly Ref[];
}

export interface Stage {
  /** In apply order. */
  readonly staged: readonly Staged[];
  readonly problems: readonly Problem[];
  /** What was wrong before, in fields that do not change. */
  readonly warnings: readonly Problem[];
  /** What there is afterwards. */
  readonly view: View;
}

interface AtRest {
  readonly staged: Staged;
  readonly manager: string;
  readonly force: boolean;
}

/** Documents that left their object as it was: as long as it is that very object, they do so again. */
const atRest = new WeakMap<WantedDocument, AtRest>();

/** The object that a document leads to. */
export function stageOne(deps: StageDeps, wanted: WantedDocument, request: StageRequest): Staged {
  const { manager, force } = request;
  const before = deps.store.objects.get(wanted.ref);
  const known = atRest.get(wanted);
  if (before !== undefined && known?.staged.before === before && known.manager === manager && known.force === force) return known.staged;
  const staged = stageAnew(deps, wanted, request);
  if (staged.changed || staged.conflicts.length > 0) atRest.delete(wanted);
  else atRest.set(wanted, { staged, manager, force });
  return staged;
}

function stageAnew(deps: StageDeps, wanted: WantedDocument, request: StageRequest): Staged {
  const { store, language, clock } = deps;
  const { ref, applied, document } = wanted;
  const before = store.objects.get(ref);
  const now = clock.now();
  const { merged, managedFields, conflicts } = applyOwned({
    kind: ref.kind,
    ...(before === undefined ? {} : { live: before }),
    managedFields: before?.metadata.managedFields ?? [],
    manager: request.manager,
    applied,
    force: request.force,
    time: new Date(now).toISOString(),
    schemas: language.schemas,
  });
  const content = { spec: normaliseSpec(ref.kind, merged.spec, language.schemas), ...merged.metadata, managedFields };
  const { finalizer } = language.kind(ref.kind);
  const after =
    before === undefined
      ? newObject(ref, content, {
          uid: birthUid(ref, content, { taken: () => store.objects.list(), uuid: () => deps.random.uuid() }),
          now,
          ...(finalizer === undefined ? {} : { finalizer }),
        })
      : changedObject(before, content, sameSpec(ref.kind, before.spec, content.spec, language.schemas));
  const moved = document.folder !== undefined && document.folder !== store.objects.origin(ref);
  return {
    ref,
    ...(before === undefined ? {} : { before }),
    after,
    changed: before === undefined || moved || !sameObject(before, after),
    ...(moved && document.folder !== undefined ? { origin: document.folder } : {}),
    conflicts,
    wanted,
  };
}

/** References that lead nowhere, cycles, and what each kind sees wrong. */
export async function problemsOf(deps: StageDeps, staged: readonly Staged[], view: View, pace: () => Promise<void>): Promise<Judged> {
  const { language } = deps;
  const now = deps.view();
  const problems: Problem[] = [];
  const warnings: Problem[] = [];
  for (const { before, after, wanted } of staged) {
    const names = (kind: string, namespace: string): readonly string[] =>
      view.list(kind).flatMap((o) => (o.metadata.namespace === namespace ? [o.metadata.name] : []));
    const unknown = unknownReferences([after], language.needs, (ref) => view.get(ref) !== undefined, names);
    const change = { ...(before === undefined ? {} : { before }), after, old: wanted.old };
    const { refused, kept } = checkTogether(language, change, { before: now, after: view });
    const shown = (problem: Problem): Problem => placed({ ...problem, object: `${after.kind}/${after.metadata.name}` }, wanted.document);
    problems.push(...[...unknown, ...refused].map(shown));
    warnings.push(...[...wanted.old, ...kept].map(shown));
    if (problems.length >= MAX_PROBLEMS) break;
    await pace();
  }
  return { refused: problems.slice(0, MAX_PROBLEMS), kept: warnings.slice(0, MAX_PROBLEMS) };
}

export async function stage(
  deps: StageDeps,
  wanted: readonly WantedDocument[],
  request: StageRequest,
  pace: () => Promise<void>,
): Promise<Stage> {
  const made: Staged[] = [];
  for (const one of wanted) {
    made.push(stageOne(deps, one, request));
    await pace();
  }
  const byObject = new Map(made.map((s) => [s.after, s]));
  const { ordered, cycles } = order([...byObject.keys()], deps.language.needs);
  const staged = ordered.flatMap((object) => byObject.get(object) ?? []);
  await pace();
  const put = staged.map((s) => ({
    object: s.after,
    ...(s.wanted.document.folder === undefined ? {} : { origin: s.wanted.document.folder }),
  }));
  const view = overlaid(deps.view(), { put, removed: request.removed });
  await pace();
  const { refused, kept } = await problemsOf(deps, staged, view, pace);
  return { staged, problems: [...cycleProblems(cycles), ...refused], warnings: kept, view };
}
