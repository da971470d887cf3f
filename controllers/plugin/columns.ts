// What `get plugins` shows, read from the object alone.
import { age } from "../../src/core/age.ts";
import type { Column } from "../../src/core/kind.ts";
import { condition, type Plugin, type Resource } from "../../src/core/resource.ts";

function readyText(object: Resource): string {
  const ready = condition(object, "Ready")?.status;
  return ready === "True" ? "yes" : ready === "False" ? "no" : "unknown";
}

function listText(object: Resource, field: string): string {
  const value = object.status?.observed?.[field];
  return Array.isArray(value) ? value.join(",") : "";
}

function whyText(object: Resource): string {
  const ready = condition(object, "Ready");
  return ready === undefined || ready.status === "True" ? "" : ready.message === "" ? ready.reason : ready.message;
}

function sourceText(object: Resource): string {
  const { builtin, path } = (object as Plugin).spec.source;
  return builtin === undefined ? (path ?? "") : `builtin:${builtin}`;
}

export const pluginColumns: readonly Column[] = [
  { name: "NAME", priority: 0, description: "Name of the plugin.", value: (object) => object.metadata.name },
  { name: "READY", priority: 0, description: "Whether it is loaded.", value: readyText },
  { name: "TOOLS", priority: 0, description: "Tools that it brings.", value: (object) => listText(object, "tools") },
  { name: "HOOKS", priority: 1, description: "Hooks that it brings.", value: (object) => listText(object, "hooks") },
  { name: "SOURCE", priority: 1, description: "Where its code comes from.", value: sourceText },
  {
    name: "AGE",
    priority: 0,
    description: "Time since it was created.",
    value: (object, now) => age(now - Date.parse(object.metadata.creationTimestamp)),
  },
  { name: "WHY", priority: 0, description: "Why it is not ready; empty when there is nothing to do.", value: whyText },
];
