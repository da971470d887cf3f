// What the door of calls asks of an agent's disk; the agent is looked at when its answer becomes another.
import { diskLimit, isOver } from "../core/disk.ts";
import type { Agent } from "../core/resource.ts";
import type { DiskUse, Workspaces } from "../core/world.ts";

export function diskOf(workspaces: Pick<Workspaces, "used">, wake: (uid: string) => void): (agent: Agent) => DiskUse | undefined {
  const over = new Set<string>();
  return (agent) => {
    const { uid } = agent.metadata;
    const limit = diskLimit(agent);
    const path = agent.status?.observed?.["workspace"];
    const use = limit === undefined || typeof path !== "string" ? undefined : workspaces.used?.(path, limit);
    const now = isOver(use, limit);
    if (now === over.has(uid)) return use;
    if (now) over.add(uid);
    else over.delete(uid);
    wake(uid);
    return use;
  };
}
