// The limit of a workspace's disk in an agent's manifest: a watchdog, not a quota.
import { parseBytes } from "./quantity.ts";
import type { Agent } from "./resource.ts";
import type { DiskUse } from "./world.ts";

/** In bytes; undefined without a limit. */
export const diskLimit = (agent: Agent): number | undefined => {
  const { disk } = agent.spec.sandbox.resources;
  return disk === undefined ? undefined : parseBytes(disk);
};

export const isOver = (use: DiskUse | undefined, limit: number | undefined): boolean =>
  use !== undefined && limit !== undefined && (use.bytes > limit || use.beyond !== undefined);
