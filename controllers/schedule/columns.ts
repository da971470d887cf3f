// What `get schedules` shows, read from the object alone.
import { age } from "../../src/core/age.ts";
import type { Column } from "../../src/core/kind.ts";
import { condition, type Resource, type Schedule } from "../../src/core/resource.ts";

const textOf = (object: Resource, field: string): string => {
  const value = object.status?.observed?.[field];
  return typeof value === "string" ? value : "";
};

function readyText(object: Resource): string {
  if (condition(object, "Suspended")?.status === "True") return "paused";
  const ready = condition(object, "Ready")?.status;
  return ready === "True" ? "yes" : ready === "False" ? "no" : "unknown";
}

function whyText(object: Resource): string {
  const ready = condition(object, "Ready");
  if (ready === undefined || ready.reason === "Ready") return "";
  return ready.message === "" ? ready.reason : ready.message;
}

export const scheduleColumns: readonly Column[] = [
  { name: "NAME", priority: 0, description: "Name of the schedule.", value: (object) => object.metadata.name },
  { name: "READY", priority: 0, description: "Whether it will fire.", value: readyText },
  { name: "AGENT", priority: 0, description: "Whom it prompts.", value: (object) => (object as Schedule).spec.agent },
  { name: "CRON", priority: 0, description: "When it fires.", value: (object) => (object as Schedule).spec.cron },
  { name: "NEXT", priority: 0, description: "The next time, in its zone.", value: (object) => textOf(object, "next") },
  { name: "LAST", priority: 0, description: "How the last time went.", value: (object) => textOf(object, "lastOutcome") },
  { name: "ZONE", priority: 1, description: "Its time zone.", value: (object) => textOf(object, "timeZone") },
  {
    name: "AGE",
    priority: 0,
    description: "Time since it was created.",
    value: (object, now) => age(now - Date.parse(object.metadata.creationTimestamp)),
  },
  { name: "WHY", priority: 0, description: "Why it does not fire; empty when there is nothing to do.", value: whyText },
];
