// How long the deletion of an object may take, what it waits for, and what is to be done when it takes longer. Pure; nothing is ever given up by itself.
import type { Plan } from "../core/kind.ts";
import { refName, refOf, type Condition, type Resource } from "../core/resource.ts";

/** From when on a deletion counts as stuck. It is tried on and on all the same. */
export const DELETE_DEADLINE_MS = 300_000;

/** The reason of the condition Deleting from then on. */
export const OVERDUE = "DeadlinePassed";

/** What stands between an object and its end. */
export interface Blocked {
  readonly what: string;
  /** What mends that. */
  readonly hint?: string;
}

/** What a plan still has to take down. */
export function waitsFor({ message, actions }: Plan): string {
  const said = message.replace(/^deleting:? ?/, "");
  return said === "" ? actions.map((action) => action.summary).join(", ") : said;
}

/** Milliseconds since the epoch; undefined for what is to stay. */
export const deadlineOf = ({ metadata }: Resource): number | undefined =>
  metadata.deletionTimestamp === undefined ? undefined : Date.parse(metadata.deletionTimestamp) + DELETE_DEADLINE_MS;

function nextStep(object: Resource, hint: string | undefined): string {
  const force = `beige delete ${refName(refOf(object))} --force forgets it, and what is left of it is removed once that is possible`;
  return hint === undefined ? force : `${hint}; or: ${force}`;
}

/** The condition Deleting; undefined for what is to stay. */
export function deleting(
  object: Resource,
  blocked: Blocked | undefined,
  now: number,
): Pick<Condition, "type" | "status" | "reason" | "message"> | undefined {
  const deadline = deadlineOf(object);
  if (deadline === undefined) return undefined;
  const what = blocked === undefined || blocked.what === "" ? (object.metadata.finalizers ?? []).join(", ") : blocked.what;
  if (now < deadline)
    return {
      type: "Deleting",
      status: "True",
      reason: "Waiting",
      message: `waits for ${what}; deadline ${new Date(deadline).toISOString()}`,
    };
  const message = `not gone after ${DELETE_DEADLINE_MS / 60_000} minutes, waits for ${what}; next: ${nextStep(object, blocked?.hint)}`;
  return { type: "Deleting", status: "True", reason: OVERDUE, message };
}
