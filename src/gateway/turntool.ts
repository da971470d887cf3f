// The tools of a session while one of its turns runs: each call goes through the one door; one that was cut is gone on with.
import { asBeigeError } from "../core/errors.ts";
import type { CallResult, CallTool, RejoinCall } from "../core/call.ts";
import type { SessionTool, ToolAnswer } from "../core/chat.ts";
import type { Hooks } from "../core/plugin.ts";
import { nsName } from "../core/resource.ts";
import type { Log, Shelf } from "../core/world.ts";
import { cutCommands } from "./cut.ts";
import type { InboxRow } from "./inbox.ts";

export interface ToolDeps {
  readonly call: CallTool;
  readonly shelf: Shelf;
  readonly log: Log;
  /** Absent where no command outlives its gateway. */
  readonly rejoin?: RejoinCall;
  readonly hooks?: { readonly onToolStart: NonNullable<Hooks["onToolStart"]> };
}

interface Asked {
  readonly row: InboxRow;
  readonly name: string;
  readonly signal: AbortSignal;
}

/** Never waited for. */
function observe(deps: ToolDeps, { row, name }: Asked, args: Readonly<Record<string, unknown>>): void {
  const { agent, session, settings } = row;
  const said = { agent: nsName(agent.namespace, agent.name), session, tool: name, args };
  deps.hooks
    ?.onToolStart({ ...said, verbose: settings?.verbose === true })
    .catch((error: unknown) => deps.log.warn("hook failed", { hook: "onToolStart", error: asBeigeError(error).message }));
}

function answerOf(result: CallResult): ToolAnswer {
  const output = new TextDecoder().decode(result.output);
  const text = result.error === undefined ? output : output === "" ? result.error : `${output}\n${result.error}`;
  return { text, failed: !result.success, ...(result.images === undefined ? {} : { images: result.images }) };
}

export const runTool =
  (deps: ToolDeps, asked: Asked): SessionTool["run"] =>
  async (id, params, signal) => {
    const { agent, session, request } = asked.row;
    const both = AbortSignal.any([signal, asked.signal]);
    both.throwIfAborted();
    observe(deps, asked, params);
    const cut = cutCommands(deps.shelf, asked.row);
    const result = await deps.call(
      {
        principal: { kind: "agent", uid: agent.uid, attribution: "direct" },
        agent,
        tool: asked.name,
        input: { params },
        session,
        ...(request === undefined ? {} : { request }),
        ...(deps.rejoin === undefined ? {} : { onCommand: (command) => cut.set({ ...command, id }) }),
      },
      both,
    );
    return answerOf(result);
  };

/** What became of a tool call that has no result in the session's file; undefined when nobody knows. */
export async function cutTool(deps: ToolDeps, asked: Asked, id: string): Promise<ToolAnswer | undefined> {
  const command = cutCommands(deps.shelf, asked.row).get();
  if (asked.name !== "exec" || command?.id !== id) return undefined;
  const result = await deps.rejoin?.(asked.row.agent, command, asked.signal);
  if (result === undefined) return undefined;
  deps.log.info("a command went on over a restart", { call: result.call, outcome: result.outcome });
  return answerOf(result);
}
