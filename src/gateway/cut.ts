// Which command a session waits for, written down where the next gateway finds it: tools of a session run one after the other.
import type { StartedCommand } from "../core/call.ts";
import type { Shelf } from "../core/world.ts";
import type { InboxRow } from "./inbox.ts";
import { hashOf } from "./settings.ts";

export interface CutCommand extends StartedCommand {
  /** Id of the tool call in the session's file. */
  readonly id: string;
}

export interface CutCommands {
  set(command: CutCommand): void;
  get(): CutCommand | undefined;
  /** Its result is in the file, or nobody waits for it any more. */
  clear(): void;
}

function parse(text: string | undefined): CutCommand | undefined {
  try {
    const { id, call, container, timeoutMs } = JSON.parse(text ?? "") as Partial<CutCommand>;
    if (typeof id !== "string" || typeof call !== "string" || typeof container !== "string" || typeof timeoutMs !== "number")
      return undefined;
    return { id, call, container, timeoutMs };
  } catch {
    return undefined;
  }
}

export function cutCommands(shelf: Shelf, { agent, session }: Pick<InboxRow, "agent" | "session">): CutCommands {
  const key = `running/${agent.uid}/${hashOf(session)}`;
  return {
    set: (command) => shelf.set(key, JSON.stringify(command)),
    get: () => parse(shelf.get(key)),
    clear: () => void (shelf.get(key) !== undefined && shelf.delete(key)),
  };
}
