// What happened to objects, as core/v1 Events: what `kubectl describe` and `kubectl events` show.
import { age } from "../../core/age.ts";
import type { EventRecord } from "../../core/control.ts";
import { API_VERSION, DEFAULT_NAMESPACE } from "../../core/resource.ts";
import type { RouteDeps } from "../deps.ts";
import { podUid } from "./pods.ts";
import { polled, type Projected, type Projection, type Scope } from "./projection.ts";

const MOST = 1000;

/** Versions are times: nothing about an event but its last occurrence ever changes. */
function eventOf(record: EventRecord, asPod: boolean): Projected {
  // Kubernetes keeps the events of cluster-scoped objects in the default namespace.
  const namespace = record.ref.namespace === "" ? DEFAULT_NAMESPACE : record.ref.namespace;
  const { name } = record.ref;
  const about = asPod
    ? { apiVersion: "v1", kind: "Pod", namespace, name, uid: podUid(record.uid) }
    : { apiVersion: API_VERSION, kind: record.ref.kind, namespace: record.ref.namespace, name, uid: record.uid };
  return {
    apiVersion: "v1",
    kind: "Event",
    metadata: {
      name: record.name,
      namespace,
      uid: record.name,
      resourceVersion: String(Date.parse(record.last)),
      creationTimestamp: record.first,
    },
    involvedObject: about,
    reason: record.reason,
    message: record.message,
    type: record.type,
    count: record.count,
    firstTimestamp: record.first,
    lastTimestamp: record.last,
    eventTime: null,
    source: { component: "beige" },
    reportingComponent: "beige",
    reportingInstance: "",
  };
}

function look(deps: RouteDeps, scope: Scope): readonly Projected[] {
  // A pod has no events but those of its agent. Some clients ask by uid alone.
  const { fields } = scope;
  const asPod = fields.get("involvedObject.kind") === "Pod" || fields.get("involvedObject.uid")?.startsWith(podUid("")) === true;
  const records = deps.control.events({ limit: MOST });
  const events = records.filter((record) => !asPod || record.ref.kind === "Agent").map((record) => eventOf(record, asPod));
  return events.filter((event) => scope.namespace === undefined || event.metadata.namespace === scope.namespace);
}

const about = (event: Projected): string => {
  const { kind, name } = event["involvedObject"] as { readonly kind: string; readonly name: string };
  return `${kind.toLowerCase()}/${name}`;
};
const word = (event: Projected, key: string): string => String(event[key]);

export const events = (deps: RouteDeps): Projection => ({
  kind: "Event",
  columns: [
    {
      name: "Last Seen",
      priority: 0,
      description: "Time since it last happened.",
      value: (event, now) => age(now - Date.parse(word(event, "lastTimestamp"))),
    },
    { name: "Type", priority: 0, description: "Normal or Warning.", value: (event) => word(event, "type") },
    { name: "Reason", priority: 0, description: "One word.", value: (event) => word(event, "reason") },
    { name: "Object", priority: 0, description: "What it happened to.", value: about },
    { name: "Message", priority: 0, description: "A sentence.", value: (event) => word(event, "message") },
    { name: "Count", priority: 1, description: "How often.", value: (event) => Number(event["count"]) },
    { name: "Name", priority: 1, description: "Name of the event.", value: (event) => event.metadata.name },
  ],
  list: (scope) => ({ items: look(deps, scope), resourceVersion: String(deps.clock.now()) }),
  watch: (scope, signal) =>
    polled(
      {
        clock: deps.clock,
        look: () => look(deps, scope),
        asked: scope.asked,
        version: () => String(deps.clock.now()),
        known: (event, version) => Number(event.metadata.resourceVersion) < Number(version),
      },
      signal,
    ),
});
