// The end of an agent: everything of it goes, the workspace only when its manifest says so. Pure.
import type { Plan, View, Want } from "../../src/core/kind.ts";
import { allowedBy } from "../../src/core/overlap.ts";
import { overlaps } from "../../src/core/paths.ts";
import type { Agent } from "../../src/core/resource.ts";
import { placeOf } from "../../src/core/seat.ts";
import { DELETE, quietly, removeBox, step, type AgentAction, type Cause } from "./action.ts";
import { agentId, workspacePath } from "./box.ts";
import { dropImages, sweepBuilds } from "./images.ts";
import { shortId, type AgentSeen } from "./seen.ts";

/** The intent that says: all is cleared away. */
export const DELETED = "deleted";

export function planGone(want: Want<Agent>, seen: AgentSeen, view: View): Plan<AgentAction> {
  const agent = want.object;
  const uid = agent.metadata.uid;
  const id = agentId(agent);
  const because = "the agent is deleted";
  const remove = workspaceToRemove(agent, seen, view);
  const boxes = seen.containers.map((box) => removeBox(DELETE, box.id, box.spec.name));
  const done = want.intent?.type === DELETED && boxes.length === 0 && remove === undefined && view.seatOf?.(uid) === undefined;
  const actions: readonly AgentAction[] = [
    ...(seen.sessions > 0 ? [step(DELETE, `end ${seen.sessions} sessions`, { type: "end-sessions", uid, because })] : []),
    ...(seen.calls > 0 ? [step(DELETE, `end ${seen.calls} running calls`, { type: "cut", uid, because })] : []),
    quietly(DELETE, "close the agent's socket", { type: "close", uid }),
    ...boxes,
    ...sweepBuilds({ agent, seen, view }, true),
    ...dropImages({ agent, seen, view }, seen.containers, true),
    quietly(DELETE, "remove launchers", { type: "kit-remove", agent: id }),
    ...(remove === undefined ? [] : [step(DELETE, `remove workspace ${remove.path}`, { type: "workspace-remove", ...remove })]),
    // What is kept moves to where the agent's name leads: nothing has it mounted any more.
    ...(view.seatOf?.(uid) === undefined ? [] : [quietly(DELETE, "leave the seat", { type: "leave", agent: id })]),
    quietly(DELETE, "forget the container", { type: "clean", uid, mark: true }),
  ];
  return {
    actions: done ? [] : actions,
    ready: false,
    reason: "Deleting",
    message: done ? "" : `deleting${leftText(seen, remove?.path)}`,
    gone: done,
  };
}

/** What is still there of it, for whoever wonders why it is not gone. */
function leftText(seen: AgentSeen, workspace: string | undefined): string {
  const left = [
    ...seen.containers.map((box) => `container ${box.spec.name} (${shortId(box.id)})`),
    ...(seen.sessions > 0 ? [`${seen.sessions} ${seen.sessions === 1 ? "session" : "sessions"}`] : []),
    ...(seen.calls > 0 ? [`${seen.calls} running ${seen.calls === 1 ? "call" : "calls"}`] : []),
    ...(workspace === undefined ? [] : [`workspace ${workspace}`]),
  ];
  return left.length === 0 ? "" : `: ${left.join(", ")}`;
}

/** Only what the manifest lets go, what exists, and what nobody else lives in. */
function workspaceToRemove(agent: Agent, seen: AgentSeen, view: View): { readonly path: string; readonly real: string } | undefined {
  const folder = seen.workspace;
  if (agent.spec.workspace.onDelete !== "delete" || folder?.exists !== true) return undefined;
  // The real path counts: what a link leads to is not the gateway's, and host.yaml speaks about real folders.
  const own = agent.spec.workspace.path === undefined && folder.real === placeOf(seen.homeReal, agent.metadata, view.seatOf).workspace;
  const named = agent.spec.workspace.path !== undefined && allowedBy(folder.real, view.host.paths.workspaces);
  if (!own && (!named || overlaps(folder.real, seen.homeReal))) return undefined;
  const neighbours = (view.list("Agent") as readonly Agent[])
    .filter((other) => other.metadata.uid !== agent.metadata.uid)
    .flatMap((other) => workspacePath(other, view) ?? []);
  const inhabited = [...neighbours, ...seen.others.map((other) => other.path)].some(
    (path) => overlaps(path, folder.real) || overlaps(path, folder.path),
  );
  return inhabited ? undefined : { path: folder.path, real: folder.real };
}

/** Nobody wants it: container and socket go, the workspace stays whatever it was. */
export function planOrphan(seen: AgentSeen): Plan<AgentAction> {
  const cause: Cause = { impact: "delete", why: "prune" };
  const actions = seen.strays.flatMap((stray) => [
    quietly(cause, "close its socket", { type: "close", uid: stray.uid }),
    quietly(cause, "forget the container", { type: "clean", uid: stray.uid, mark: false }),
    // The container is what makes it visible, so it goes last.
    removeBox(cause, stray.id, stray.name),
  ]);
  return { actions, ready: false, reason: "Orphan", message: "no manifest asks for this agent", gone: actions.length === 0 };
}
