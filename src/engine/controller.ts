// One pass over one object: look, plan, act, look once more, and write the status: the only place that does.
import { isDeepStrictEqual } from "node:util";
import { asBeigeError, BeigeError, ERRORS } from "../core/errors.ts";
import type { AnyKind, Plan, Verdict, View, Want } from "../core/kind.ts";
import { condition, refKey, refName, refOf, type Ref, type Resource } from "../core/resource.ts";
import type { World } from "../core/world.ts";
import { act, limited } from "./act.ts";
import { deadlineOf, OVERDUE, waitsFor, type Blocked } from "./deletion.ts";
import { findingOf, nextStatus, type Finding } from "./status.ts";
import { wantedDigest } from "./interest.ts";
import type { Store } from "./store.ts";

/** How often one pass looks before it gives the queue back; a plan that still has actions then does not settle. */
export const ROUNDS = 6;
/** Longest look. */
export const OBSERVE_MS = 30_000;

/** When to look again after a limit that does not say when. */
export const EXHAUSTED_MS = 5_000;

/** What a pass tells whoever follows it. */
export interface Report {
  readonly ref: Ref;
  readonly uid: string;
  readonly generation: number;
  readonly state: "working" | "done" | "gone";
  readonly plan?: Plan;
  readonly error?: BeigeError;
  readonly verdict?: Verdict;
  /** What is being done. */
  readonly doing?: string;
}

export interface ControllerDeps {
  readonly store: Store;
  readonly kinds: ReadonlyMap<string, AnyKind>;
  readonly world: World;
  readonly view: () => View;
  readonly report: (report: Report) => void;
}

export type Pass = (ref: Ref, signal: AbortSignal) => Promise<Verdict>;

type Looked = { readonly plan: Plan } | { readonly error: BeigeError };

function wantOf(store: Store, object: Resource): Want {
  const intent = store.intents.intent(object.metadata.uid);
  const deleting = object.metadata.deletionTimestamp !== undefined;
  return { object, deleting, ...(intent === undefined ? {} : { intent }) };
}

/** Looks and plans; changes nothing. Also what diff, dry runs and describe are made of. Throws BeigeError. */
export async function look(
  deps: Pick<ControllerDeps, "store" | "world">,
  kind: AnyKind,
  about: { readonly ref: Ref; readonly object?: Resource; readonly view: View; readonly deleting?: boolean; readonly limitMs?: number },
): Promise<Plan> {
  const { ref, object, view } = about;
  const limit = { ms: about.limitMs ?? OBSERVE_MS, graceMs: 0, what: `looking at ${refName(ref)}` };
  const seen = await limited<unknown>(deps.world.clock, limit, () => kind.observe(deps.world, ref, object, view));
  const want = object === undefined ? undefined : wantOf(deps.store, object);
  return kind.plan(want === undefined || about.deleting !== true ? want : { ...want, deleting: true }, seen, view) as Plan;
}

const isGone = (kind: AnyKind, plan: Plan): boolean => plan.actions.length === 0 && (plan.gone ?? kind.finalizer === undefined);

/** What keeps an object that is to go, when taking it down failed. */
function blockedBy(error: BeigeError, plan: Plan | undefined): Blocked {
  const { message } = error;
  const what = plan === undefined ? "" : waitsFor(plan);
  const unseen = plan === undefined && error.code === "unavailable";
  const hint = error.hint ?? (unseen ? "start the container engine (beige doctor), and it goes on by itself" : undefined);
  return { what: what === "" ? message : `${what}: ${message}`, ...(hint === undefined ? {} : { hint }) };
}

/** What an error of a look or an act means to the status. */
function findingOfError(error: BeigeError, acting: boolean, plan: Plan | undefined): Finding {
  const kept = { degraded: "as before", suspended: "as before", blocked: blockedBy(error, acting ? plan : undefined) } as const;
  const { message } = error;
  if (error.code === "unavailable") {
    return { ready: "unknown", reason: "EngineUnreachable", message, progressing: { reason: "EngineUnreachable", message }, ...kept };
  }
  if (ERRORS[error.code].engine === "settle") return { ready: false, reason: "Refused", message, ...kept };
  const reason = error.code === "timeout" ? "Timeout" : acting ? "ActionFailed" : "LookFailed";
  return { ready: acting ? false : "unknown", reason, message, progressing: { reason: "Retrying", message }, ...kept };
}

function verdictOfError(error: BeigeError): Verdict {
  const { code, message, retryAfterMs } = error;
  const { engine } = ERRORS[code];
  if (engine === "settle") return { next: "settled" };
  if (engine === "wait") return { next: "wait", ms: retryAfterMs ?? EXHAUSTED_MS };
  return { next: "retry", code, message, ...(retryAfterMs === undefined ? {} : { retryAfterMs }) };
}

function verdictOfPlan(plan: Plan): Verdict {
  const { wait } = plan;
  if (plan.actions.length > 0) {
    return { next: "retry", code: "internal", message: `the plan does not empty: ${plan.actions[0]?.summary ?? ""}` };
  }
  if (wait === undefined) return { next: "settled" };
  return { next: "wait", ...(wait.ms === undefined ? {} : { ms: wait.ms }), ...(wait.on === undefined ? {} : { on: wait.on }) };
}

export function createPass(deps: ControllerDeps): Pass {
  const { store, kinds, world, report } = deps;

  function writeStatus(ref: Ref, looked: Resource, finding: Finding): void {
    const now = store.objects.get(ref);
    // The status is about what was looked at: a newer spec gets its own pass.
    if (now === undefined || now.metadata.uid !== looked.metadata.uid) return;
    const status = nextStatus(
      { ...now, metadata: { ...now.metadata, generation: looked.metadata.generation } },
      finding,
      world.clock.now(),
    );
    // Most passes find what the last one found.
    if (isDeepStrictEqual(status, now.status)) return;
    store.objects.write([{ type: "put", object: { ...now, status } }], "quick");
    tellOverdue(now);
  }

  /** An event, once, when a deletion has passed its deadline. */
  function tellOverdue(before: Resource): void {
    const after = store.objects.get(refOf(before));
    const now = after === undefined ? undefined : condition(after, "Deleting");
    if (now?.reason !== OVERDUE || condition(before, "Deleting")?.reason === OVERDUE) return;
    store.events.record({ ref: refOf(before), uid: before.metadata.uid, type: "Warning", reason: "Deleting", message: now.message });
  }

  /** What is on its way out is looked at when its deadline passes, too. */
  function untilDeadline(object: Resource | undefined, verdict: Verdict): Verdict {
    const deadline = object === undefined ? undefined : deadlineOf(object);
    const leftMs = deadline === undefined ? 0 : deadline - world.clock.now();
    // A failing pass comes again soon enough.
    if (leftMs <= 0 || verdict.next === "retry") return verdict;
    return verdict.next === "settled" ? { next: "wait", ms: leftMs } : { ...verdict, ms: Math.min(leftMs, verdict.ms ?? leftMs) };
  }

  /** An event when something is at rest and worse than before. */
  function tellTurns(ref: Ref, before: Resource | undefined): void {
    const after = store.objects.get(ref);
    if (before === undefined || after === undefined) return;
    for (const type of ["Degraded", "Drifted"] as const) {
      const now = condition(after, type);
      if (now?.status !== "True" || condition(before, type)?.status === "True") continue;
      const message = now.message === "" ? now.reason : now.message;
      store.events.record({ ref, uid: after.metadata.uid, type: "Warning", reason: type, message });
    }
  }

  function target(ref: Ref, object: Resource | undefined) {
    return { ref, uid: object?.metadata.uid ?? refKey(ref), generation: object?.metadata.generation ?? 0 };
  }

  async function doAll(kind: AnyKind, ref: Ref, planned: { object: Resource | undefined; plan: Plan }, signal: AbortSignal): Promise<void> {
    const { object, plan } = planned;
    for (const action of plan.actions) {
      signal.throwIfAborted();
      const now = store.objects.get(ref);
      // Planned for something that is no longer wanted: look again first.
      if ((now === undefined ? "" : wantedDigest(now)) !== (object === undefined ? "" : wantedDigest(object))) return;
      const about = target(ref, object);
      if (action.quiet !== true) report({ ...about, state: "working", doing: action.summary, plan });
      await act({ world, events: store.events }, kind, about, action, signal);
    }
  }

  /** Looks and acts until the plan is empty. */
  async function converge(kind: AnyKind, ref: Ref, signal: AbortSignal): Promise<Looked & { object: Resource | undefined }> {
    let object = store.objects.get(ref);
    let acting = false;
    let last: Plan | undefined;
    try {
      for (let round = 0; round < ROUNDS; round++) {
        object = store.objects.get(ref);
        acting = false;
        last = await look(deps, kind, { ref, view: deps.view(), ...(object === undefined ? {} : { object }) });
        if (last.actions.length === 0) break;
        signal.throwIfAborted();
        if (object !== undefined && last.actions.some((a) => a.quiet !== true)) writeStatus(ref, object, findingOf(last));
        acting = true;
        await doAll(kind, ref, { object, plan: last }, signal);
      }
      return { object, plan: last as Plan };
    } catch (thrown) {
      const error = asBeigeError(thrown);
      if (signal.aborted) return { object, error };
      if (error.code === "internal") world.log.error("a pass failed", { object: refKey(ref), error: error.stack ?? error.message });
      if (object !== undefined) {
        writeStatus(ref, object, findingOfError(error, acting, last));
        if (!acting && error.code === "unavailable") {
          store.events.record({ ref, uid: object.metadata.uid, type: "Warning", reason: "Unreachable", message: error.message });
        }
      }
      return { object, error };
    }
  }

  function finish(kind: AnyKind, ref: Ref, found: { object: Resource | undefined; plan: Plan }): Report {
    const { object, plan } = found;
    const about = target(ref, object);
    if (object === undefined) return { ...about, state: "done", plan, verdict: verdictOfPlan(plan) };
    if (object.metadata.deletionTimestamp !== undefined && isGone(kind, plan)) {
      store.events.record({ ref, uid: object.metadata.uid, type: "Normal", reason: "Deleted", message: "nothing of it is left" });
      store.objects.write([{ type: "remove", ref }], "full");
      return { ...about, state: "gone", plan, verdict: { next: "settled" } };
    }
    const before = store.objects.get(ref);
    writeStatus(ref, object, findingOf(plan));
    tellTurns(ref, before);
    return { ...about, state: "done", plan, verdict: untilDeadline(object, verdictOfPlan(plan)) };
  }

  return async (ref, signal) => {
    const kind = kinds.get(ref.kind);
    if (kind === undefined) return { next: "settled" };
    const found = await converge(kind, ref, signal);
    const told: Report =
      "error" in found
        ? {
            ...target(ref, found.object),
            state: "done",
            error: found.error,
            verdict: untilDeadline(found.object, verdictOfError(found.error)),
          }
        : finish(kind, ref, found);
    report(told);
    return told.verdict ?? { next: "settled" };
  };
}
