// A model as the SDK asks it: each request goes to the gateway, whose deltas become the SDK's stream of growing messages.
import type { AgentSession } from "@mariozechner/pi-coding-agent";
import {
  createAssistantMessageEventStream,
  getCurrentSystemPrompt,
  getCurrentTools,
  type AssistantMessage as SdkMessage,
  type AssistantMessageEvent,
} from "@earendil-works/pi-ai";
import type { ChatContext, ChatEvent, ChatOptions, Message } from "../core/chat.ts";
import { IMAGES_CHARS_MAX, withNewestImages } from "../core/images.ts";
import { fold, newDraft, type Draft } from "../core/draft.ts";
import { clean } from "../core/text.ts";
import type { ChatLine, Gateway, Talk } from "./gateway.ts";
import { said } from "./gateway.ts";
import type { Screen } from "./screen.ts";

type Stream = AgentSession["agent"]["streamFunction"];
type Asked = Parameters<Stream>[2];
type Transcript = Parameters<Stream>[1];

/** Prompt and tools stand in system messages of the transcript; the gateway takes the newest state of both beside the messages. */
function contextOf({ messages }: Transcript, screen: Screen): ChatContext {
  const all = [...messages];
  return {
    systemPrompt: getCurrentSystemPrompt(all),
    messages: withNewestImages(
      all.filter((message) => message.role !== "system").map(screen.whole) as unknown as readonly Message[],
      IMAGES_CHARS_MAX,
    ),
    tools: getCurrentTools(all).map(({ name, description, parameters }) => ({ name, description, parameters })),
  };
}

const LEVELS: readonly string[] = ["minimal", "low", "medium", "high"];

function optionsOf(asked: Asked): Partial<ChatOptions> {
  const { reasoning, maxTokens, temperature } = asked ?? {};
  const thinking = reasoning === undefined ? "off" : LEVELS.includes(reasoning) ? (reasoning as ChatOptions["thinking"]) : "high";
  return { thinking, ...(maxTokens !== undefined && { maxTokens }), ...(temperature !== undefined && { temperature }) };
}

const grown = (draft: Draft): SdkMessage => draft as unknown as SdkMessage;

/** Refusals of the gateway come with what mends them; a conversation that is too long in words by which the loop knows it. */
function errorText(event: Extract<ChatEvent, { type: "error" }>): string {
  const { failure, message } = event;
  const text = clean(failure?.message ?? message.errorMessage ?? "no answer");
  if (failure?.overflow === true && failure.partial !== true) return `prompt is too long: ${text}`;
  return failure?.hint === undefined ? text : `${text} (${failure.hint})`;
}

function toSdk(event: ChatEvent, draft: Draft): AssistantMessageEvent {
  switch (event.type) {
    case "start":
      return { type: "start", partial: grown(draft) };
    case "done": {
      const { stopReason } = event.message;
      const reason = stopReason === "toolUse" || stopReason === "length" ? stopReason : "stop";
      return { type: "done", reason, message: event.message as unknown as SdkMessage };
    }
    case "error": {
      const reason = event.message.stopReason === "aborted" ? "aborted" : "error";
      return { type: "error", reason, error: { ...(event.message as unknown as SdkMessage), errorMessage: errorText(event) } };
    }
    default:
      return { ...event, partial: grown(draft) } as AssistantMessageEvent;
  }
}

export interface Heard {
  /** Another model than the first answers. */
  onFallback(model: string): void;
  readonly screen: Screen;
}

/** As the terminal may have it. */
function harmless(event: ChatEvent, screen: Screen): ChatEvent {
  switch (event.type) {
    case "text_delta":
    case "thinking_delta":
      return { ...event, delta: clean(event.delta) };
    case "text_end":
    case "thinking_end":
      return { ...event, content: clean(event.content) };
    case "toolcall_end":
      return { ...event, toolCall: screen.shownCall({ ...event.toolCall }) };
    case "done":
    case "error":
      return { ...event, message: screen.shown(event.message) };
    default:
      return event;
  }
}

const isEvent = (line: ChatLine | { readonly type: "blocked" }): line is ChatEvent =>
  line.type !== "model_fallback" && line.type !== "blocked";

/** Never throws: every stream ends with `done` or `error`, whatever the gateway does. */
export function roadStream(gateway: Gateway, talk: () => Talk, heard: Heard): Stream {
  return (model, context, asked) => {
    const out = createAssistantMessageEventStream();
    const signal = asked?.signal ?? new AbortController().signal;
    const draft = newDraft({ api: model.api, provider: model.provider, model: model.id, timestamp: Date.now() });
    let ended = false;
    const pump = async (): Promise<void> => {
      const ask = { context: contextOf(context, heard.screen), model: model.id, options: optionsOf(asked) };
      for await (const line of gateway.chat(talk(), ask, signal)) {
        if (line.type === "model_fallback") heard.onFallback(`${line.provider}/${line.model}`);
        // A call is shown once it has its name: half of one would stay on the screen.
        if (!isEvent(line) || line.type === "toolcall_start" || line.type === "toolcall_delta") continue;
        const event = harmless(line, heard.screen);
        fold(draft, event);
        ended = line.type === "done" || line.type === "error";
        if (line.type === "toolcall_end") out.push({ type: "toolcall_start", contentIndex: line.contentIndex, partial: grown(draft) });
        out.push(toSdk(event, draft));
        if (ended) return;
      }
      throw new Error("the answer ended before its end");
    };
    pump().catch((error: unknown) => {
      if (ended) return;
      const reason = signal.aborted ? "aborted" : "error";
      const text = signal.aborted ? "interrupted" : said(error);
      out.push({ type: "error", reason, error: { ...grown(draft), stopReason: reason, errorMessage: text } });
    });
    return out;
  };
}
