// The sandbox of each agent as a read-only Pod, so that clients of Kubernetes find its logs and can run commands in it.
import { age } from "../../core/age.ts";
import { API_VERSION, condition, type Agent } from "../../core/resource.ts";
import type { RouteDeps } from "../deps.ts";
import { changes } from "../watch.ts";
import type { Change, Projected, Projection, Scope } from "./projection.ts";

export const CONTAINER = "sandbox";
export const AGENT_LABEL = "beige.dev/agent";

/** A pod is another object than its agent. */
export const podUid = (uid: string): string => `pod-${uid}`;

export function podOf(agent: Agent): Projected {
  const { name, namespace, uid, resourceVersion, labels, creationTimestamp, deletionTimestamp } = agent.metadata;
  return {
    apiVersion: "v1",
    kind: "Pod",
    metadata: {
      name,
      namespace,
      uid: podUid(uid),
      resourceVersion,
      labels: { ...labels, [AGENT_LABEL]: name },
      creationTimestamp,
      ...(deletionTimestamp !== undefined && { deletionTimestamp, deletionGracePeriodSeconds: 0 }),
      ownerReferences: [{ apiVersion: API_VERSION, kind: "Agent", name, uid, controller: true, blockOwnerDeletion: false }],
    },
    spec: { containers: [{ name: CONTAINER, image: imageOf(agent), resources: {} }], restartPolicy: "Always", securityContext: {} },
    status: statusOf(agent),
  };
}

/** What was observed; before that, what is wanted. */
function imageOf(agent: Agent): string {
  const seen = agent.status?.observed?.["image"];
  return typeof seen === "string" ? seen : agent.spec.sandbox.image;
}

function statusOf(agent: Agent): object {
  const ready = condition(agent, "Ready");
  const up = ready?.status === "True";
  const container = agent.status?.observed?.["container"];
  const running = typeof container === "string" && condition(agent, "Suspended")?.status !== "True";
  const startedAt = agent.status?.observed?.["startedAt"];
  const why = { reason: up ? "" : (ready?.reason ?? "Pending"), message: up ? "" : (ready?.message ?? "") };
  const state = running ? { running: typeof startedAt === "string" ? { startedAt } : {} } : { waiting: why };
  const conditionAt = ready?.lastTransitionTime ?? agent.metadata.creationTimestamp;
  return {
    phase: running ? "Running" : "Pending",
    ...(!up && why),
    conditions: [{ type: "Ready", status: ready?.status ?? "Unknown", ...why, lastTransitionTime: conditionAt }],
    containerStatuses: [
      {
        name: CONTAINER,
        image: imageOf(agent),
        imageID: "",
        ...(typeof container === "string" && { containerID: `docker://${container}` }),
        ready: up,
        started: running,
        restartCount: 0,
        state,
        lastState: {},
      },
    ],
  };
}

interface PodStatus {
  readonly phase: string;
  readonly reason?: string;
  readonly containerStatuses: readonly { readonly ready: boolean; readonly image: string }[];
}
const seen = (pod: Projected): PodStatus => pod["status"] as PodStatus;

function word(pod: Projected): string {
  if (pod.metadata["deletionTimestamp"] !== undefined) return "Terminating";
  const { phase, reason } = seen(pod);
  return reason === undefined || reason === "" ? phase : reason;
}

export const pods = (deps: RouteDeps): Projection => ({
  kind: "Pod",
  columns: [
    { name: "Name", priority: 0, description: "Name of the agent.", value: (pod) => pod.metadata.name },
    {
      name: "Ready",
      priority: 0,
      description: "Whether the agent is ready.",
      value: (pod) => (seen(pod).containerStatuses[0]?.ready === true ? "1/1" : "0/1"),
    },
    { name: "Status", priority: 0, description: "Phase, or why it is not ready.", value: word },
    { name: "Restarts", priority: 0, description: "Not counted.", value: () => 0 },
    {
      name: "Age",
      priority: 0,
      description: "Age of the agent.",
      value: (pod, now) => age(now - Date.parse(String(pod.metadata["creationTimestamp"]))),
    },
    { name: "Image", priority: 1, description: "Image of the container.", value: (pod) => seen(pod).containerStatuses[0]?.image ?? "" },
  ],
  list(scope) {
    const { items, resourceVersion } = deps.control.list("Agent", within(scope));
    return { items: (items as readonly Agent[]).map(podOf), resourceVersion };
  },
  async *watch(scope, signal): AsyncIterable<Change> {
    for await (const events of changes(deps.control, { kind: "Agent", selection: within(scope), asked: scope.asked }, signal))
      for (const event of events) yield "object" in event ? { type: event.type, object: podOf(event.object as Agent) } : event;
  },
});

const within = ({ namespace }: Scope): { readonly namespace?: string } => (namespace === undefined ? {} : { namespace });
