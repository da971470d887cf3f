// What `get agents` shows, read from the object alone.
import { ageColumn, nameColumn, observedText, readyColumn, whyColumn } from "../../src/core/columns.ts";
import type { Column } from "../../src/core/kind.ts";
import type { Agent } from "../../src/core/resource.ts";

export const agentColumns: readonly Column[] = [
  nameColumn("Name of the agent."),
  readyColumn("Whether it can work."),
  { name: "MODEL", priority: 0, description: "The model that answers first.", value: (object) => (object as Agent).spec.model.id },
  { name: "IMAGE", priority: 1, description: "Image of its container.", value: (object) => observedText(object, "image") },
  { name: "CONTAINER", priority: 1, description: "Id of its container.", value: (object) => observedText(object, "container") },
  ageColumn,
  whyColumn,
];
