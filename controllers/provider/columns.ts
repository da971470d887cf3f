// What `get providers` shows, read from the object alone.
import { ageColumn, nameColumn, observedText, readyColumn, whyColumn } from "../../src/core/columns.ts";
import type { Column } from "../../src/core/kind.ts";
import type { Provider, Resource } from "../../src/core/resource.ts";

function limitText(object: Resource): string {
  const { concurrency } = (object as Provider).spec;
  return concurrency < 0 ? "none" : String(concurrency);
}

export const providerColumns: readonly Column[] = [
  nameColumn("Name of the provider."),
  readyColumn("Whether its key can be had."),
  { name: "API", priority: 0, description: "Wire format.", value: (object) => (object as Provider).spec.api },
  { name: "LIMIT", priority: 0, description: "Parallel requests.", value: limitText },
  { name: "KEY", priority: 1, description: "Where the key comes from.", value: (object) => observedText(object, "keyFrom") },
  { name: "ADDRESS", priority: 1, description: "Where requests go.", value: (object) => observedText(object, "baseUrl") },
  ageColumn,
  whyColumn,
];
