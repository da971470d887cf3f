// A conversation: the SDK's agent loop on our own stream and tools, written to its file as it goes, taken up where it was cut.
import type { AgentSession, AgentSessionEvent, SessionManager } from "@mariozechner/pi-coding-agent";
import { BeigeError } from "../../core/errors.ts";
import type { AssistantMessage, LiveSession, Message, SessionEvent, SessionOptions, Words } from "../../core/chat.ts";
import type { Log } from "../../core/world.ts";
import { sessionFile } from "./file.ts";
import { checkRoom, roomOf } from "./room.ts";
import { ownStream } from "./stream.ts";
import { createSdkSession, keepLess, openManager, SESSION_VERSION } from "./sdk.ts";

const INBOX = "beige.inbox";
const INTERRUPTED =
  "interrupted: the gateway stopped before the result of this call was recorded. It may or may not have taken effect: check before doing it again.";

type Entry = ReturnType<SessionManager["getBranch"]>[number];

const inboxId = (entry: Entry): string | undefined => {
  if (entry.type !== "custom" || entry.customType !== INBOX) return undefined;
  const id = (entry.data as { readonly id?: unknown } | undefined)?.id;
  return typeof id === "string" ? id : undefined;
};

const roleOf = (entry: Entry): string | undefined => (entry.type === "message" ? entry.message.role : undefined);

/** Entries from an inbox id to the next one. */
function since(entries: readonly Entry[], id: string): { readonly entries: readonly Entry[]; readonly last: boolean } {
  const start = entries.findLastIndex((entry) => inboxId(entry) === id);
  const next = entries.findIndex((entry, index) => index > start && inboxId(entry) !== undefined);
  return { entries: entries.slice(start + 1, next === -1 ? undefined : next), last: next === -1 };
}

/** An id counts once its message is in the file as well: the two are written one after the other. */
function heldIds(manager: SessionManager): Set<string> {
  const entries = manager.getBranch();
  const ids = entries.flatMap((entry) => inboxId(entry) ?? []);
  return new Set(ids.filter((id) => since(entries, id).entries.some((entry) => roleOf(entry) === "user")));
}

/** Calls without a result get the one that their command goes on to, or one that says that it was lost; they are not run again. */
async function closeCalls(manager: SessionManager, rejoin: SessionOptions["rejoin"]): Promise<number> {
  const messages = manager.buildSessionContext().messages as readonly unknown[] as readonly Message[];
  const at = messages.findLastIndex((message) => message.role === "assistant");
  const asked = messages[at];
  if (asked?.role !== "assistant" || asked.stopReason === "error" || asked.stopReason === "aborted") return 0;
  const rest = messages.slice(at + 1);
  if (rest.some((message) => message.role === "user")) return 0;
  const done = new Set(rest.flatMap((message) => (message.role === "toolResult" ? [message.toolCallId] : [])));
  const open = asked.content.filter((part) => part.type === "toolCall").filter((part) => !done.has(part.id));
  for (const call of open) {
    const answer = (await rejoin?.(call)) ?? { text: INTERRUPTED, failed: true };
    manager.appendMessage({
      role: "toolResult",
      toolCallId: call.id,
      toolName: call.name,
      content: [{ type: "text", text: answer.text }],
      isError: answer.failed,
      timestamp: Date.now(),
    });
  }
  return open.length;
}

const textOf = (result: unknown): string => {
  const content = (result as { readonly content?: unknown } | undefined)?.content;
  if (!Array.isArray(content)) return "";
  return (content as readonly { readonly type?: string; readonly text?: string }[])
    .map((part) => (part.type === "text" ? (part.text ?? "") : ""))
    .join("");
};

function compacted(event: Extract<AgentSessionEvent, { type: "compaction_end" }>): SessionEvent | undefined {
  if (event.result !== undefined) return { type: "compaction", tokens: event.result.tokensBefore };
  return event.errorMessage === undefined ? undefined : { type: "compaction", tokens: 0, failed: event.errorMessage };
}

function toEvent(event: AgentSessionEvent): SessionEvent | undefined {
  if (event.type === "message_update") {
    const inner = event.assistantMessageEvent;
    if (inner.type === "text_delta") return { type: "text", delta: inner.delta };
    return inner.type === "thinking_delta" ? { type: "thinking", delta: inner.delta } : undefined;
  }
  if (event.type === "tool_execution_start") {
    return { type: "tool_start", id: event.toolCallId, tool: event.toolName, args: event.args as Readonly<Record<string, unknown>> };
  }
  if (event.type === "compaction_end") return compacted(event);
  if (event.type !== "tool_execution_end") return undefined;
  return { type: "tool_end", id: event.toolCallId, tool: event.toolName, failed: event.isError, output: textOf(event.result) };
}

const lastAnswer = (messages: readonly unknown[]): AssistantMessage | undefined =>
  (messages as readonly Message[]).findLast((message): message is AssistantMessage => message.role === "assistant");

export async function openSession(options: SessionOptions, log: Log): Promise<LiveSession> {
  const header = { type: "session", version: SESSION_VERSION, id: options.id, timestamp: new Date().toISOString(), cwd: options.cwd };
  const file = await sessionFile({
    folder: options.folder,
    id: options.id,
    header,
    ...(options.file === undefined ? {} : { file: options.file }),
  });
  const manager = openManager(file.path, options);
  const closed = await closeCalls(manager, options.rejoin);
  if (closed > 0) log.info("cut tool calls closed", { file: file.path, calls: closed });
  const session = await createSdkSession(options, manager);
  session.agent.streamFunction = ownStream(options, (tokens) => keepLess(session, tokens));
  // In the order in which the model asked: two patches of one file must not race.
  session.agent.toolExecution = "sequential";
  return live({ session, manager, file: file.path, inbox: heldIds(manager), ...(file.note === undefined ? {} : { note: file.note }) });
}

interface Opened {
  readonly session: AgentSession;
  readonly manager: SessionManager;
  readonly file: string;
  readonly note?: string;
  readonly inbox: Set<string>;
}

interface State {
  disposed: boolean;
  running: boolean;
  /** What was put into the turn that runs, and is not in the conversation yet. */
  readonly put: Map<unknown, { readonly inbox: string; readonly text: string }>;
  /** The last answer of the turn that runs, also one that the loop takes out of the conversation again. */
  answer?: AssistantMessage;
}

function live(opened: Opened): LiveSession {
  const { session, inbox } = opened;
  const state: State = { disposed: false, running: false, put: new Map() };
  return {
    file: opened.file,
    inbox,
    ...(opened.note === undefined ? {} : { note: opened.note }),
    last: () => lastAnswer(session.agent.state.messages),
    say(how, text, id) {
      if (!state.running || state.disposed || !session.isStreaming) return false;
      const message = { role: "user" as const, content: [{ type: "text" as const, text }], timestamp: Date.now() };
      state.put.set(message, { inbox: id, text });
      // Past the SDK's own words: it would read /skill and templates in the text.
      if (how === "steer") session.agent.steer(message);
      else session.agent.followUp(message);
      return true;
    },
    async prompt(said, id, on, signal) {
      if (state.disposed) throw new BeigeError("unavailable", "the session is closed");
      if (state.running) throw new BeigeError("internal", "the session has a turn already");
      signal.throwIfAborted();
      state.running = true;
      delete state.answer;
      const off = session.subscribe((event) => {
        const said = heard(opened, state, event);
        if (said !== undefined) on(said);
      });
      const abort = (): void => void session.abort().catch(() => undefined);
      signal.addEventListener("abort", abort, { once: true });
      try {
        return await run(opened, state, { said, id });
      } finally {
        signal.removeEventListener("abort", abort);
        off();
        // What came too late for this turn is not this session's any more: its sender still has it.
        session.agent.clearAllQueues();
        state.put.clear();
        state.running = false;
      }
    },
    dispose() {
      if (state.disposed) return;
      state.disposed = true;
      session.dispose();
    },
  };
}

function heard({ manager, inbox }: Opened, state: State, event: AgentSessionEvent): SessionEvent | undefined {
  if (event.type === "message_end" && event.message.role === "assistant") state.answer = event.message as unknown as AssistantMessage;
  const put = event.type === "message_start" ? state.put.get(event.message) : undefined;
  if (put === undefined) return toEvent(event);
  state.put.delete((event as { readonly message: unknown }).message);
  // Before the message itself, as for the first one of a turn.
  manager.appendCustomEntry(INBOX, { id: put.inbox });
  inbox.add(put.inbox);
  return { type: "user", ...put };
}

async function run(opened: Opened, state: State, message: { readonly said: Words; readonly id: string }): Promise<AssistantMessage> {
  const { session, manager, inbox } = opened;
  if (inbox.has(message.id)) {
    const { entries, last } = since(manager.getBranch(), message.id);
    const answered = entries.findLast((entry) => roleOf(entry) === "assistant");
    const ended =
      last &&
      roleOf(entries.findLast((entry) => ["user", "assistant", "toolResult"].includes(roleOf(entry) ?? "")) ?? ({} as Entry)) ===
        "assistant";
    if (answered?.type === "message" && (ended || !last)) return answered.message as unknown as AssistantMessage;
    // Cut half-way: the loop goes on from what the file holds.
    await session.agent.continue();
  } else {
    const { said } = message;
    if (typeof said !== "string") checkRoom(said.images, roomOf(manager));
    manager.appendCustomEntry(INBOX, { id: message.id });
    inbox.add(message.id);
    const images = typeof said === "string" ? {} : { images: said.images.map((image) => ({ ...image })) };
    await session.prompt(typeof said === "string" ? said : said.text, { expandPromptTemplates: false, ...images });
  }
  const answer = state.answer ?? lastAnswer(session.agent.state.messages);
  if (answer === undefined) throw new BeigeError("internal", "the session ended without an answer");
  return answer;
}
