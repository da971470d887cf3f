// Schedule: prompts an agent at times.
import scheduleSchema from "../../schemas/schedule.json" with { type: "json" };
import { cronProblem, zoneProblem } from "../../src/core/cron.ts";
import type { Problem } from "../../src/core/errors.ts";
import { defineKind } from "../../src/core/kind.ts";
import { refName, refOf, type Schedule } from "../../src/core/resource.ts";
import { scheduleColumns } from "./columns.ts";
import { actSchedule, observeSchedule } from "./observe.ts";
import { planSchedule, type ScheduleAction, type ScheduleFacts } from "./plan.ts";

function check(schedule: Schedule): readonly Problem[] {
  const { cron, timeZone } = schedule.spec;
  const object = refName(refOf(schedule));
  const wrong = cronProblem(cron);
  const unknown = timeZone === undefined ? undefined : zoneProblem(timeZone);
  return [
    ...(wrong === undefined
      ? []
      : [{ message: wrong, path: "/spec/cron", object, hint: 'such as "0 9 * * 1-5": nine o\'clock on working days' }]),
    ...(unknown === undefined ? [] : [{ message: unknown, path: "/spec/timeZone", object, hint: "such as Europe/Vienna or UTC" }]),
  ];
}

export const scheduleKind = defineKind<Schedule, ScheduleFacts, ScheduleAction>({
  kind: "Schedule",
  plural: "schedules",
  short: ["sch"],
  scope: "Namespaced",
  schema: scheduleSchema,
  columns: scheduleColumns,
  needs: (schedule) => [{ ref: { kind: "Agent", namespace: schedule.metadata.namespace, name: schedule.spec.agent }, path: "/spec/agent" }],
  check,
  // A turn without its schedule ends by itself.
  names: () => Promise.resolve([]),
  observe: observeSchedule,
  plan: planSchedule,
  act: actSchedule,
});
