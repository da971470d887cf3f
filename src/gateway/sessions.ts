// Conversations by agent and key: an index on the shelf, files below BEIGE_HOME, and the few that are in memory.
import { BeigeError } from "../core/errors.ts";
import { sessionFolder } from "../core/paths.ts";
import type { ChatContext, ChatEvent, ChatOptions, LiveSession, SessionOptions, SessionRuntime, SessionTool } from "../core/chat.ts";
import type { Agent } from "../core/resource.ts";
import type { SessionDraft, SessionLoop } from "../core/session.ts";
import type { Clock, Directory, Log, Random, Shelf } from "../core/world.ts";
import type { ModelFacts } from "../../schemas/types.ts";
import { leftSession } from "./left.ts";
import { candidatesOf, type ModelName } from "./models.ts";
import { systemPrompt, type PackageOf } from "./prompt.ts";
import { hashOf } from "./settings.ts";

export const DEFAULT_SESSION = "cli:default";
/** A conversation that nobody used for this long leaves memory; its file stays. */
export const IDLE_MS = 10 * 60_000;

/** Where an agent's folder is in its sandbox. */
const CWD = "/workspace";
const TITLE_MAX = 80;
/** Share of the model's window at which a conversation is summarised where nothing else is said. */
const FULL = 0.9;

const KEY = /^[a-z][a-z0-9_-]{0,31}(?::[\x21-\x39\x3b-\x7e]{1,128}){1,2}$/;

/** `channel:id[:id]`. Throws `invalid` for anything else. */
export function sessionKey(key: string): string {
  if (KEY.test(key)) return key;
  throw new BeigeError("invalid", `session key ${JSON.stringify(key.slice(0, 80))} is not CHANNEL:ID or CHANNEL:ID:ID`, {
    hint: "such as cli:default; letters, digits and punctuation without spaces",
  });
}

const rowKey = (uid: string, key: string): string => `session/${uid}/${hashOf(key)}`;

export interface SessionRow {
  readonly key: string;
  readonly id: string;
  readonly file: string;
  readonly createdAt: number;
  readonly updatedAt: number;
  /** Inbox id of the message that started it anew, so that a resumed message does not do it again. */
  readonly startedBy?: string;
  /** Why its older history is not in it. */
  readonly note?: string;
  /** First words of its first message. */
  readonly title?: string;
}

export interface Opening {
  readonly key: string;
  readonly inbox: string;
  readonly fresh: boolean;
  /** Asked first: its window says when the conversation is too long. */
  readonly model?: ModelName;
  readonly text?: string;
}

/** What one turn lends to its session while it runs. */
export interface Lent {
  stream(context: ChatContext, options: ChatOptions, signal: AbortSignal): AsyncIterable<ChatEvent>;
  readonly tool: (name: string) => SessionTool["run"];
  readonly rejoin: NonNullable<SessionOptions["rejoin"]>;
}

export interface Held {
  readonly live: LiveSession;
  /** Ends the loan; the conversation stays in memory for a while. */
  release(): void;
  /** Takes it out of memory at once: it did not end as it should. */
  discard(): void;
}

export interface SessionBook {
  open(agent: Agent, ask: Opening, lent: Lent): Promise<Held>;
  /** Takes all conversations of an agent out of memory; all agents when absent. */
  close(uid?: string): void;
  row(uid: string, key: string): SessionRow | undefined;
  /** A row for a session that is made without a turn, or whose file was added to; it is read again at its next use. */
  write(agent: Agent, key: string, written: { readonly file: string; readonly text?: string }): void;
  /** What the loop of an agent's sessions runs with. */
  loop(agent: Agent): Omit<SessionLoop, "session" | "settings">;
  /** Name and folder of the file of a session that may not be there yet. */
  draft(agent: Agent, key: string): SessionDraft;
  /** Out of memory and out of the index. */
  forget(uid: string, key: string): void;
  rows(uid: string): readonly SessionRow[];
  readonly inMemory: () => number;
}

export interface BookDeps {
  readonly runtime: SessionRuntime;
  readonly directory: Directory;
  readonly shelf: Shelf;
  readonly home: string;
  readonly clock: Clock;
  readonly random: Random;
  readonly log: Log;
  readonly packageOf: PackageOf;
  readonly tools: readonly { readonly name: string; readonly description: string; readonly parameters: object }[];
  /** Before a session begins; it does not when this throws. */
  readonly onFresh?: (agent: Agent, session: string) => Promise<void>;
}

interface Entry {
  readonly uid: string;
  readonly generation: number;
  readonly model: string;
  readonly live: LiveSession;
  readonly lend: (lent: Lent | undefined) => void;
  timer?: { cancel(): void };
}

export function createBook(deps: BookDeps): SessionBook {
  const entries = new Map<string, Entry>();
  const drop = (at: string): void => {
    const entry = entries.get(at);
    if (entry === undefined) return;
    entries.delete(at);
    entry.timer?.cancel();
    entry.lend(undefined);
    entry.live.dispose();
  };
  return {
    async open(agent, ask, lent) {
      const at = rowKey(agent.metadata.uid, ask.key);
      const known = readRow(deps.shelf, at);
      const anew = ask.fresh && known?.startedBy !== ask.inbox;
      const held = entries.get(at);
      // A changed agent has other instructions or tools: the conversation is read again from its file.
      if (held !== undefined && (anew || held.generation !== agent.metadata.generation || held.model !== modelKey(ask))) drop(at);
      const entry = entries.get(at) ?? (await load(deps, agent, { ask, at, known: anew ? undefined : known, lent }));
      entries.set(at, entry);
      entry.timer?.cancel();
      entry.lend(lent);
      return {
        live: entry.live,
        release() {
          entry.lend(undefined);
          touch(deps, at);
          entry.timer = deps.clock.after(IDLE_MS, () => drop(at));
        },
        discard: () => drop(at),
      };
    },
    close(uid) {
      for (const [at, entry] of entries) if (uid === undefined || entry.uid === uid) drop(at);
    },
    row: (uid, key) => readRow(deps.shelf, rowKey(uid, key)),
    write(agent, key, { file, text }) {
      const at = rowKey(agent.metadata.uid, key);
      drop(at);
      const known = readRow(deps.shelf, at);
      const now = deps.clock.now();
      const id = known?.id ?? file.slice(file.lastIndexOf("/") + 1).replace(/\.jsonl$/, "");
      const title = titleOf(known, text);
      deps.shelf.set(at, JSON.stringify({ createdAt: now, ...known, ...title, key, id, file, updatedAt: now }), true);
    },
    loop: (agent) => ({
      systemPrompt: systemPrompt(agent, deps.packageOf),
      cwd: CWD,
      tools: schemasOf(deps, agent),
      models: candidatesOf(deps.directory, agent, undefined).map(({ provider, model }) => ({
        provider: provider.metadata.name,
        facts: model,
      })),
      compactAt: compactAt(agent, modelOf(deps, agent, undefined)),
    }),
    draft(agent, key) {
      const known = readRow(deps.shelf, rowKey(agent.metadata.uid, key));
      const folder = sessionFolder(deps.home, agent.metadata);
      return { folder, cwd: CWD, ...(known === undefined ? { id: newId(deps, key) } : { id: known.id, file: known.file }) };
    },
    forget(uid, key) {
      drop(rowKey(uid, key));
      deps.shelf.delete(rowKey(uid, key));
    },
    rows: (uid) => deps.shelf.list(`session/${uid}/`).flatMap((row) => parseRow(row.value) ?? []),
    inMemory: () => entries.size,
  };
}

function parseRow(text: string | undefined): SessionRow | undefined {
  if (text === undefined) return undefined;
  try {
    const row = JSON.parse(text) as Partial<SessionRow> | null;
    return typeof row?.id === "string" && typeof row.file === "string" && typeof row.key === "string" ? (row as SessionRow) : undefined;
  } catch {
    return undefined;
  }
}

const modelKey = (ask: Opening): string => (ask.model === undefined ? "" : `${ask.model.provider}/${ask.model.id}`);

const newId = (deps: BookDeps, key: string): string => `${hashOf(key)}-${deps.clock.now().toString(36)}-${deps.random.hex(4)}`;

function touch(deps: BookDeps, at: string): void {
  const row = readRow(deps.shelf, at);
  if (row !== undefined) deps.shelf.set(at, JSON.stringify({ ...row, updatedAt: deps.clock.now() }));
}

const readRow = (shelf: Shelf, at: string): SessionRow | undefined => parseRow(shelf.get(at));

interface Loading {
  readonly ask: Opening;
  readonly at: string;
  readonly known: SessionRow | undefined;
  /** Of the turn that opens it. */
  readonly lent: Lent;
}

async function load(deps: BookDeps, agent: Agent, loading: Loading): Promise<Entry> {
  const { ask, at, known } = loading;
  const loan: { lent?: Lent } = {};
  // Its index went with the store.
  const file = known ?? (ask.fresh ? undefined : await leftSession(deps.home, agent, hashOf(ask.key)));
  if (file === undefined) await deps.onFresh?.(agent, ask.key);
  const model = modelOf(deps, agent, ask.model);
  const id = file?.id ?? newId(deps, ask.key);
  const live = await deps.runtime.open({
    folder: sessionFolder(deps.home, agent.metadata),
    id,
    ...(file === undefined ? {} : { file: file.file }),
    systemPrompt: systemPrompt(agent, deps.packageOf),
    cwd: CWD,
    tools: toolsOf(deps, agent, loan),
    thinking: agent.spec.model.thinking,
    model,
    compactAt: compactAt(agent, model),
    rejoin: (call) => loading.lent.rejoin(call),
    stream: (context, options, signal) => lender(loan).stream(context, options, signal),
  });
  if (live.note !== undefined) deps.log.warn("session repaired", { agent: agent.metadata.name, session: ask.key, note: live.note });
  const now = deps.clock.now();
  const row: SessionRow = {
    key: ask.key,
    id,
    file: live.file,
    createdAt: known?.createdAt ?? now,
    updatedAt: now,
    ...(ask.fresh ? { startedBy: ask.inbox } : known?.startedBy === undefined ? {} : { startedBy: known.startedBy }),
    ...(live.note === undefined ? {} : { note: live.note }),
    ...titleOf(known, ask.text),
  };
  // Before the first message goes in: a crash after that finds the file.
  deps.shelf.set(at, JSON.stringify(row), true);
  const { uid, generation } = agent.metadata;
  return { uid, generation, model: modelKey(ask), live, lend: (lent) => lendTo(loan, lent) };
}

function titleOf(known: SessionRow | undefined, said: string | undefined): { readonly title?: string } {
  if (known?.title !== undefined) return { title: known.title };
  const text = said?.trim().replaceAll(/\s+/g, " ").slice(0, TITLE_MAX);
  return text === undefined || text === "" ? {} : { title: text };
}

const compactAt = (agent: Agent, model: ModelFacts): number =>
  Math.min(agent.spec.model.compactAt ?? Number.POSITIVE_INFINITY, Math.floor(model.contextWindow * FULL));

const modelOf = (deps: BookDeps, agent: Agent, first: ModelName | undefined): ModelFacts =>
  candidatesOf(deps.directory, agent, first)[0]?.model ?? {
    id: agent.spec.model.id,
    contextWindow: 128_000,
    maxTokens: 8192,
    input: ["text"],
    reasoning: false,
  };

const lendTo = (loan: { lent?: Lent }, lent: Lent | undefined): void => {
  if (lent === undefined) delete loan.lent;
  else loan.lent = lent;
};

function lender(loan: { readonly lent?: Lent }): Lent {
  if (loan.lent === undefined) throw new BeigeError("internal", "the session works without a turn");
  return loan.lent;
}

const schemasOf = (deps: BookDeps, agent: Agent): BookDeps["tools"] =>
  deps.tools.filter((tool) => (agent.spec.coreTools as readonly string[]).includes(tool.name));

const toolsOf = (deps: BookDeps, agent: Agent, loan: { readonly lent?: Lent }): readonly SessionTool[] =>
  schemasOf(deps, agent).map((tool) => ({ ...tool, run: (id, params, signal) => lender(loan).tool(tool.name)(id, params, signal) }));
