// Sessions as they are seen from outside: what is told of each, what may be set, and the files that hold their content.
import type { AgentId, Principal } from "./call.ts";
import type { ChatOptions } from "./chat.ts";
import type { ModelName } from "./road.ts";

/** Layers: the agent and the system, then the channel's plugin, then what was set for the session. */
export interface SessionSettings {
  /** One of the agent's own list: it is asked first. */
  readonly model?: ModelName;
  readonly thinking?: ChatOptions["thinking"];
  /** Channels say each tool before it runs. */
  readonly verbose?: boolean;
}

/** `null` takes an override away. */
export type SettingsPatch = { readonly [K in keyof SessionSettings]?: SessionSettings[K] | null };

export interface SessionView {
  /** `channel:id[:id]` */
  readonly session: string;
  /** First words of its first message. */
  readonly title?: string;
  /** Milliseconds since the epoch. */
  readonly createdAt: number;
  readonly updatedAt: number;
  readonly running: boolean;
  /** Messages that wait behind it. */
  readonly waiting: number;
  /** In force for the next message. */
  readonly settings: Required<SessionSettings>;
  /** What was set for this session. */
  readonly set: SessionSettings;
  /** Why its older history is not in it. */
  readonly note?: string;
}

/** An entry of a session file, as the pi SDK writes it. */
export interface SessionEntry {
  readonly type: string;
  readonly id: string;
  readonly parentId: string | null;
  readonly timestamp: string;
  readonly [more: string]: unknown;
}

/** A line of a conversation for people. */
export interface SessionLine {
  readonly id: string;
  readonly at: string;
  readonly role: "user" | "assistant" | "tool" | "summary";
  readonly text: string;
  readonly model?: string;
  readonly tool?: string;
  readonly failed?: boolean;
}

export interface SessionHit extends Pick<SessionLine, "id" | "at" | "role"> {
  readonly session: string;
  /** The words around what was found. */
  readonly excerpt: string;
}

export interface SessionDraft {
  readonly folder: string;
  readonly id: string;
  readonly cwd: string;
  readonly file?: string;
}

/** The files behind the sessions; nothing of the agent loop is loaded for them. Missing files are empty sessions. */
export interface SessionFiles {
  /** Entries from the first to the newest one, along the branch that is in force. */
  branch(file: string): Promise<readonly SessionEntry[]>;
  bytes(file: string): AsyncIterable<Uint8Array>;
  /** Entries of any branch that contain the text, in any case; at most `limit`. Reads at most `maxBytes`. */
  find(
    file: string,
    text: string,
    bounds: { readonly limit: number; readonly maxBytes: number },
  ): Promise<{ readonly entries: readonly SessionEntry[]; readonly read: number; readonly whole: boolean }>;
  /** Checks and adds entries; makes the file when there is none. Throws `invalid`, or `conflict` when `after` is not the newest entry. */
  append(
    draft: SessionDraft,
    entries: readonly unknown[],
    after?: string | null,
  ): Promise<{ readonly file: string; readonly last: string }>;
  remove(file: string): Promise<void>;
}

export interface SessionAsk {
  readonly principal: Principal;
  readonly agent: AgentId;
  readonly session: string;
  readonly request?: string;
}

/** What a terminal needs that runs the loop of a session itself. */
export interface SessionLoop {
  readonly session: string;
  readonly systemPrompt: string;
  /** Working folder inside the sandbox: the model reads it. */
  readonly cwd: string;
  /** Core tools that the agent has. */
  readonly tools: readonly { readonly name: string; readonly description: string; readonly parameters: object }[];
  /** Those of the agent's list whose provider is there, its first model first. */
  readonly models: readonly { readonly provider: string; readonly facts: import("../../schemas/types.ts").ModelFacts }[];
  /** Tokens of context at which the older part is summarised, by the first model's window. */
  readonly compactAt: number;
  /** In force for the next message. */
  readonly settings: Required<SessionSettings>;
}

/** What may be done with sessions besides sending a message. Throws BeigeErrors. */
export interface SessionDesk {
  /** `own`: just those whose keys begin so. */
  list(agent: AgentId, own?: string): readonly SessionView[];
  show(ask: SessionAsk): Promise<{ readonly session: SessionView; readonly lines: readonly SessionLine[] }>;
  /** The file as it is. */
  bytes(ask: SessionAsk): AsyncIterable<Uint8Array>;
  set(ask: SessionAsk, patch: SettingsPatch): SessionView;
  /** Goes in after the tools that run now, or when the turn would end. Throws `conflict` when no turn runs. */
  say(ask: SessionAsk, how: "steer" | "follow-up", text: string): { readonly inbox: string };
  /** Ends what runs and what waits; the number of messages that were ended. */
  abort(ask: SessionAsk): number;
  remove(ask: SessionAsk): Promise<void>;
  search(
    agent: AgentId,
    ask: { readonly text: string; readonly limit: number; readonly own?: string },
  ): Promise<{ readonly hits: readonly SessionHit[]; readonly whole: boolean }>;
  append(ask: SessionAsk, entries: readonly unknown[], after?: string | null): Promise<{ readonly last: string }>;
  /** What a terminal runs the loop with; the session need not exist yet. */
  loop(ask: SessionAsk): SessionLoop;
}
