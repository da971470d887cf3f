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
  if (tool !== "exec" || !("params" in input)) return false;
  const { command, cwd: _cwd, timeout: _timeout, ...more } = input.params;
  // With variables of its own a word may mean another program, and what is sent in or goes on behind is no plain look.
  if (Object.values(more).some((each) => each !== undefined && each !== null && each !== false)) return false;
  return typeof command === "string" && HARMLESS.test(command);
}

/** Why a call is refused for want of room; people are let through, to make some. */
export function refusedForRoom(agent: Agent, use: DiskUse | undefined, request: CallRequest): string | undefined {
  const limit = diskLimit(agent);
  if (limit === undefined || use === undefined || !isOver(use, limit) || mayGoOn(request)) return undefined;
  const beyond = use.beyond === undefined ? "" : ` and has ${use.beyond}, which nobody measures`;
  const takes = `${use.whole ? "" : "at least "}${Math.ceil(use.bytes / 2 ** 20)}Mi${beyond}`;
  const name = nsName(agent.metadata.namespace, agent.metadata.name);
  return `the workspace of ${name} takes ${takes}, and sandbox.resources.disk allows ${showBytes(limit)}: remove files with a plain rm (du, ls and read work too), then try again`;
}
