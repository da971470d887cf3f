// Keeps a conversation: its entries go to the gateway as they come, which alone writes the file. What it could not take yet waits here.
import { setTimeout as pause } from "node:timers/promises";
import { codeOf, said, type Entry, type Gateway, type Talk } from "./gateway.ts";

const RETRY_MS = 1000;
const BATCH = 200;
const BATCH_CHARS = 3 * 1024 * 1024;
/** The gateway's own entries: it takes none of that name from others. */
const OWN = "beige.";

export interface Keeper {
  readonly talk: () => Talk;
  /** Whether the gateway has anything of it. */
  readonly any: () => boolean;
  /** There may be something new. Returns at once. */
  touch(): void;
  /** Waits until the gateway has all, at most so long; answers how many entries it has not. */
  flush(ms: number): Promise<number>;
}

export interface Kept {
  readonly talk: Talk;
  /** All entries, oldest first; it only grows. */
  readonly entries: () => readonly Entry[];
  /** How many of them the gateway has, and the newest of those. */
  readonly had: number;
  readonly after: string | null;
  /** A key that no conversation has. */
  readonly newKey: () => string;
  /** How long a request that failed waits for the next one. */
  readonly retryMs?: number;
}

export interface KeeperHears {
  /** Why the gateway does not take the newest entries; undefined once it does again. */
  onTrouble(text: string | undefined): void;
  /** The conversation went on elsewhere: what is said here is one of its own from now on. */
  onMoved(talk: Talk): void;
}

const SETUP: ReadonlySet<string> = new Set(["model_change", "thinking_level_change", "custom"]);

/** Something that a person would miss: setting up a conversation in which nothing was said leaves no trace. */
function matters(entry: Entry): boolean {
  if (entry.type !== "message") return !SETUP.has(entry.type);
  return (entry["message"] as { readonly role?: string } | undefined)?.role !== "system";
}

/** The same conversation without the gateway's own entries: what hung on one hangs on the entry before it. */
export function withoutOwn(entries: readonly Entry[]): readonly Entry[] {
  const instead = new Map<string, string | null>();
  const at = (id: unknown): unknown => (typeof id === "string" && instead.has(id) ? instead.get(id) : id);
  return entries.flatMap((entry) => {
    const parentId = at(entry.parentId ?? null) as string | null;
    if (entry.type === "custom" && String(entry["customType"]).startsWith(OWN)) {
      instead.set(entry.id, parentId);
      return [];
    }
    const first = entry["firstKeptEntryId"];
    return [{ ...entry, parentId, ...(first !== undefined && { firstKeptEntryId: at(first) ?? first }) }];
  });
}

/** As many of the next ones as one request carries; at least one. */
function batchOf(entries: readonly Entry[]): readonly Entry[] {
  let chars = 0;
  const end = entries.slice(0, BATCH).findIndex((entry, index) => {
    chars += JSON.stringify(entry).length;
    return index > 0 && chars > BATCH_CHARS;
  });
  return entries.slice(0, end === -1 ? BATCH : end);
}

interface State {
  talk: Talk;
  had: number;
  after: string | null;
  moved: boolean;
  /** The gateway will never take them. */
  refused: boolean;
  running: Promise<void> | undefined;
}

const all = (kept: Kept, state: State): readonly Entry[] => (state.moved ? withoutOwn(kept.entries()) : kept.entries());
const waiting = (kept: Kept, state: State): readonly Entry[] => {
  const fresh = all(kept, state).slice(state.had);
  return fresh.some(matters) ? fresh : [];
};

/** The answer to an earlier request was lost, somebody else wrote, or a turn runs. */
async function settle(gateway: Gateway, kept: Kept, state: State): Promise<"moved" | "wait"> {
  const newest = (await gateway.entries(state.talk)).findLast((entry) => entry.type !== "session")?.id ?? null;
  if (newest === state.after) return "wait";
  const at = waiting(kept, state).findIndex((entry) => entry.id === newest);
  if (at !== -1) {
    Object.assign(state, { had: state.had + at + 1, after: newest });
    return "wait";
  }
  Object.assign(state, { talk: { agent: state.talk.agent, session: kept.newKey() }, had: 0, after: null, moved: true });
  return "moved";
}

async function send(gateway: Gateway, kept: Kept, state: State): Promise<void> {
  const batch = batchOf(waiting(kept, state));
  const { last } = await gateway.append(state.talk, batch, state.after);
  state.had += batch.length;
  state.after = last;
}

/** Until the gateway has all, or refuses for good. */
async function work(gateway: Gateway, { kept, state }: { readonly kept: Kept; readonly state: State }, hears: KeeperHears): Promise<void> {
  let trouble = false;
  while (!state.refused && waiting(kept, state).length > 0) {
    try {
      await send(gateway, kept, state);
      if (trouble) hears.onTrouble(undefined);
      trouble = false;
    } catch (error) {
      const code = codeOf(error);
      const what = code === "conflict" ? await settle(gateway, kept, state).catch(() => "wait" as const) : "wait";
      if (what === "moved") hears.onMoved(state.talk);
      else {
        state.refused = code === "invalid" || code === "denied" || code === "not_found";
        if (code !== "conflict") {
          trouble = true;
          hears.onTrouble(said(error));
        }
        if (!state.refused) await pause(kept.retryMs ?? RETRY_MS, undefined, { ref: false });
      }
    }
  }
}

export function createKeeper(gateway: Gateway, kept: Kept, hears: KeeperHears): Keeper {
  const state: State = { talk: kept.talk, had: kept.had, after: kept.after, moved: false, refused: false, running: undefined };
  const touch = (): void => {
    state.running ??= work(gateway, { kept, state }, hears).finally(() => (state.running = undefined));
  };
  return {
    talk: () => state.talk,
    any: () => state.had > 0,
    touch,
    async flush(ms) {
      touch();
      await Promise.race([state.running, pause(ms)]);
      return waiting(kept, state).length;
    },
  };
}
