// Sandboxes that were started before their agents: what they are made of, and which of them is just what an agent asks for. Pure.
import type { HostWarm } from "../../schemas/types.ts";
import { normalise } from "../../src/core/normalise.ts";
import type { View } from "../../src/core/kind.ts";
import { uid10 } from "../../src/core/paths.ts";
import type { Agent } from "../../src/core/resource.ts";
import { LABEL } from "../../src/core/sandbox.ts";
import { placeOf, seatId, WARM, WARM_MAX, type WarmSandbox } from "../../src/core/seat.ts";
import { agentId, boxOf, limitsOf, type Box } from "./box.ts";
import { step } from "./action.ts";
import { isGateways } from "./check.ts";
import { compare } from "./drift.ts";
import type { Body } from "./live.ts";
import type { AgentSeen } from "./seen.ts";
import type { Situation } from "./situation.ts";

/** An agent with this seat, as far as folders go. */
const seated = (view: View, uid: string, seat: string): View => ({
  ...view,
  seatOf: (asked) => (asked === uid ? seat : view.seatOf?.(asked)),
});

const boxAt = (agent: Agent, view: View, seat: string): Box => {
  const there = seated(view, agent.metadata.uid, seat);
  return boxOf(agent, there, { workspace: placeOf(view.home, agent.metadata, there.seatOf).workspace, mounts: [] });
};

/** The first that differs from the wanted one in nothing but what can be changed while it runs. */
export function fitting(agent: Agent, seen: AgentSeen, view: View): WarmSandbox | undefined {
  const { imageId } = seen;
  // Packages are in an image of their own.
  if (imageId === undefined || (agent.spec.sandbox.packages ?? []).length > 0) return undefined;
  return seen.warm?.find(({ seat, user, box: found }) => {
    const { replace, outdated } = compare({ box: boxAt(agent, view, seat), seen: found, user, imageId });
    return replace.length === 0 && !outdated;
  });
}

/** Where nothing speaks against making one, and the takeover of another's workspace does not come first. */
export const claims = (s: Situation): s is Situation & { readonly warm: WarmSandbox } =>
  s.warm !== undefined && s.refused === undefined && s.containers.length === 0 && s.seen.adopt === undefined;

export function planClaim(s: Situation, { seat, box }: WarmSandbox): Body {
  const claim = { seat, container: box.id, agent: agentId(s.agent), kit: s.kit, limits: limitsOf(s.box) };
  return {
    // Without its id: a plan that was shown stays the same while there is one of its kind.
    actions: [step({ impact: "create", why: "spec" }, `take a warm sandbox of ${s.box.image}`, { type: "claim", claim })],
    pending: { reason: "Progressing", message: "" },
  };
}

/** One entry as the agent that would fit it: the same defaults, the same words. */
function entryAgent({ count: _count, ...sandbox }: HostWarm, seat: string): Agent {
  const { name, uid } = seatId(seat);
  return normalise("Agent", {
    apiVersion: "beige.dev/v1",
    kind: "Agent",
    metadata: { name, namespace: "", uid, generation: 0, labels: {}, annotations: {}, creationTimestamp: "", resourceVersion: "" },
    spec: { model: { provider: "none", id: "none" }, sandbox },
  }) as unknown as Agent;
}

/** The container of one seat, of nobody. */
export function warmBox(entry: HostWarm, seat: string, view: View): Box {
  const agent = entryAgent(entry, seat);
  // Metadata is the server's, and normalising may take it away.
  const whole = { ...agent, metadata: { ...agent.metadata, namespace: "", uid: seat, generation: 0 } } as Agent;
  const box = boxAt(whole, view, seat);
  const home = view.defaultHome ? "" : `-${view.store.replaceAll("-", "").slice(0, 6)}`;
  const { [LABEL.name]: _name, [LABEL.namespace]: _namespace, ...labels } = box.labels;
  return { ...box, name: `beige-warm-${uid10(seat)}${home}`, labels: { ...labels, [LABEL.kind]: WARM, [LABEL.uid]: seat } };
}

/** Why no agent would ever fit what an entry describes. */
export function inVain({ env = {} }: HostWarm): string | undefined {
  const name = Object.keys(env).find(isGateways);
  return name === undefined ? undefined : `it waits in vain: no agent can set variable ${name}`;
}

/** Entries of one shape are one: it does not matter which of them an agent takes from. */
export function shapeOf({ count: _count, ...shape }: HostWarm): string {
  return JSON.stringify(shape);
}

/** No more in all than a machine should hold idle; what comes first in the file goes first. */
export function bounded(entries: readonly HostWarm[]): readonly HostWarm[] {
  let left = WARM_MAX;
  const shapes = Map.groupBy(entries, shapeOf).values();
  const merged = [...shapes].flatMap(([first, ...more]) =>
    first === undefined ? [] : [{ ...first, count: more.reduce((sum, { count }) => sum + count, first.count) }],
  );
  return merged.map((entry) => {
    const count = Math.min(entry.count, left);
    left -= count;
    return { ...entry, count };
  });
}
