// Namespaces as Kubernetes clients list them: those that hold objects, and the default one. They are not stored.
import { age } from "../../core/age.ts";
import { DEFAULT_NAMESPACE, type Resource } from "../../core/resource.ts";
import type { RouteDeps } from "../deps.ts";
import { polled, type Projected, type Projection } from "./projection.ts";

/** Kubernetes gives every namespace a label with its name. */
export const namespaceOf = (name: string, created?: string): Projected => ({
  apiVersion: "v1",
  kind: "Namespace",
  metadata: {
    name,
    uid: `namespace-${name}`,
    resourceVersion: "1",
    ...(created !== undefined && { creationTimestamp: created }),
    labels: { "kubernetes.io/metadata.name": name },
  },
  spec: { finalizers: [] },
  status: { phase: "Active" },
});

function inUse(deps: RouteDeps): readonly Projected[] {
  const kinds = deps.control.kinds().filter((kind) => kind.namespaced);
  const first = new Map<string, string | undefined>([[DEFAULT_NAMESPACE, undefined]]);
  for (const { metadata } of kinds.flatMap((kind): readonly Resource[] => deps.control.list(kind.kind, {}).items)) {
    const before = first.get(metadata.namespace);
    if (before === undefined || metadata.creationTimestamp < before) first.set(metadata.namespace, metadata.creationTimestamp);
  }
  return [...first].toSorted(([a], [b]) => (a < b ? -1 : 1)).map(([name, created]) => namespaceOf(name, created));
}

const born = ({ metadata }: Projected): number => Date.parse(String(metadata["creationTimestamp"]));

export const namespaces = (deps: RouteDeps): Projection => ({
  kind: "Namespace",
  columns: [
    { name: "Name", priority: 0, description: "Name of the namespace.", value: (object) => object.metadata.name },
    { name: "Status", priority: 0, description: "Always Active.", value: () => "Active" },
    { name: "Age", priority: 0, description: "Age of its oldest object.", value: (object, now) => age(now - born(object)) },
  ],
  list: () => ({ items: inUse(deps), resourceVersion: deps.control.version() }),
  watch: ({ asked }, signal) =>
    polled({ clock: deps.clock, look: () => inUse(deps), asked, version: () => deps.control.version(), known: () => true }, signal),
});
