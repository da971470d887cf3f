// Apply: the whole set is read, checked and planned, stored in one transaction, and followed until it is Ready.
import type { ApplyEnd, ApplyEvent, ApplyRequest, ObjectPlan, StackPlan } from "../core/control.ts";
import { MAX_PROBLEMS } from "../core/documents.ts";
import { asBeigeError, BeigeError, ERRORS } from "../core/errors.ts";
import { condition, refKey, refName, refOf, type Ref } from "../core/resource.ts";
import type { Clock } from "../core/world.ts";
import { commit, guardPrune, pruned, type Pruned } from "./apply/commit.ts";
import { readSet, type WantedDocument } from "./apply/read.ts";
import { stage, type Stage, type StageDeps, type Staged } from "./apply/stage.ts";
import type { Report } from "./controller.ts";
import { follow, type Followed, type Following } from "./follow.ts";
import { beingDeleted, placed } from "./language.ts";
import { sameButStatus } from "./object.ts";
import { createPace } from "./pace.ts";
import { planObject, type PlanDeps, type Planned } from "./plan.ts";
import { mapLimited } from "./pool.ts";

export interface ApplyDeps extends StageDeps, PlanDeps {
  readonly clock: Clock;
  readonly wake: (ref: Ref) => void;
  readonly reports: (listener: (report: Report) => void) => { unsubscribe(): void };
}

/** Objects that are looked at side by side while planning. */
const LOOKS = 8;
/** How often planning starts again because objects changed meanwhile. */
const TRIES = 3;

const SET_NAME = /^[a-z0-9]([-a-z0-9.]{0,61}[a-z0-9])?$/;

interface PlannedSet {
  readonly stage: Stage;
  readonly pruned: Pruned;
  readonly planned: readonly Planned[];
  readonly plan: StackPlan;
}

const end = (exit: number, message: string, more: Partial<ApplyEnd> = {}): ApplyEnd => ({
  type: "end",
  exit,
  applied: 0,
  unchanged: 0,
  failed: 0,
  message,
  ...more,
});

const endOf = (error: BeigeError): ApplyEnd =>
  end(ERRORS[error.code].exit, error.message, error.hint === undefined ? {} : { hint: error.hint });

/** Throws `conflict` for fields that others own and objects on their way out. */
function refuseConflicts(staged: readonly Staged[], force: boolean): void {
  for (const { ref, before } of staged) if (before?.metadata.deletionTimestamp !== undefined) throw beingDeleted(ref);
  if (force) return;
  const found = staged.flatMap(({ ref, conflicts }) => conflicts.map((c) => `${refName(ref)} ${c.path} is owned by ${c.manager}`));
  if (found.length === 0) return;
  const shown = found.slice(0, 10).join("; ") + (found.length > 10 ? `; and ${found.length - 10} more` : "");
  throw new BeigeError("conflict", shown, { hint: "take the fields with --force-conflicts, or remove them from the manifest" });
}

/** Throws `invalid` for what the world as it is forbids, such as a path that leads elsewhere by a link. */
function refuseRefused(staged: readonly Staged[], planned: readonly Planned[]): void {
  const problems = staged.flatMap(({ wanted }, i) => (planned[i]?.plan?.refused ?? []).map((problem) => placed(problem, wanted.document)));
  if (problems.length > 0) throw new BeigeError("invalid", "the manifests are not valid", { problems: problems.slice(0, MAX_PROBLEMS) });
}

function summaryOf(objects: readonly ObjectPlan[]): StackPlan["summary"] {
  const count = (...verbs: readonly ObjectPlan["verb"][]): number => objects.filter((o) => verbs.includes(o.verb)).length;
  return {
    create: count("create", "adopt"),
    update: count("update", "handover"),
    replace: count("replace"),
    delete: count("delete"),
    unchanged: count("unchanged"),
  };
}

async function planSet(
  deps: ApplyDeps,
  request: ApplyRequest,
  wanted: readonly WantedDocument[],
  pace: () => Promise<void>,
): Promise<PlannedSet> {
  const manager = `apply/${request.set}`;
  const gone = pruned(deps.store, manager, { keep: wanted.map((w) => w.ref), prune: request.prune });
  const staged = await stage(deps, wanted, { manager, force: request.forceConflicts, removed: gone.remove.map(refOf) }, pace);
  if (staged.problems.length > 0) throw new BeigeError("invalid", "the manifests are not valid", { problems: staged.problems });
  refuseConflicts(staged.staged, request.forceConflicts);
  guardPrune(deps.store, manager, { kept: wanted.length, pruned: gone });
  const { view } = staged;
  const planned = await mapLimited(staged.staged, LOOKS, async ({ ref, before, after, conflicts }) => {
    await pace();
    const handover = conflicts.length > 0 && !deps.store.records.holders(ref).includes(manager);
    return planObject(deps, { ref, after, view, handover, ...(before === undefined ? {} : { before }) });
  });
  refuseRefused(staged.staged, planned);
  const going = await mapLimited(gone.remove, LOOKS, (object) =>
    planObject(deps, { ref: refOf(object), before: object, after: object, view, deleting: true }),
  );
  const objects = [...planned, ...going].map((p) => p.object);
  return { stage: staged, pruned: gone, planned, plan: { objects, summary: summaryOf(objects), left: gone.left } };
}

/** Whether the stored objects are still those that the plan was made for. */
const stillSo = (deps: ApplyDeps, set: PlannedSet): boolean =>
  set.stage.staged.every((s) => sameButStatus(s.before, deps.store.objects.get(s.ref))) &&
  set.pruned.remove.every((o) => sameButStatus(o, deps.store.objects.get(refOf(o))));

/** Not Ready, and nothing on its way. */
function stuck({ store }: ApplyDeps, ref: Ref): boolean {
  const object = store.objects.get(ref);
  if (object === undefined) return true;
  return condition(object, "Ready")?.status === "False" && condition(object, "Progressing")?.status === "False";
}

/** Objects whose way to Ready is of interest: all but those that are there already. */
function followedOf(set: PlannedSet): readonly Followed[] {
  const verbs = new Map(set.plan.objects.map((o) => [refKey(o.ref), o.verb]));
  const kept = set.stage.staged.flatMap(({ ref, before, after }, i): Followed[] => {
    const plan = set.planned[i]?.plan;
    const same = before?.metadata.generation === after.metadata.generation;
    if (same && plan?.ready === true && plan.actions.length === 0) return [];
    return [{ ref, verb: verbs.get(refKey(ref)) ?? "update", uid: after.metadata.uid, generation: after.metadata.generation }];
  });
  const going = set.pruned.remove.map((o) => ({ ref: refOf(o), verb: "delete" as const, uid: o.metadata.uid, generation: 0 }));
  return [...kept, ...going];
}

function resultOf(set: PlannedSet, following: Following | undefined, request: ApplyRequest): ApplyEnd {
  const { summary, objects } = set.plan;
  const { unchanged } = summary;
  const states = following?.states();
  const failed = [...(states?.values() ?? [])].filter((s) => s.state === "failed");
  const open = [...(states?.values() ?? [])].filter((s) => s.state === "working" || s.state === "waiting");
  const applied = objects.length - unchanged;
  const counts = { applied, unchanged, failed: failed.length };
  const base = `applied ${applied}, unchanged ${unchanged}`;
  const first = open[0];
  if (first !== undefined) {
    const why = first.message === "" ? first.reason : first.message;
    return end(6, `${base}; ${open.length} not ready after ${request.timeoutMs / 1000} s: ${refName(first.ref)}: ${why}`, {
      ...counts,
      hint: `beige describe ${refName(first.ref)}`,
    });
  }
  const bad = failed[0];
  if (bad === undefined) return end(0, base, counts);
  const why = bad.message === "" ? bad.reason : bad.message;
  const hint = `beige describe ${refName(bad.ref)}`;
  return end(failed.length === objects.length ? 1 : 7, `${base}, failed ${failed.length}: ${refName(bad.ref)}: ${why}`, {
    ...counts,
    hint,
  });
}

async function* run(deps: ApplyDeps, request: ApplyRequest, signal: AbortSignal): AsyncGenerator<ApplyEvent> {
  const pace = createPace(deps.clock);
  if (!SET_NAME.test(request.set))
    throw new BeigeError("invalid", "the name of the set is not valid", { hint: "lower-case letters, digits, '-' and '.', at most 63" });
  const read = await readSet(request.files, deps.language, pace);
  if (read.problems.length > 0) throw new BeigeError("invalid", "the manifests are not valid", { problems: read.problems });
  if (read.needFiles.length > 0) {
    yield { type: "needFiles", files: read.needFiles };
    yield end(2, "text files of the manifests are needed");
    return;
  }
  if (read.wanted.length === 0 && !request.prune) throw new BeigeError("invalid", "the files hold no objects");
  let set = await planSet(deps, request, read.wanted, pace);
  for (let tries = 1; ; tries++) {
    yield { type: "plan", plan: set.plan };
    if (request.dryRun) yield resultOf(set, undefined, request);
    if (request.dryRun || signal.aborted) return;
    if (stillSo(deps, set)) break;
    if (tries === TRIES) throw new BeigeError("conflict", "the objects keep changing while they are planned", { hint: "run it again" });
    set = await planSet(deps, request, read.wanted, pace);
  }
  const followed = followedOf(set);
  const following = request.wait
    ? follow({ clock: deps.clock, subscribe: deps.reports, stuck: (ref) => stuck(deps, ref) }, followed, request.timeoutMs)
    : undefined;
  try {
    const woken = commit(deps.store, request.set, { staged: set.stage.staged, pruned: set.pruned, now: deps.clock.now() });
    for (const { ref } of followed) if (!woken.has(refKey(ref))) deps.wake(ref);
    if (following !== undefined) yield* following.events(signal);
    if (!signal.aborted) yield resultOf(set, following, request);
  } finally {
    following?.close();
  }
}

/** Never throws: whatever refuses it becomes problems and an end. */
export async function* apply(deps: ApplyDeps, request: ApplyRequest, signal: AbortSignal): AsyncGenerator<ApplyEvent> {
  try {
    yield* run(deps, request, signal);
  } catch (thrown) {
    const error = asBeigeError(thrown);
    if (error.code === "internal") deps.world.log.error("an apply failed", { error: error.stack ?? error.message });
    if (error.problems.length > 0) yield { type: "problems", problems: error.problems };
    yield endOf(error);
  }
}
