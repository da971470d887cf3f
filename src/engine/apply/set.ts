// Plans a set of manifests under one manager: staged, checked, guarded and looked at, ready for one transaction. An apply and a Source are the same here.
import type { ObjectPlan, StackPlan } from "../../core/control.ts";
import { MAX_PROBLEMS } from "../../core/documents.ts";
import { BeigeError, type ErrorDetails, type Problem } from "../../core/errors.ts";
import type { Conflict } from "../../core/ownership.ts";
import { refName, refOf, type Ref } from "../../core/resource.ts";
import { beingDeleted, placed } from "../language.ts";
import { sameButStatus } from "../object.ts";
import { planObject, type PlanDeps, type Planned } from "../plan.ts";
import { mapLimited } from "../pool.ts";
import { overlaid } from "../view.ts";
import { guardPrune, pruned, type Pruned, type PruneGuard } from "./commit.ts";
import type { WantedDocument } from "./read.ts";
import { problemsOf, stage, type Stage, type StageDeps, type Staged } from "./stage.ts";

export type SetDeps = StageDeps & PlanDeps;

export interface SetRequest {
  readonly manager: string;
  /** Take fields that others own. */
  readonly force: boolean;
  /** Takes them only where each one says so. */
  readonly reclaim?: (ref: Ref, conflict: Conflict) => boolean;
  /** Delete what left the set. */
  readonly prune: boolean;
  readonly guard: PruneGuard;
  /** False looks at those objects only that change. */
  readonly lookAtAll: boolean;
}

export interface PlannedSet {
  readonly manager: string;
  readonly stage: Stage;
  readonly pruned: Pruned;
  /** In the order of `stage`. */
  readonly planned: readonly Planned[];
  readonly plan: StackPlan;
}

/** Why a set cannot be taken as it is. */
export class SetRefusal extends BeigeError {
  readonly why: "problems" | "conflicts" | "guard";
  constructor(why: SetRefusal["why"], message: string, details: ErrorDetails) {
    super(why === "problems" ? "invalid" : "conflict", message, details);
    this.why = why;
  }
}

/** Objects that are looked at side by side while planning: a person waits, and each look waits for the container engine. */
const LOOKS = 32;

const invalid = (problems: readonly Problem[]): SetRefusal => new SetRefusal("problems", "the manifests are not valid", { problems });

/** Throws for fields that others own and objects on their way out. */
function refuseConflicts(staged: readonly Staged[], force: boolean): void {
  for (const { ref, before } of staged) {
    if (before?.metadata.deletionTimestamp === undefined) continue;
    const { message, hint } = beingDeleted(ref);
    throw new SetRefusal("conflicts", message, hint === undefined ? {} : { hint });
  }
  if (force) return;
  const found = staged.flatMap(({ ref, conflicts }) => conflicts.map((c) => `${refName(ref)} ${c.path} is owned by ${c.manager}`));
  if (found.length === 0) return;
  const shown = found.slice(0, 10).join("; ") + (found.length > 10 ? `; and ${found.length - 10} more` : "");
  throw new SetRefusal("conflicts", shown, { hint: "take the fields with --force-conflicts, or remove them from the manifest" });
}

/** Throws `invalid` for what the world as it is forbids, such as a path that leads elsewhere by a link. */
function refuseRefused(staged: readonly Staged[], planned: readonly Planned[]): void {
  const problems = staged.flatMap(({ ref, wanted }, i) =>
    (planned[i]?.plan?.refused ?? []).map((problem) => placed({ ...problem, object: `${ref.kind}/${ref.name}` }, wanted.document)),
  );
  if (problems.length > 0) throw invalid(problems.slice(0, MAX_PROBLEMS));
}

/**
 * Throws `invalid` for what is wrong now that the set has been looked at: an agent's misspelt tool shows only when the
 * plugin that comes with it is known.
 */
async function refuseLearned(
  deps: SetDeps,
  { staged, view }: Stage,
  planned: readonly Planned[],
  pace: () => Promise<void>,
): Promise<void> {
  const put = staged.flatMap(({ after, changed }, i) => {
    const observed = changed ? planned[i]?.plan?.observed : undefined;
    return observed === undefined
      ? []
      : [{ object: { ...after, status: { observedGeneration: 0, conditions: [], ...after.status, observed } } }];
  });
  if (put.length === 0) return;
  const { refused } = await problemsOf(deps, staged, overlaid(view, { put, removed: [] }), pace);
  if (refused.length > 0) throw invalid(refused);
}

function summaryOf(objects: readonly ObjectPlan[]): StackPlan["summary"] {
  const count = (...verbs: readonly ObjectPlan["verb"][]): number => objects.filter((o) => verbs.includes(o.verb)).length;
  return {
    create: count("create", "adopt"),
    update: count("update", "handover"),
    replace: count("replace", "replace-later"),
    delete: count("delete"),
    unchanged: count("unchanged"),
  };
}

const notLookedAt = (ref: Ref): Planned => ({ object: { ref, verb: "unchanged", why: [], fields: [], drift: [], actions: [] } });

/** Staged by ownership; a second time by force when everything in the way may be taken back. */
async function staging(
  deps: SetDeps,
  request: SetRequest,
  wanted: { readonly documents: readonly WantedDocument[]; readonly removed: readonly Ref[] },
  pace: () => Promise<void>,
): Promise<Stage & { readonly force: boolean }> {
  const { manager, force, reclaim } = request;
  const { documents, removed } = wanted;
  const first = await stage(deps, documents, { manager, force, removed }, pace);
  const conflicts = first.staged.flatMap(({ ref, conflicts: own }) => own.map((conflict) => ({ ref, conflict })));
  const take = !force && conflicts.length > 0 && reclaim !== undefined && conflicts.every(({ ref, conflict }) => reclaim(ref, conflict));
  return take ? { ...(await stage(deps, documents, { manager, force: true, removed }, pace)), force: true } : { ...first, force };
}

/** Throws SetRefusal. */
export async function planSet(
  deps: SetDeps,
  request: SetRequest,
  wanted: readonly WantedDocument[],
  pace: () => Promise<void>,
): Promise<PlannedSet> {
  const { manager, guard } = request;
  const gone = pruned(deps.store, manager, { keep: wanted.map((w) => w.ref), prune: request.prune });
  const staged = await staging(deps, request, { documents: wanted, removed: gone.remove.map(refOf) }, pace);
  if (staged.problems.length > 0) throw invalid(staged.problems);
  refuseConflicts(staged.staged, staged.force);
  const guarded = guardPrune(deps.store, manager, { kept: wanted.length, pruned: gone, guard });
  if (guarded !== undefined) throw new SetRefusal("guard", guarded.message, { hint: guarded.hint });
  const { view } = staged;
  const planned = await mapLimited(staged.staged, LOOKS, async ({ ref, before, after, changed, conflicts }) => {
    await pace();
    if (!changed && !request.lookAtAll) return notLookedAt(ref);
    const handover = conflicts.length > 0 && !deps.store.records.holders(ref).includes(manager);
    return planObject(deps, { ref, after, view, handover, ...(before === undefined ? {} : { before }) });
  });
  refuseRefused(staged.staged, planned);
  await refuseLearned(deps, staged, planned, pace);
  const going = await mapLimited(request.lookAtAll ? gone.remove : [], LOOKS, (object) =>
    planObject(deps, { ref: refOf(object), before: object, after: object, view, deleting: true }),
  );
  const objects = [...planned, ...going].map((p) => p.object);
  return { manager, stage: staged, pruned: gone, planned, plan: { objects, summary: summaryOf(objects), left: gone.left } };
}

/** Whether the stored objects are still those that the plan was made for. */
export const stillSo = (deps: Pick<SetDeps, "store">, set: PlannedSet): boolean =>
  set.stage.staged.every((s) => sameButStatus(s.before, deps.store.objects.get(s.ref))) &&
  set.pruned.remove.every((o) => sameButStatus(o, deps.store.objects.get(refOf(o))));
