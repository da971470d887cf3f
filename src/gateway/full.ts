// What an agent may still do while its workspace takes more than its manifest allows: read, and make room. Nothing that runs is ended.
import type { CallRequest } from "../core/call.ts";
import { diskLimit, isOver } from "../core/disk.ts";
import { nsName, type Agent } from "../core/resource.ts";
import { showBytes } from "../core/quantity.ts";
import type { DiskUse } from "../core/world.ts";

/** One command that only looks or removes: no second one, nothing that is written. */
const HARMLESS = /^[ \t]*(?:rm|rmdir|du|df|ls|pwd)(?:[ \t]+[\w@%+=:,./*?~[\]-]+)*[ \t]*$/;

function mayGoOn({ tool, input, principal }: CallRequest): boolean {
  if (principal.kind !== "agent" || tool === "read") return true;
  const command = "params" in input ? input.params["command"] : undefined;
  return tool === "exec" && typeof command === "string" && HARMLESS.test(command);
}

/** Why a call is refused for want of room; people are let through, to make some. */
export function refusedForRoom(agent: Agent, use: DiskUse | undefined, request: CallRequest): string | undefined {
  const limit = diskLimit(agent);
  if (limit === undefined || use === undefined || !isOver(use, limit) || mayGoOn(request)) return undefined;
  const takes = `${use.whole ? "" : "at least "}${Math.ceil(use.bytes / 2 ** 20)}Mi`;
  const name = nsName(agent.metadata.namespace, agent.metadata.name);
  return `the workspace of ${name} takes ${takes}, and sandbox.resources.disk allows ${showBytes(limit)}: remove files with a plain rm (du, ls and read work too), then try again`;
}
