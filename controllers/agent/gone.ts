// The end of an agent: everything of it goes, the workspace only when its manifest says so. Pure.
import type { Plan, View, Want } from "../../src/core/kind.ts";
import { allowedBy } from "../../src/core/overlap.ts";
import { overlaps, workspaceFolder } from "../../src/core/paths.ts";
import type { Agent } from "../../src/core/resource.ts";
import { DELETE, quietly, removeBox, step, type AgentAction, type Cause } from "./action.ts";
import { agentId, workspacePath } from "./box.ts";
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
  const done = want.intent?.type === DELETED && boxes.length === 0 && remove === undefined;
  const actions: readonly AgentAction[] = [
    ...(seen.sessions > 0 ? [step(DELETE, `end ${seen.sessions} sessions`, { type: "end-sessions", uid, because })] : []),
    ...(seen.calls > 0 ? [step(DELETE, `end ${seen.calls} running calls`, { type: "cut", uid, because })] : []),
    quietly(DELETE, "close the agent's socket", { type: "close", uid }),
    ...boxes,
    quietly(DELETE, "remove launchers", { type: "kit-remove", agent: id }),
    ...(remove === undefined ? [] : [step(DELETE, `remove workspace ${remove.path}`, { type: "workspace-remove", ...remove })]),
    quietly(DELETE, "forget the container", { type: "clean", uid, mark: true }),
  ];
  return {
    actions: done ? [] : actions,
    ready: false,
    reason: "Deleting",
    message: done
      ? ""
      : `deleting${seen.containers.length > 0 ? `: container ${seen.containers.map((box) => shortId(box.id)).join(", ")}` : ""}`,
    gone: done,
  };
}

/** Only what the manifest lets go, what exists, and what nobody else lives in. */
function workspaceToRemove(agent: Agent, seen: AgentSeen, view: View): { readonly path: string; readonly real: string } | undefined {
  const folder = seen.workspace;
  if (agent.spec.workspace.onDelete !== "delete" || folder?.exists !== true) return undefined;
  // The real path counts: what a link leads to is not the gateway's, and host.yaml speaks about real folders.
  const own = agent.spec.workspace.path === undefined && folder.real === workspaceFolder(seen.homeReal, agent.metadata);
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
