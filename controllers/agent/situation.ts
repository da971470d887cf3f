// The facts that every branch of an agent's plan asks for, worked out once. Pure.
import type { FieldChange, Intent, View, Want } from "../../src/core/kind.ts";
import type { Agent } from "../../src/core/resource.ts";
import type { SandboxSeen } from "../../src/core/sandbox.ts";
import type { Kit } from "../../src/core/world.ts";
import { LABEL } from "../../src/core/sandbox.ts";
import { fingerprint } from "../../src/core/fingerprint.ts";
import { boxOf, limitsOf, workspacePath, type Box, type Limits } from "./box.ts";
import { compare, type Difference } from "./drift.ts";
import { adoptProblem } from "./adopt.ts";
import { withPackages } from "./images.ts";
import type { WarmSandbox } from "../../src/core/seat.ts";
import { fitting } from "./warm.ts";
import { placesOf, placeProblem, type Refused } from "./place.ts";
import { kitOf } from "./tools.ts";
import { shortId, type AgentSeen } from "./seen.ts";
import type { Place } from "./action.ts";

/** The container that a pass waits for, and since when; kept in status.observed. */
export interface Waiting {
  readonly container: string;
  readonly sinceMs: number;
}

export interface Situation {
  readonly agent: Agent;
  readonly intent?: Intent;
  readonly seen: AgentSeen;
  readonly view: View;
  readonly box: Box;
  readonly kit: Kit;
  readonly places: readonly Place[];
  readonly ownWorkspace: boolean;
  /** Why no container may be made of it. */
  readonly refused?: Refused;
  readonly containers: readonly SandboxSeen[];
  readonly active?: SandboxSeen;
  /** The active one, before it is: to be taken over from a lost store. */
  readonly adopting?: SandboxSeen;
  /** Not serving, and as wanted: one that a pass was interrupted at. */
  readonly spare?: SandboxSeen;
  /** Nobody's, and as wanted but for its limits and launchers. */
  readonly warm?: WarmSandbox;
  /** What was there when the plan was last empty. */
  readonly limitsBefore?: unknown;
  /** Names the replacement: another wish or another image is another one. */
  readonly key: string;
  fits(box: SandboxSeen): boolean;
  compare(box: SandboxSeen): Difference;
  helloed(box: SandboxSeen): boolean;
  waiting(box: SandboxSeen): Waiting;
}

/** `removing` is as good as gone, `dead` never comes back. */
const usable = (box: SandboxSeen): boolean => box.state !== "removing" && box.state !== "dead";

const generation = (box: SandboxSeen): number => Number(box.spec.labels[LABEL.generation]) || 0;

/** Running before created, newest first; the id only to have one order. */
function bestOf(boxes: readonly SandboxSeen[]): SandboxSeen | undefined {
  const rank = (box: SandboxSeen): number => (box.state === "running" ? 1 : 0);
  return boxes.toSorted((a, b) => rank(b) - rank(a) || generation(b) - generation(a) || (a.id < b.id ? -1 : 1))[0];
}

function waitingOf(agent: Agent, seen: AgentSeen, now: number): (box: SandboxSeen) => Waiting {
  const before = agent.status?.observed?.["waiting"] as Partial<Waiting> | undefined;
  return (box) => {
    const container = shortId(box.id);
    // A socket that is only opened now explains the silence: count from now.
    const known = seen.socket.listening && before?.container === container && typeof before.sinceMs === "number";
    return { container, sinceMs: known ? Math.min(before.sinceMs ?? now, now) : now };
  };
}

export function situation(want: Want<Agent>, seen: AgentSeen, view: View): Situation {
  const agent = want.object;
  const places = placesOf(seen);
  const workspace = workspacePath(agent, view);
  const real = seen.workspace?.real ?? workspace ?? "";
  const ownWorkspace = agent.spec.workspace.path === undefined;
  const sources = { workspace: ownWorkspace ? (workspace ?? "") : real, mounts: seen.mounts.map((mount) => mount.real) };
  const box = withPackages(boxOf(agent, view, sources), seen);
  const { user } = seen;
  const extra = { ...(user === undefined ? {} : { user }), ...(seen.imageId === undefined ? {} : { imageId: seen.imageId }) };
  const differences = new Map(seen.containers.map((box2) => [box2.id, compare({ box, seen: box2, ...extra })]));
  const differenceOf = (one: SandboxSeen): Difference => differences.get(one.id) ?? compare({ box, seen: one, ...extra });
  const fits = (one: SandboxSeen): boolean => differenceOf(one).replace.length === 0;
  const containers = seen.containers.filter((one) => one.state !== "removing");
  const adopting = seen.active === undefined ? bestOf((seen.adopt?.takeable ?? []).filter(usable)) : undefined;
  const active = adopting ?? containers.find((one) => one.id === seen.active && usable(one));
  const spare = bestOf(containers.filter((one) => one.id !== active?.id && usable(one) && fits(one)));
  const refused = placeProblem(agent, seen, view) ?? adoptProblem(agent, seen);
  const warm = fitting(agent, seen, view);
  return {
    agent,
    ...(want.intent === undefined ? {} : { intent: want.intent }),
    seen,
    view,
    box,
    kit: kitOf(agent, view),
    places,
    ownWorkspace,
    ...(refused === undefined ? {} : { refused }),
    containers,
    ...(active === undefined ? {} : { active }),
    ...(adopting === undefined ? {} : { adopting }),
    ...(spare === undefined ? {} : { spare }),
    ...(warm === undefined ? {} : { warm }),
    limitsBefore: agent.status?.observed?.["limits"],
    // Only a replacement asks.
    get key() {
      return fingerprint({ box: { ...box, labels: {} }, restart: box.labels[LABEL.restart], image: seen.imageId, user });
    },
    fits,
    compare: differenceOf,
    helloed: (one) => seen.socket.hellos.includes(shortId(one.id)),
    waiting: waitingOf(agent, seen, view.now),
  };
}

export const limitsWanted = (s: Situation): Limits => limitsOf(s.box);

/** A stopped container as a difference. */
export const stateChange = (box: SandboxSeen): FieldChange => ({ path: "container.state", before: box.state, after: "running" });
