// What `get plugins` shows, read from the object alone.
import { ageColumn, nameColumn, readyColumn, whyColumn } from "../../src/core/columns.ts";
import type { Column } from "../../src/core/kind.ts";
import type { Plugin, Resource } from "../../src/core/resource.ts";

function listText(object: Resource, field: string): string {
  const value = object.status?.observed?.[field];
  return Array.isArray(value) ? value.join(",") : "";
}

function sourceText(object: Resource): string {
  const { builtin, path } = (object as Plugin).spec.source;
  return builtin === undefined ? (path ?? "") : `builtin:${builtin}`;
}

export const pluginColumns: readonly Column[] = [
  nameColumn("Name of the plugin."),
  readyColumn("Whether it is loaded."),
  { name: "TOOLS", priority: 0, description: "Tools that it brings.", value: (object) => listText(object, "tools") },
  { name: "HOOKS", priority: 1, description: "Hooks that it brings.", value: (object) => listText(object, "hooks") },
  { name: "SOURCE", priority: 1, description: "Where its code comes from.", value: sourceText },
  ageColumn,
  whyColumn,
];
