// What `get sources` shows, read from the object alone.
import { age } from "../../src/core/age.ts";
import type { Column } from "../../src/core/kind.ts";
import { condition, type Resource, type Source } from "../../src/core/resource.ts";

const observed = (object: Resource, field: string): unknown => object.status?.observed?.[field];

const textOf = (object: Resource, field: string): string => {
  const value = observed(object, field);
  return typeof value === "string" ? value : "";
};

const numberOf = (object: Resource, field: string): number => {
  const value = observed(object, field);
  return typeof value === "number" ? value : 0;
};

function readyText(object: Resource): string {
  if (condition(object, "Suspended")?.status === "True") return "paused";
  const ready = condition(object, "Ready")?.status;
  return ready === "True" ? "yes" : ready === "False" ? "no" : "unknown";
}

function appliedText(object: Resource, now: number): string {
  const at = Date.parse(textOf(object, "appliedAt"));
  return Number.isNaN(at) ? "" : age(now - at);
}

function whyText(object: Resource): string {
  const ready = condition(object, "Ready");
  if (ready !== undefined && ready.status !== "True") return ready.message === "" ? ready.reason : ready.message;
  const drifted = condition(object, "Drifted");
  return drifted?.status === "True" ? `drifted: ${drifted.message}` : "";
}

export const sourceColumns: readonly Column[] = [
  { name: "NAME", priority: 0, description: "Name of the source.", value: (object) => object.metadata.name },
  { name: "READY", priority: 0, description: "Whether its folder is what is applied.", value: readyText },
  {
    name: "REVISION",
    priority: 0,
    description: "What is applied: branch and commit, or a hash of the content.",
    value: (object) => textOf(object, "revision"),
  },
  { name: "APPLIED", priority: 0, description: "Time since then.", value: appliedText },
  { name: "OBJECTS", priority: 0, description: "Objects that it holds.", value: (object) => numberOf(object, "objects") },
  {
    name: "DRIFT",
    priority: 0,
    description: "Objects and fields of it that somebody else changed.",
    value: (object) => numberOf(object, "drift"),
  },
  { name: "PATH", priority: 1, description: "The folder.", value: (object) => (object as Source).spec.path },
  {
    name: "AGE",
    priority: 0,
    description: "Time since it was created.",
    value: (object, now) => age(now - Date.parse(object.metadata.creationTimestamp)),
  },
  { name: "WHY", priority: 0, description: "Why it is not ready; empty when there is nothing to do.", value: whyText },
];
