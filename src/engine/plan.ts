// What would be done to one object: the plan of its kind against the world as it is, in the words of diff and dry run.
import type { ObjectPlan, Verb } from "../core/control.ts";
import { diffMetadata, diffSpecs } from "../core/diff.ts";
import { asBeigeError } from "../core/errors.ts";
import type { FieldChange, Plan, View, Why } from "../core/kind.ts";
import type { Ref, Resource } from "../core/resource.ts";
import type { World } from "../core/world.ts";
import { look } from "./controller.ts";
import type { Language } from "./language.ts";
import type { Store } from "./store.ts";

/** A person waits for this look. */
const LOOK_MS = 15_000;

export interface PlanDeps {
  readonly store: Store;
  readonly world: World;
  readonly language: Language;
}

export interface Planned {
  readonly object: ObjectPlan;
  /** Absent when the world could not be looked at. */
  readonly plan?: Plan;
}

export interface PlanInput {
  readonly ref: Ref;
  readonly before?: Resource;
  readonly after: Resource;
  readonly view: View;
  /** It is to go. */
  readonly deleting?: boolean;
  /** It comes from another set of manifests. */
  readonly handover?: boolean;
}

function fieldsOf(language: Language, { ref, before, after }: PlanInput): readonly FieldChange[] {
  return [...diffSpecs(ref.kind, before?.spec, after.spec, language.schemas), ...diffMetadata(before?.metadata, after.metadata)];
}

function verbOf(input: PlanInput, plan: Plan | undefined, fields: readonly FieldChange[]): Verb {
  const actions = plan?.actions ?? [];
  const drift = plan?.drift ?? [];
  if (input.deleting === true) return "delete";
  if (input.before === undefined) return actions.some((a) => a.impact === "adopt") ? "adopt" : "create";
  if (input.handover === true) return "handover";
  if (actions.some((a) => a.impact === "replace")) return "replace";
  if (plan?.held !== undefined) return "replace-later";
  // Bookkeeping of the gateway itself is nobody's change.
  const told = actions.some((a) => a.quiet !== true);
  return told || fields.length > 0 || drift.length > 0 ? "update" : "unchanged";
}

function whyOf(plan: Plan | undefined, fields: readonly FieldChange[]): readonly Why[] {
  const why = new Set<Why>([
    ...(fields.length > 0 ? (["spec"] as const) : []),
    ...(plan?.actions ?? []).filter((a) => a.quiet !== true).map((a) => a.why),
    ...(plan?.held === undefined ? [] : [plan.held.why]),
  ]);
  // Some drift is only told: nothing is done about it.
  return why.size === 0 && (plan?.drift ?? []).length > 0 ? ["drift"] : [...why];
}

/** Never throws: a world that does not answer is said in the plan. */
export async function planObject(deps: PlanDeps, input: PlanInput): Promise<Planned> {
  const { language, world } = deps;
  const { ref, after, view } = input;
  let plan: Plan | undefined;
  let message = "";
  try {
    plan = await look(deps, language.kind(ref.kind), {
      ref,
      object: after,
      view,
      limitMs: LOOK_MS,
      ...(input.deleting === true ? { deleting: true } : {}),
    });
    message = plan.ready === true ? "" : plan.message;
  } catch (error) {
    message = asBeigeError(error).message;
  }
  const fields = input.deleting === true ? [] : fieldsOf(language, input);
  const held = input.deleting === true ? undefined : plan?.held;
  const forces = [...(plan?.actions.flatMap((a) => a.fields ?? []) ?? []), ...(held?.fields ?? [])].find((f) => f.forces === true)?.path;
  const sessions = input.before === undefined ? 0 : world.sessions.open(after.metadata.uid);
  return {
    object: {
      ref,
      verb: verbOf(input, plan, fields),
      why: input.deleting === true ? ["prune"] : whyOf(plan, fields),
      fields,
      drift: plan?.drift ?? [],
      actions: (plan?.actions ?? []).filter((a) => a.quiet !== true).map((a) => a.summary),
      ...(forces === undefined ? {} : { forces }),
      ...(held === undefined ? {} : { held }),
      ...(sessions === 0 ? {} : { sessions }),
      ...(message === "" ? {} : { message }),
    },
    ...(plan === undefined ? {} : { plan }),
  };
}
