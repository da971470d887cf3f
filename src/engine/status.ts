// Conditions of an object from what its plan said: pure, and the only maker of a status.
import type { FieldChange, Plan } from "../core/kind.ts";
import type { Condition, ConditionType, Resource, Status } from "../core/resource.ts";
import { deleting, waitsFor, type Blocked } from "./deletion.ts";

/** What one pass found out. */
export interface Finding {
  readonly ready: boolean | "unknown" | "as before";
  readonly reason: string;
  readonly message: string;
  /** Why the object is still on its way, absent when it is at rest. */
  readonly progressing?: { readonly reason: string; readonly message: string };
  /** Absent keeps what was seen before. */
  readonly observed?: Readonly<Record<string, unknown>>;
  /** Absent keeps the condition. */
  readonly drift?: readonly FieldChange[];
  readonly degraded?: { readonly reason: string; readonly message: string } | "as before";
  readonly suspended?: boolean | "as before";
  /** Absent keeps the condition. */
  readonly lacks?: readonly string[];
  /** What keeps an object that is to go. */
  readonly blocked?: Blocked;
}

/** Longest message of a condition, in characters. */
const MESSAGE_MAX = 2_000;

type Wanted = Pick<Condition, "type" | "status" | "reason" | "message">;

const STATUS = { true: "True", false: "False", unknown: "Unknown" } as const;

const toCondition = (type: ConditionType, on: boolean, why: { reason: string; message: string }, off: string): Wanted =>
  on ? { type, status: "True", ...why } : { type, status: "False", reason: off, message: "" };

/** A plan that looks again no sooner than this has nothing on its way: it waits for a person, or for luck. */
export const PATIENCE_MS = 15_000;

/** Whether a plan that is not ready may become so by what is already on its way. */
export const underWay = ({ ready, suspended, wait }: Plan): boolean =>
  ready !== true &&
  suspended !== true &&
  (ready === "unknown" || (wait?.on?.length ?? 0) > 0 || (wait?.ms !== undefined && wait.ms < PATIENCE_MS));

/** A plan at rest, or one whose actions are about to run. */
export function findingOf(plan: Plan): Finding {
  const busy = plan.actions.length > 0;
  const waits = underWay(plan);
  const why = { reason: plan.reason, message: plan.message };
  return {
    // `ready` of a plan with actions may be about the time after them.
    ready: busy && plan.ready === true ? "as before" : plan.ready,
    ...why,
    ...(busy
      ? { progressing: { reason: "Working", message: plan.actions.map((a) => a.summary).join("; ") } }
      : waits
        ? { progressing: why }
        : {}),
    ...(plan.observed === undefined ? {} : { observed: plan.observed }),
    drift: plan.drift ?? [],
    ...(plan.degraded === undefined ? {} : { degraded: plan.degraded }),
    suspended: plan.suspended ?? false,
    ...(plan.lacks === undefined ? {} : { lacks: plan.lacks }),
    blocked: { what: waitsFor(plan) },
  };
}

const driftMessage = (drift: readonly FieldChange[]): string => drift.map((field) => field.path).join(", ");

function hardened(lacks: readonly string[] | undefined): Wanted | undefined {
  if (lacks === undefined) return undefined;
  if (lacks.length === 0) return { type: "Hardened", status: "True", reason: "AllLayers", message: "" };
  return { type: "Hardened", status: "False", reason: "HostLacks", message: `this machine lacks ${lacks.join(", ")}` };
}

function wantedConditions(finding: Finding, before: (type: ConditionType) => Condition | undefined): readonly (Wanted | undefined)[] {
  const { degraded, suspended, drift, progressing } = finding;
  const why = { reason: finding.reason, message: finding.message };
  const kept = before("Ready") ?? { status: "False" as const, reason: "Working", message: "" };
  const ready: Wanted =
    finding.ready === "as before"
      ? { type: "Ready", status: kept.status, reason: kept.reason, message: kept.message }
      : { type: "Ready", status: STATUS[`${finding.ready}`], ...why };
  const seldom = (type: ConditionType, on: boolean, because: { reason: string; message: string }, off: string): Wanted | undefined =>
    on || before(type) !== undefined ? toCondition(type, on, because, off) : undefined;
  return [
    ready,
    toCondition("Progressing", progressing !== undefined, progressing ?? why, "Settled"),
    degraded === "as before" ? before("Degraded") : seldom("Degraded", degraded !== undefined, degraded ?? why, "Healthy"),
    drift === undefined
      ? before("Drifted")
      : seldom("Drifted", drift.length > 0, { reason: "Drift", message: driftMessage(drift) }, "AsWanted"),
    hardened(finding.lacks) ?? before("Hardened"),
    suspended === "as before" ? before("Suspended") : seldom("Suspended", suspended === true, why, "Active"),
  ];
}

/** The next status. `lastTransitionTime` moves with the status of a condition only. */
export function nextStatus(object: Resource, finding: Finding, now: number): Status {
  const old = new Map((object.status?.conditions ?? []).map((c) => [c.type, c]));
  const { generation } = object.metadata;
  const wanted = [...wantedConditions(finding, (type) => old.get(type)), deleting(object, finding.blocked, now)];
  const conditions = wanted.flatMap((one): Condition[] => {
    if (one === undefined) return [];
    const { type, status, reason } = one;
    const before = old.get(type);
    const lastTransitionTime = before?.status === status ? before.lastTransitionTime : new Date(now).toISOString();
    const message = one.message.length > MESSAGE_MAX ? `${one.message.slice(0, MESSAGE_MAX - 1)}…` : one.message;
    return [{ type, status, reason, message, lastTransitionTime, observedGeneration: generation }];
  });
  const observed = finding.observed ?? object.status?.observed;
  return { observedGeneration: generation, conditions, ...(observed === undefined ? {} : { observed }) };
}
