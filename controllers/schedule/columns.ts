// What `get schedules` shows, read from the object alone.
import { ageColumn, nameColumn, observedText, readyColumn, whyColumn } from "../../src/core/columns.ts";
import type { Column } from "../../src/core/kind.ts";
import type { Schedule } from "../../src/core/resource.ts";

export const scheduleColumns: readonly Column[] = [
  nameColumn("Name of the schedule."),
  readyColumn("Whether it will fire."),
  { name: "AGENT", priority: 0, description: "Whom it prompts.", value: (object) => (object as Schedule).spec.agent },
  { name: "CRON", priority: 0, description: "When it fires.", value: (object) => (object as Schedule).spec.cron },
  { name: "NEXT", priority: 0, description: "The next time, in its zone.", value: (object) => observedText(object, "next") },
  { name: "LAST", priority: 0, description: "How the last time went.", value: (object) => observedText(object, "lastOutcome") },
  { name: "ZONE", priority: 1, description: "Its time zone.", value: (object) => observedText(object, "timeZone") },
  ageColumn,
  whyColumn,
];
