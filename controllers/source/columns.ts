// What `get sources` shows, read from the object alone.
import { age } from "../../src/core/age.ts";
import { ageColumn, nameColumn, observedText, readyColumn, whyColumn } from "../../src/core/columns.ts";
import type { Column } from "../../src/core/kind.ts";
import type { Resource, Source } from "../../src/core/resource.ts";

const observed = (object: Resource, field: string): unknown => object.status?.observed?.[field];

const numberOf = (object: Resource, field: string): number => {
  const value = observed(object, field);
  return typeof value === "number" ? value : 0;
};

function appliedText(object: Resource, now: number): string {
  const at = Date.parse(observedText(object, "appliedAt"));
  return Number.isNaN(at) ? "" : age(now - at);
}

export const sourceColumns: readonly Column[] = [
  nameColumn("Name of the source."),
  readyColumn("Whether its folder is what is applied."),
  {
    name: "REVISION",
    priority: 0,
    description: "What is applied: branch and commit, or a hash of the content.",
    value: (object) => observedText(object, "revision"),
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
  ageColumn,
  whyColumn,
];
