// From what is wanted and what is seen to the steps between: the whole of the agent's behaviour, pure.
import type { Plan, View, Want } from "../../src/core/kind.ts";
import type { Agent } from "../../src/core/resource.ts";
import { SPEC, step, quietly, removeBox, type AgentAction } from "./action.ts";
import { adoptStep } from "./adopt.ts";
import { agentId, workspacePath } from "./box.ts";
import { sweepBuilds } from "./images.ts";
import { asleep, planAsleep } from "./lazy.ts";
import { planCreate, planServe, planSpare } from "./live.ts";
import { planReplace, type ReplaceBody } from "./replace.ts";
import { judgeReady } from "./ready.ts";
import { situation, type Situation } from "./situation.ts";
import { claims, planClaim } from "./warm.ts";
import { shortId, type AgentSeen } from "./seen.ts";
import { planGone, planOrphan } from "./gone.ts";
import { findTools } from "./tools.ts";

export type AgentPlan = Plan<AgentAction>;

/** Nothing runs, whatever the rest of the manifest says. */
function planSuspended(agent: Agent, seen: AgentSeen, view: View): AgentPlan {
  const uid = agent.metadata.uid;
  const because = "the agent is suspended";
  const running = seen.containers.filter((box) => box.state !== "created" && box.state !== "exited" && box.state !== "dead");
  const actions: readonly AgentAction[] = [
    ...(seen.sessions > 0 ? [step(SPEC, `end ${seen.sessions} sessions`, { type: "end-sessions", uid, because })] : []),
    ...(seen.calls > 0 ? [step(SPEC, `end ${seen.calls} running calls`, { type: "cut", uid, because })] : []),
    ...running.map((box) => step(SPEC, `stop container ${box.spec.name} (${shortId(box.id)})`, { type: "stop", id: box.id })),
    ...admitted(agent, seen),
  ];
  const workspace = workspacePath(agent, view);
  return {
    actions,
    ready: false,
    reason: "Suspended",
    message: "suspended: set suspend to false to start it again",
    suspended: true,
    observed: { model: modelText(agent), ...(workspace === undefined ? {} : { workspace }) },
  };
}

export const modelText = (agent: Agent): string => `${agent.spec.model.provider}/${agent.spec.model.id}`;

/** Launchers, guest binary and socket: what a sandbox finds when it starts, and what changes while it runs. */
function outfit(s: Situation): readonly AgentAction[] {
  const { agent, seen, kit } = s;
  const id = agentId(agent);
  const stale = seen.kit.want !== undefined && seen.kit.seen !== seen.kit.want;
  // Those of a plugin that nobody has looked at yet come with its first look; they are named already.
  const names = findTools(agent, s.view).flatMap((found) => (found.problem === undefined ? [found.tool] : []));
  const tools = names.length === 0 ? "no tools" : names.toSorted().join(", ");
  return [
    ...(stale
      ? [
          step({ ...SPEC, impact: seen.kit.seen === undefined ? "live" : "update" }, `write launchers: ${tools}`, {
            type: "kit",
            agent: id,
            kit,
          }),
        ]
      : []),
    ...(seen.socket.listening ? [] : [quietly(SPEC, "open the agent's socket", { type: "socket", agent: id })]),
  ];
}

function strayActions(seen: AgentSeen): readonly AgentAction[] {
  const cause = { impact: "live", why: "prune" } as const;
  return seen.strays.flatMap((stray) => [
    quietly(cause, "close a former agent's socket", { type: "close", uid: stray.uid }),
    removeBox(cause, stray.id, stray.name),
  ]);
}

function planAwake(s: Situation): ReplaceBody {
  if (s.active === undefined && s.spare !== undefined) return planSpare(s, s.spare);
  if (s.active === undefined) return claims(s) ? planClaim(s, s.warm) : planCreate(s);
  return s.fits(s.active) ? planServe(s, s.active) : planReplace(s, s.active);
}

function planLive(want: Want<Agent>, seen: AgentSeen, view: View): AgentPlan {
  const s = situation(want, seen, view);
  const body: ReplaceBody = asleep(s) ? planAsleep(s) : planAwake(s);
  // What is claimed is fitted out by the claim: before it, the agent's folders are not where they will be.
  const claimed = body.actions.some((action) => action.type === "claim");
  const strays = [...strayActions(seen), ...sweepBuilds({ agent: want.object, seen, view })];
  const before = [...strays, ...adoptStep(want.object, s.adopting), ...(claimed ? [] : outfit(s))];
  // A container that cannot be made needs neither folders nor launchers yet.
  const blocked = s.containers.length === 0 && body.actions.length === 0;
  const actions = blocked ? strays : [...before, ...body.actions];
  const judged = judgeReady(s, { ...body, actions: body.draining === true ? actions : [...actions, ...admitted(want.object, seen)] });
  return body.held === undefined ? judged : { ...judged, held: body.held };
}

/** A drain that came to nothing: what waits goes on in the container that serves. */
const admitted = (agent: Agent, seen: AgentSeen): readonly AgentAction[] =>
  seen.held ? [quietly(SPEC, "let waiting calls go on", { type: "admit", uid: agent.metadata.uid })] : [];

export function planAgent(want: Want<Agent> | undefined, seen: AgentSeen, view: View): AgentPlan {
  if (want === undefined) return planOrphan(seen);
  if (want.deleting) return planGone(want, seen, view);
  return want.object.spec.suspend ? planSuspended(want.object, seen, view) : planLive(want, seen, view);
}
