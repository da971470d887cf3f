// What `get providers` shows, read from the object alone.
import { age } from "../../src/core/age.ts";
import type { Column } from "../../src/core/kind.ts";
import { condition, type Provider, type Resource } from "../../src/core/resource.ts";

function readyText(object: Resource): string {
  const ready = condition(object, "Ready")?.status;
  return ready === "True" ? "yes" : ready === "False" ? "no" : "unknown";
}

function whyText(object: Resource): string {
  const ready = condition(object, "Ready");
  if (ready !== undefined && ready.status !== "True") return ready.message === "" ? ready.reason : ready.message;
  const degraded = condition(object, "Degraded");
  return degraded?.status === "True" ? degraded.message : "";
}

const textOf = (object: Resource, field: string): string => {
  const value = object.status?.observed?.[field];
  return typeof value === "string" ? value : "";
};

function limitText(object: Resource): string {
  const { concurrency } = (object as Provider).spec;
  return concurrency < 0 ? "none" : String(concurrency);
}

export const providerColumns: readonly Column[] = [
  { name: "NAME", priority: 0, description: "Name of the provider.", value: (object) => object.metadata.name },
  { name: "READY", priority: 0, description: "Whether its key can be had.", value: readyText },
  { name: "API", priority: 0, description: "Wire format.", value: (object) => (object as Provider).spec.api },
  { name: "LIMIT", priority: 0, description: "Parallel requests.", value: limitText },
  { name: "KEY", priority: 1, description: "Where the key comes from.", value: (object) => textOf(object, "keyFrom") },
  { name: "ADDRESS", priority: 1, description: "Where requests go.", value: (object) => textOf(object, "baseUrl") },
  {
    name: "AGE",
    priority: 0,
    description: "Time since it was created.",
    value: (object, now) => age(now - Date.parse(object.metadata.creationTimestamp)),
  },
  { name: "WHY", priority: 0, description: "Why it is not ready, or what is degraded; empty when there is nothing to do.", value: whyText },
];
