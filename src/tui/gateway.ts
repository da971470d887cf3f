// What a terminal asks of the gateway. It has no other way to a model, a sandbox or a session's file.
import type { ChatContext, ChatEvent, ChatOptions, ImagePart, TextPart } from "../core/chat.ts";
import { asBeigeError, BeigeError } from "../core/errors.ts";
import type { SessionLoop, SessionView, SettingsPatch } from "../core/session.ts";
import { clean } from "../core/text.ts";

/** A request to the gateway, as the command line's client makes it. */
export interface Ask {
  readonly method?: "GET" | "POST" | "PATCH";
  readonly path: string;
  readonly body?: unknown;
  readonly type?: string;
  readonly accept?: string;
  readonly idleMs?: number;
  readonly signal?: AbortSignal;
}

export interface Client {
  ask(ask: Ask): Promise<{ readonly status: number; text(): Promise<string>; close(): void }>;
  /** Throws what the gateway said when it said no. */
  get<T>(ask: Ask): Promise<T>;
  stream<T>(ask: Ask): AsyncGenerator<T>;
}

export interface AgentLine {
  readonly name: string;
  readonly ready: string;
  readonly reason: string;
  readonly message: string;
}

/** A conversation: whose, and its key. */
export interface Talk {
  readonly agent: string;
  readonly session: string;
}

/** A line of a session's file; its header is one as well. */
export interface Entry {
  readonly type: string;
  readonly id: string;
  readonly parentId?: string | null;
  readonly [more: string]: unknown;
}

export type ChatLine = ChatEvent | { readonly type: "model_fallback"; readonly provider: string; readonly model: string };

export interface ToolAnswer {
  readonly text: string;
  readonly images: readonly ImagePart[];
  readonly exitCode: number;
  readonly success: boolean;
}

export interface ChatAsk {
  readonly context: ChatContext;
  /** PROVIDER/MODEL of the agent's list. */
  readonly model: string;
  readonly options: Partial<ChatOptions>;
}

export interface Gateway {
  agents(): Promise<readonly AgentLine[]>;
  /** Newest first. */
  sessions(agent: string): Promise<readonly SessionView[]>;
  loop(talk: Talk): Promise<SessionLoop>;
  /** All lines of its file; none of a session that is not there yet. */
  entries(talk: Talk): Promise<readonly Entry[]>;
  append(talk: Talk, entries: readonly Entry[], after: string | null): Promise<{ readonly last: string }>;
  set(talk: Talk, patch: SettingsPatch): Promise<SessionView>;
  tool(talk: Talk, call: { readonly tool: string; readonly params: object }, signal?: AbortSignal): Promise<ToolAnswer>;
  chat(talk: Talk, ask: ChatAsk, signal: AbortSignal): AsyncIterable<ChatLine>;
}

/** Longest silence: a request may wait for its turn at a provider, a command may run for an hour. */
const PATIENCE_MS = 3_700_000;
const QUICK_MS = 15_000;

/** A model's name as this terminal shows it, in its two parts. */
export const modelOf = (name: string): { readonly provider: string; readonly id: string } => {
  const slash = name.indexOf("/");
  return { provider: name.slice(0, slash), id: name.slice(slash + 1) };
};

/** An error as a person reads it. */
export const said = (error: unknown): string => {
  // From the command line's bundle it has another class of the same name.
  const { message, hint } = error instanceof Error && error.name === "BeigeError" ? (error as BeigeError) : asBeigeError(error);
  return clean(hint === undefined ? message : `${message} (${hint})`);
};

export const codeOf = (error: unknown): string =>
  error instanceof Error && error.name === "BeigeError" ? (error as BeigeError).code : "internal";

const pathOf = (agent: string, more = ""): string => `/api/agents/${encodeURIComponent(agent)}${more}`;
const of = ({ agent, session }: Talk, more = ""): string => pathOf(agent, `/sessions/${encodeURIComponent(session)}${more}`);

function linesOf(text: string): readonly Entry[] {
  const lines = text.split("\n").filter((line) => line.trim() !== "");
  return lines.flatMap((line) => {
    try {
      return [JSON.parse(line) as Entry];
    } catch {
      // A torn last line: its writer was ended.
      return [];
    }
  });
}

export function createGateway(client: Client): Gateway {
  // A signal of its own: the program's ends with the first SIGTERM, and what was said must still be told then.
  const own = (): { readonly idleMs: number; readonly signal: AbortSignal } => ({ idleMs: QUICK_MS, signal: new AbortController().signal });
  return {
    agents: () => client.get({ ...own(), path: "/api/agents" }),
    sessions: async (agent) =>
      (await client.get<{ readonly sessions: readonly SessionView[] }>({ ...own(), path: pathOf(agent, "/sessions") })).sessions,
    loop: (talk) => client.get({ ...own(), path: of(talk, "/loop") }),
    async entries(talk) {
      const answer = await client.ask({ ...own(), path: of(talk, "/export"), accept: "*/*" });
      const text = await answer.text();
      if (answer.status === 404) return [];
      if (answer.status !== 200)
        throw new BeigeError("unavailable", `the gateway answered ${answer.status}`, { hint: "beige gateway logs" });
      return linesOf(text);
    },
    append: (talk, entries, after) => client.get({ ...own(), method: "POST", path: of(talk, "/entries"), body: { entries, after } }),
    set: (talk, patch) => client.get({ ...own(), method: "PATCH", path: of(talk), body: patch, type: "application/json" }),
    async tool({ agent, session }, { tool, params }, signal) {
      const body = { tool, params, session };
      const ask = { ...own(), idleMs: PATIENCE_MS, method: "POST" as const, path: pathOf(agent, "/exec"), body, ...(signal && { signal }) };
      const { content, exitCode, success, error } = await client.get<Executed>(ask);
      const text = content.map((part) => (part.type === "text" ? part.text : "")).join("");
      const images = content.filter((part) => part.type === "image");
      return { text: error === undefined || error === text ? text : `${text}\n${error}`, images, exitCode, success };
    },
    chat({ agent, session }, { context, model, options }, signal) {
      const body = { agent, session, model: modelOf(model), context, options };
      return client.stream<ChatLine>({ method: "POST", path: "/api/chat/stream", body, idleMs: PATIENCE_MS, signal });
    },
  };
}

interface Executed {
  readonly content: readonly (TextPart | ImagePart)[];
  readonly exitCode: number;
  readonly success: boolean;
  readonly error?: string;
}
