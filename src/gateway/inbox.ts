// Messages that were accepted and are not answered yet: on the shelf before anybody is told, off it at their end.
import type { AgentId, Principal } from "../core/call.ts";
import type { ImagePart } from "../core/chat.ts";
import type { SessionSettings } from "../core/session.ts";
import type { Clock, Random, Shelf } from "../core/world.ts";

const PREFIX = "inbox/";

export interface InboxRow {
  /** Sorts by the time of acceptance. */
  readonly id: string;
  readonly agent: AgentId;
  readonly session: string;
  readonly text: string;
  readonly images?: readonly ImagePart[];
  /** Of the request that brought it. */
  readonly request?: string;
  readonly principal: Principal;
  readonly fresh: boolean;
  /** As they were when the message was accepted: what is set later holds for later messages. */
  readonly settings?: SessionSettings;
}

export interface Inbox {
  /** On the disk when it returns. */
  add(message: Omit<InboxRow, "id">): InboxRow;
  remove(row: InboxRow): void;
  /** In order of acceptance. What cannot be read is dropped and named in `bad`. */
  pending(): { readonly rows: readonly InboxRow[]; readonly bad: readonly string[] };
}

const keyOf = (id: string): string => PREFIX + id;

const isRow = (value: unknown): value is Omit<InboxRow, "id"> => {
  if (typeof value !== "object" || value === null) return false;
  const row = value as Partial<Record<keyof InboxRow, unknown>>;
  const agent = row.agent as Partial<Record<keyof AgentId, unknown>> | undefined;
  return (
    typeof row.session === "string" &&
    typeof row.text === "string" &&
    typeof row.fresh === "boolean" &&
    typeof (row.principal as { kind?: unknown } | undefined)?.kind === "string" &&
    typeof agent?.uid === "string" &&
    typeof agent.name === "string" &&
    typeof agent.namespace === "string"
  );
};

function parse(text: string): Omit<InboxRow, "id"> | undefined {
  try {
    const value = JSON.parse(text) as unknown;
    return isRow(value) ? value : undefined;
  } catch {
    return undefined;
  }
}

export function createInbox(deps: { readonly shelf: Shelf; readonly clock: Clock; readonly random: Random }): Inbox {
  const { shelf, clock, random } = deps;
  let last = 0;
  return {
    add(message) {
      // Never going back, so that two messages of one millisecond, or of a clock that was set, keep their order.
      last = Math.max(clock.now() * 1000, last + 1);
      const id = `${String(last).padStart(17, "0")}-${random.hex(4)}`;
      shelf.set(keyOf(id), JSON.stringify(message), true);
      return { id, ...message };
    },
    remove: (row) => shelf.delete(keyOf(row.id)),
    pending() {
      const rows: InboxRow[] = [];
      const bad: string[] = [];
      for (const { key, value } of shelf.list(PREFIX)) {
        const id = key.slice(PREFIX.length);
        const message = parse(value);
        if (message === undefined) {
          bad.push(id);
          shelf.delete(key);
          continue;
        }
        last = Math.max(last, Number.parseInt(id, 10) || 0);
        rows.push({ id, ...message });
      }
      return { rows, bad };
    },
  };
}
