// What `get agents` shows, read from the object alone.
import { age } from "../../src/core/age.ts";
import type { Column } from "../../src/core/kind.ts";
import { condition, type Agent, type Resource } from "../../src/core/resource.ts";

const observed = (object: Resource, field: string): string => {
  const value = object.status?.observed?.[field];
  return typeof value === "string" ? value : "";
};

function readyText(object: Resource): string {
  if (object.metadata.deletionTimestamp !== undefined) return "deleting";
  if (condition(object, "Suspended")?.status === "True") return "paused";
  const ready = condition(object, "Ready")?.status;
  return ready === "True" ? "yes" : ready === "False" ? "no" : "unknown";
}

/** Empty when there is nothing to do. */
function whyText(object: Resource): string {
  const ready = condition(object, "Ready");
  if (ready !== undefined && ready.status !== "True") return ready.message === "" ? ready.reason : ready.message;
  const degraded = condition(object, "Degraded");
  return degraded?.status === "True" ? degraded.message : "";
}

export const agentColumns: readonly Column[] = [
  { name: "NAME", priority: 0, description: "Name of the agent.", value: (object) => object.metadata.name },
  { name: "READY", priority: 0, description: "Whether it can work.", value: readyText },
  { name: "MODEL", priority: 0, description: "The model that answers first.", value: (object) => (object as Agent).spec.model.id },
  { name: "IMAGE", priority: 1, description: "Image of its container.", value: (object) => observed(object, "image") },
  { name: "CONTAINER", priority: 1, description: "Id of its container.", value: (object) => observed(object, "container") },
  {
    name: "AGE",
    priority: 0,
    description: "Time since it was created.",
    value: (object, now) => age(now - Date.parse(object.metadata.creationTimestamp)),
  },
  { name: "WHY", priority: 0, description: "Why it is not ready; empty when there is nothing to do.", value: whyText },
];
