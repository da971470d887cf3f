// Looks at a schedule's last firing and at what runs of it; fires it.
import { asBeigeError, BeigeError } from "../../src/core/errors.ts";
import { hostZone } from "../../src/core/zone.ts";
import { nsName, type Ref, type Schedule } from "../../src/core/resource.ts";
import type { World } from "../../src/core/world.ts";
import { type ScheduleAction, type ScheduleFacts } from "./plan.ts";

export function observeSchedule(w: World, _ref: Ref, schedule: Schedule | undefined): Promise<ScheduleFacts> {
  const uid = schedule?.metadata.uid ?? "";
  const last = w.firings.last(uid);
  const running = w.turns.running(uid);
  return Promise.resolve({ uid, running, firing: w.firing, zone: hostZone(), ...(last === undefined ? {} : { last }) });
}

type Fire = Extract<ScheduleAction, { type: "fire" }>;

const MESSAGE_MAX = 500;

/** The claim is on the disk first, then the row that says why, then the turn: a slot fires once, or is seen to have failed. */
async function fire(w: World, { schedule, agent, slot }: Fire): Promise<void> {
  const { uid, name } = schedule.metadata;
  if (!w.firings.claim(uid, slot, "started")) return;
  const session = `schedule:${name}`;
  const agentName = nsName(agent.metadata.namespace, agent.metadata.name);
  const id = { namespace: agent.metadata.namespace, name: agent.metadata.name, uid: agent.metadata.uid };
  const request = { principal: { kind: "schedule", name }, agent: id, text: schedule.spec.input, session } as const;
  const row = {
    agent: agentName,
    type: "schedule",
    tool: name,
    args: [slot],
    decision: "allowed",
    principal: "schedule",
    session,
  } as const;
  try {
    await w.control.note(w.random.uuid(), row);
    w.turns.start(uid, request, (error) => {
      w.firings.finish(uid, slot, error === undefined ? "done" : "failed", error?.slice(0, MESSAGE_MAX));
    });
  } catch (thrown) {
    const error = asBeigeError(thrown);
    w.firings.finish(uid, slot, "failed", `not started: ${error.message}`.slice(0, MESSAGE_MAX));
    // Not `unavailable`: the slot is spent, so trying again would change nothing.
    throw new BeigeError("conflict", `schedule ${name} did not start its turn for ${slot}: ${error.message}`, { cause: thrown });
  }
}

export async function actSchedule(w: World, action: ScheduleAction): Promise<void> {
  switch (action.type) {
    case "fire":
      return fire(w, action);
    case "record":
      w.firings.claim(action.uid, action.slot, action.outcome, action.message);
      return undefined;
    case "stop":
      return w.turns.stop(action.uid);
  }
}
