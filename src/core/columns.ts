// Columns that every kind shows, read from the object alone: name, whether it is ready, its age, and why it is not as it should be.
import { age } from "./age.ts";
import type { Column } from "./kind.ts";
import { condition, type Resource } from "./resource.ts";

/** A text that the kind's plan said it saw; empty when there is none. */
export function observedText(object: Resource, field: string): string {
  const value = object.status?.observed?.[field];
  return typeof value === "string" ? value : "";
}

function readyText(object: Resource): string {
  if (object.metadata.deletionTimestamp !== undefined) return "deleting";
  if (condition(object, "Suspended")?.status === "True") return "paused";
  const ready = condition(object, "Ready")?.status;
  return ready === "True" ? "yes" : ready === "False" ? "no" : "unknown";
}

function whyText(object: Resource): string {
  const ready = condition(object, "Ready");
  if (ready !== undefined && ready.reason !== "Ready") return ready.message === "" ? ready.reason : ready.message;
  const degraded = condition(object, "Degraded");
  if (degraded?.status === "True") return degraded.message;
  const drifted = condition(object, "Drifted");
  return drifted?.status === "True" ? `drifted: ${drifted.message}` : "";
}

export const nameColumn = (description: string): Column => ({
  name: "NAME",
  priority: 0,
  description,
  value: (object) => object.metadata.name,
});

export const readyColumn = (description: string): Column => ({ name: "READY", priority: 0, description, value: readyText });

export const ageColumn: Column = {
  name: "AGE",
  priority: 0,
  description: "Time since it was created.",
  value: (object, now) => age(now - Date.parse(object.metadata.creationTimestamp)),
};

export const whyColumn: Column = {
  name: "WHY",
  priority: 0,
  description: "Why it is not as it should be; empty when there is nothing to do.",
  value: whyText,
};
