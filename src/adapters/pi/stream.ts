// Gives the agent loop our stream of deltas as the SDK's stream of growing messages.
import type { AgentSession } from "@mariozechner/pi-coding-agent";
import {
  getCurrentSystemPrompt,
  getCurrentTools,
  type AssistantMessage as SdkMessage,
  type AssistantMessageEvent,
  type Message as SdkEntry,
} from "@earendil-works/pi-ai";
import { jsonBytes, textTokens } from "../../core/estimate.ts";
import { REQUEST_CHARS_MAX, withNewestImages } from "../../core/images.ts";
import { fold, newDraft, type Draft } from "../../core/draft.ts";
import type { AssistantMessage, ChatContext, ChatEvent, Message, SessionOptions } from "../../core/chat.ts";
import { eventStream, MODEL, PROVIDER } from "./sdk.ts";

type StreamFunction = AgentSession["agent"]["streamFunction"];

/** The transcript declares prompt and tools in system messages; the newest state of both goes beside the messages. */
function contextOf(messages: readonly SdkEntry[]): ChatContext {
  const all = [...messages];
  return {
    systemPrompt: getCurrentSystemPrompt(all),
    messages: withNewestImages(all.filter(({ role }) => role !== "system") as unknown as readonly Message[], REQUEST_CHARS_MAX),
    tools: getCurrentTools(all),
  };
}

/** In words and under a name by which the loop knows that the conversation is too long: it summarises once and asks once more. */
const tooLong = (message: AssistantMessage): SdkMessage =>
  ({
    ...message,
    provider: PROVIDER,
    model: MODEL,
    errorMessage: `prompt is too long: ${message.errorMessage ?? ""}`,
  }) as unknown as SdkMessage;

const overflowed = (event: ChatEvent): boolean =>
  event.type === "error" && event.failure?.overflow === true && event.failure.partial !== true;

const partialOf = (draft: Draft): SdkMessage => draft as unknown as SdkMessage;

function toSdk(event: ChatEvent, draft: Draft): AssistantMessageEvent {
  switch (event.type) {
    case "start":
      return { type: "start", partial: partialOf(draft) };
    case "done": {
      const reason = event.message.stopReason === "toolUse" || event.message.stopReason === "length" ? event.message.stopReason : "stop";
      return { type: "done", reason, message: event.message as unknown as SdkMessage };
    }
    case "error": {
      const reason = event.message.stopReason === "aborted" ? "aborted" : "error";
      return { type: "error", reason, error: overflowed(event) ? tooLong(event.message) : (event.message as unknown as SdkMessage) };
    }
    default:
      return { ...event, partial: partialOf(draft) } as AssistantMessageEvent;
  }
}

/** `onOverflow` hears how many tokens were too many, about. */
export function ownStream(options: SessionOptions, onOverflow: (tokens: number) => void): StreamFunction {
  return (model, context, asked) => {
    const out = eventStream();
    const signal = asked?.signal ?? new AbortController().signal;
    const draft = newDraft({ api: model.api, provider: model.provider, model: model.id, timestamp: Date.now() });
    let ended = false;
    const pump = async (): Promise<void> => {
      for await (const event of options.stream(contextOf(context.messages), { thinking: options.thinking }, signal)) {
        fold(draft, event);
        if (overflowed(event)) onOverflow(textTokens(jsonBytes(context.messages)));
        out.push(toSdk(event, draft));
        ended = event.type === "done" || event.type === "error";
        if (ended) return;
      }
    };
    const fail = (text: string): void => {
      const error = { ...partialOf(draft), stopReason: "error" as const, errorMessage: text };
      out.push({ type: "error", reason: "error", error });
    };
    // Whatever happens, the loop must get its last event: it waits for nothing else.
    pump().then(
      () => (ended ? undefined : fail("the stream ended before the answer was complete")),
      (error: unknown) => fail(error instanceof Error ? error.message : String(error)),
    );
    return out;
  };
}
