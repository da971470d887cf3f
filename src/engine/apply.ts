// Apply: the whole set is read, checked and planned, stored in one transaction, and followed until it is Ready.
import { changesNothing, type ApplyEnd, type ApplyEvent, type ApplyRequest } from "../core/control.ts";
import { asBeigeError, BeigeError, ERRORS } from "../core/errors.ts";
import { condition, refKey, refName, refOf, type Ref } from "../core/resource.ts";
import { MAX_PROBLEMS } from "../core/documents.ts";
import type { Clock } from "../core/world.ts";
import { basisOf, detailed, refuseStale } from "./apply/basis.ts";
import { commit, PRUNE, type PruneGuard } from "./apply/commit.ts";
import { readSet } from "./apply/read.ts";
import { planSet, stillSo, type PlannedSet, type SetDeps } from "./apply/set.ts";
import { deedsOf, recordDeed, variableProblems } from "./asked.ts";
import type { Report } from "./controller.ts";
import { follow, type Followed, type Following } from "./follow.ts";
import { placed } from "./language.ts";
import { createPace } from "./pace.ts";

export interface ApplyDeps extends SetDeps {
  readonly clock: Clock;
  readonly wake: (ref: Ref) => void;
  readonly reports: (listener: (report: Report) => void) => { unsubscribe(): void };
}

/** How often planning starts again because objects changed meanwhile. */
const TRIES = 3;

const SET_NAME = /^[a-z0-9]([-a-z0-9.]{0,61}[a-z0-9])?$/;

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
    // What was said of it may be older than what is seen now: a secret that has been set since.
    const said = before === undefined || condition(before, "Ready")?.status === "True";
    if (same && said && plan?.ready === true && plan.actions.length === 0) return [];
    return [{ ref, verb: verbs.get(refKey(ref)) ?? "update", uid: after.metadata.uid, generation: after.metadata.generation }];
  });
  const going = set.pruned.remove.map((o) => ({ ref: refOf(o), verb: "delete" as const, uid: o.metadata.uid, generation: 0 }));
  return [...kept, ...going];
}

function resultOf(set: PlannedSet, following: Following | undefined, request: ApplyRequest): ApplyEnd {
  const { objects } = set.plan;
  const unchanged = objects.filter(changesNothing).length;
  const states = following?.states();
  const failed = [...(states?.values() ?? [])].filter((s) => s.state === "failed");
  const open = [...(states?.values() ?? [])].filter((s) => s.state === "working" || s.state === "waiting");
  const changed = new Set(objects.filter((o) => !changesNothing(o)).map((o) => refKey(o.ref)));
  const applied = changed.size - failed.filter((s) => changed.has(refKey(s.ref))).length;
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

function guardOf({ maxDeletes = PRUNE.maxDeletes, allowEmpty = PRUNE.allowEmpty }: ApplyRequest): PruneGuard {
  if (typeof maxDeletes === "string" && !/^\d{1,3}%$/.test(maxDeletes))
    throw new BeigeError("invalid", `maxDeletes "${maxDeletes}" is neither a number of objects nor percent`, {
      hint: "--max-deletes 14, or 50%",
    });
  const hint = (deletes: number, all: boolean): string =>
    `look at it with beige diff --prune; to go on: ${all ? "--allow-empty" : `--max-deletes ${deletes}`}`;
  return { maxDeletes, allowEmpty, hint };
}

/** Throws `invalid`, with the lines, for what only the operator at the unix socket may write. */
function refuseVariables(deps: ApplyDeps, { by }: ApplyRequest, { stage }: PlannedSet): void {
  const problems = stage.staged.flatMap((one) =>
    variableProblems(deps.language, by, one).map((problem) => placed(problem, one.wanted.document)),
  );
  if (problems.length > 0) throw new BeigeError("invalid", "the manifests are not valid", { problems: problems.slice(0, MAX_PROBLEMS) });
}

async function* run(deps: ApplyDeps, request: ApplyRequest, signal: AbortSignal): AsyncGenerator<ApplyEvent> {
  const pace = createPace(deps.clock);
  if (!SET_NAME.test(request.set))
    throw new BeigeError("invalid", "the name of the set is not valid", { hint: "lower-case letters, digits, '-' and '.', at most 63" });
  const read = await readSet(request.files, deps.language, pace, deps.store.objects.get);
  if (read.problems.length > 0) throw new BeigeError("invalid", "the manifests are not valid", { problems: read.problems });
  if (read.needFiles.length > 0) {
    yield { type: "needFiles", files: read.needFiles };
    yield end(2, "text files of the manifests are needed");
    return;
  }
  if (read.wanted.length === 0 && !request.prune) throw new BeigeError("invalid", "the files hold no objects");
  const asked = {
    manager: `apply/${request.set}`,
    force: request.forceConflicts,
    prune: request.prune,
    guard: guardOf(request),
    lookAtAll: true,
  };
  let set = await planSet(deps, asked, read.wanted, pace);
  refuseVariables(deps, request, set);
  const { warnings } = set.stage;
  if (warnings.length > 0) yield { type: "warnings", problems: warnings };
  for (let tries = 1; ; tries++) {
    yield { type: "plan", plan: request.detail === true ? await detailed(deps.store, set, pace) : set.plan };
    if (request.expect !== undefined) refuseStale(request.expect, await basisOf(deps.store, set, pace));
    if (request.dryRun) yield resultOf(set, undefined, request);
    if (request.dryRun || signal.aborted) return;
    if (stillSo(deps, set)) break;
    if (tries === TRIES) throw new BeigeError("conflict", "the objects keep changing while they are planned", { hint: "run it again" });
    set = await planSet(deps, asked, read.wanted, pace);
    refuseVariables(deps, request, set);
  }
  const followed = followedOf(set);
  const following = request.wait
    ? follow({ clock: deps.clock, subscribe: deps.reports, stuck: (ref) => stuck(deps, ref) }, followed, request.timeoutMs)
    : undefined;
  try {
    const woken = commit(deps.store, asked.manager, { staged: set.stage.staged, pruned: set.pruned, now: deps.clock.now() });
    const refs = deedsOf(set);
    if (refs.length > 0) await recordDeed(deps.world, request.by, { verb: "apply", refs, manager: asked.manager });
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
