// When a schedule fires next, and what is due now. Pure.
import { countWithin, lastWithin, nextAfter } from "../../src/core/cron.ts";
import { zonedText } from "../../src/core/zone.ts";
import type { Action, Plan, View, Want } from "../../src/core/kind.ts";
import { nsName, type Agent, type Ref, type Schedule } from "../../src/core/resource.ts";
import type { Firing } from "../../src/core/world.ts";

export interface ScheduleFacts {
  readonly uid: string;
  readonly last?: Firing;
  readonly running: number;
  /** Whether schedules fire in this gateway. */
  readonly firing: boolean;
  /** The host's zone, for schedules that name none. */
  readonly zone: string;
}

export type ScheduleAction = Action &
  (
    | { readonly type: "fire"; readonly schedule: Schedule; readonly agent: Agent; readonly slot: string }
    | {
        readonly type: "record";
        readonly uid: string;
        readonly slot: string;
        readonly outcome: "missed" | "skipped";
        readonly message: string;
      }
    | { readonly type: "stop"; readonly uid: string }
  );

/** A time that is older than this when it is looked at was missed. */
export const LATE_MS = 30_000;
const LONGEST_WAIT_MS = 3_600_000;
const COUNTED = 100;

interface Due {
  readonly slotMs: number;
  /** How many times it stands for, up to COUNTED. */
  readonly count: number;
}

/** UTC, so that slots sort as text. */
export const slotText = (slotMs: number): string => `${new Date(slotMs).toISOString().slice(0, 19)}Z`;

const agentRef = (schedule: Schedule): Ref => ({ kind: "Agent", namespace: schedule.metadata.namespace, name: schedule.spec.agent });

export function planSchedule(want: Want<Schedule> | undefined, facts: ScheduleFacts, view: View): Plan<ScheduleAction> {
  if (want === undefined || want.deleting) return planGone(facts);
  const schedule = want.object;
  const zone = schedule.spec.timeZone ?? facts.zone;
  const since = watchedSince(schedule, zone, view.now);
  const nextMs = nextAfter(schedule.spec.cron, zone, view.now);
  const observed = shown(schedule, facts, { zone, since, nextMs });
  if (schedule.spec.suspend) {
    const message = "suspended: set suspend to false to let it fire";
    return { actions: [], ready: false, reason: "Suspended", message, suspended: true, observed };
  }
  const wait = { ms: Math.max(1, Math.min(nextMs - view.now, LONGEST_WAIT_MS)), on: [agentRef(schedule)] };
  const agent = view.get(agentRef(schedule)) as Agent | undefined;
  const lack = agent === undefined ? `agent ${schedule.spec.agent} does not exist` : undefined;
  const due = facts.firing ? dueNow(schedule, facts, { zone, since, nowMs: view.now }) : undefined;
  const actions = due === undefined ? [] : dueActions({ schedule, agent, facts, due, nowMs: view.now });
  if (lack !== undefined) return { actions, ready: false, reason: "AgentMissing", message: lack, wait, observed };
  if (!facts.firing) return { actions, ready: true, reason: "SchedulesOff", message: "schedules are off in this gateway", wait, observed };
  return { actions, ready: true, reason: "Ready", message: "", wait, observed };
}

function planGone(facts: ScheduleFacts): Plan<ScheduleAction> {
  const stop: ScheduleAction = { type: "stop", uid: facts.uid, impact: "delete", why: "delete", summary: "end the running turn" };
  const actions = facts.running > 0 ? [stop] : [];
  return { actions, ready: false, reason: "Deleting", message: "", gone: actions.length === 0 };
}

/**
 * Times count from here on. A changed expression or zone, and the end of a suspension, start anew: what the new words would
 * have named in the past was never promised. Kept in status.observed.
 */
function watchedSince(schedule: Schedule, zone: string, nowMs: number): number {
  const before = schedule.status?.observed;
  if (before === undefined) return Math.min(Date.parse(schedule.metadata.creationTimestamp), nowMs);
  const since = Date.parse(String(before["since"]));
  const same =
    before["cron"] === schedule.spec.cron && before["timeZone"] === zone && (before["suspended"] === true) === schedule.spec.suspend;
  // Never later than now, or a clock that was set back would silence it.
  return same && Number.isFinite(since) ? Math.min(since, nowMs) : nowMs;
}

/** The latest time that has come and was not dealt with; earlier ones are one with it. */
function dueNow(
  schedule: Schedule,
  facts: ScheduleFacts,
  at: { readonly zone: string; readonly since: number; readonly nowMs: number },
): Due | undefined {
  const last = facts.last === undefined ? Number.NEGATIVE_INFINITY : Date.parse(facts.last.slot);
  const afterMs = Math.max(at.since, last);
  if (afterMs >= at.nowMs) return undefined;
  const span = { afterMs, atMs: at.nowMs };
  const slotMs = lastWithin(schedule.spec.cron, at.zone, span);
  return slotMs === undefined ? undefined : { slotMs, count: countWithin(schedule.spec.cron, at.zone, { ...span, most: COUNTED }) };
}

interface Case {
  readonly schedule: Schedule;
  readonly agent: Agent | undefined;
  readonly facts: ScheduleFacts;
  readonly due: Due;
  readonly nowMs: number;
}

const countText = (count: number): string =>
  count <= 1 ? "" : ` (and ${count >= COUNTED ? `at least ${COUNTED - 1}` : count - 1} before it)`;

/** Why a due time passes without a turn. */
function withheld({
  schedule,
  agent,
  facts,
  due,
  nowMs,
}: Case): { readonly outcome: "missed" | "skipped"; readonly message: string } | undefined {
  const { catchUp, catchUpWindowSeconds, concurrency } = schedule.spec;
  const lateMs = nowMs - due.slotMs;
  const late = lateMs > LATE_MS;
  const and = countText(due.count);
  if (late && catchUp === "none")
    return { outcome: "missed", message: `missed by ${Math.round(lateMs / 1000)} s, and catchUp is none${and}` };
  if (late && lateMs > catchUpWindowSeconds * 1000)
    return {
      outcome: "missed",
      message: `missed by ${Math.round(lateMs / 1000)} s, more than catchUpWindowSeconds ${catchUpWindowSeconds}${and}`,
    };
  if (agent === undefined) return { outcome: "skipped", message: `agent ${schedule.spec.agent} does not exist${and}` };
  if (agent.metadata.deletionTimestamp !== undefined)
    return { outcome: "skipped", message: `agent ${schedule.spec.agent} is being deleted${and}` };
  if (agent.spec.suspend) return { outcome: "skipped", message: `agent ${schedule.spec.agent} is suspended${and}` };
  if (concurrency === "forbid" && facts.running > 0) return { outcome: "skipped", message: `the run before it still goes on${and}` };
  return undefined;
}

function dueActions(about: Case): readonly ScheduleAction[] {
  const { schedule, agent, facts, due, nowMs } = about;
  const slot = slotText(due.slotMs);
  const { uid } = schedule.metadata;
  const cause = { impact: "live", why: "due" } as const;
  const no = withheld(about);
  if (no !== undefined || agent === undefined) {
    const { outcome, message } = no ?? { outcome: "skipped", message: "no agent" };
    return [{ type: "record", ...cause, uid, slot, outcome, message, summary: `${outcome} ${slot}: ${message}` }];
  }
  const name = nsName(agent.metadata.namespace, agent.metadata.name);
  const late = nowMs - due.slotMs > LATE_MS ? ` to catch up with ${slot}${countText(due.count)}` : ` for ${slot}`;
  const fire: ScheduleAction = { type: "fire", ...cause, schedule, agent, slot, summary: `prompt agent ${name}${late}` };
  const replace = schedule.spec.concurrency === "replace" && facts.running > 0;
  return replace ? [{ type: "stop", ...cause, uid, summary: "end the run before it" }, fire] : [fire];
}

function shown(
  schedule: Schedule,
  { last, running }: ScheduleFacts,
  at: { readonly zone: string; readonly since: number; readonly nextMs: number },
): Readonly<Record<string, unknown>> {
  const open = last?.outcome === "started";
  // A row that was never closed, and nothing runs: the gateway died in the run.
  const outcome = open ? (running > 0 ? "running" : "interrupted") : last?.outcome;
  return {
    cron: schedule.spec.cron,
    timeZone: at.zone,
    since: new Date(at.since).toISOString(),
    ...(schedule.spec.suspend ? { suspended: true } : { next: zonedText(at.zone, at.nextMs) }),
    ...(last === undefined ? {} : { last: zonedText(at.zone, Date.parse(last.slot)) }),
    ...(outcome === undefined ? {} : { lastOutcome: outcome }),
    ...(last?.message === undefined ? {} : { lastMessage: last.message }),
  };
}
