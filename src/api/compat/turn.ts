// A whole turn of an agent as the answer of a model: its text alone, with usage; its tools run where they belong and are not told.
import { NO_USAGE } from "../../core/usage.ts";
import type { AssistantMessage, ChatContext, ImagePart, Message, TextPart } from "../../core/chat.ts";
import type { RoadEvent } from "../../core/road.ts";
import type { TurnEvent, TurnRequest } from "../../core/turn.ts";
import { unfit } from "./fields.ts";

/** `working`: nothing to tell yet, and the client should not give up. */
export type AnswerEvent = RoadEvent | { readonly type: "working" };

const STOPS: ReadonlySet<string> = new Set(["stop", "length"]);

export async function* asAnswer(events: AsyncIterable<TurnEvent>, now: () => number): AsyncGenerator<AnswerEvent> {
  let text = "";
  let apart = false;
  for await (const event of events) {
    switch (event.type) {
      case "text": {
        // What was said before a tool ran is a paragraph of its own.
        const delta = apart && text !== "" ? `\n\n${event.delta}` : event.delta;
        apart = false;
        text += delta;
        yield { type: "text_delta", contentIndex: 0, delta };
        break;
      }
      case "model":
        yield { type: "start", provider: event.provider, model: event.id, fallback: event.fallback };
        break;
      case "tool_start":
      case "tool_end":
        apart = true;
        yield { type: "working" };
        break;
      case "done":
        yield { type: "done", message: { ...blank(now()), ...answered(event, text) } };
        return;
      case "error": {
        const { code, message, hint, retryAfterMs, budget } = event;
        const failure = {
          code,
          message,
          ...(budget !== undefined && { budget }),
          ...(hint !== undefined && { hint }),
          ...(retryAfterMs !== undefined && { retryAfterMs }),
        };
        yield { type: "error", message: { ...blank(now()), stopReason: "error", errorMessage: message }, failure };
        return;
      }
      case "session":
      case "thinking":
      case "user":
      case "compaction":
    }
  }
}

const blank = (timestamp: number): AssistantMessage => ({
  role: "assistant",
  content: [],
  api: "beige",
  provider: "beige",
  model: "none",
  usage: NO_USAGE,
  stopReason: "stop",
  timestamp,
});

function answered(event: Extract<TurnEvent, { type: "done" }>, text: string): Partial<AssistantMessage> {
  const whole = text === "" ? event.text : text;
  return {
    content: whole === "" ? [] : [{ type: "text", text: whole }],
    provider: event.provider,
    model: event.model,
    usage: event.usage,
    stopReason: STOPS.has(event.stop) ? (event.stop as "stop" | "length") : "stop",
  };
}

/**
 * What is said to the agent: the user's last words. Where no session remembers them, the earlier messages go before as a
 * plain transcript; where one does, they are the session's already.
 */
export function spoken(context: ChatContext, remembered: boolean): Pick<TurnRequest, "text" | "images"> {
  const last = context.messages.at(-1);
  if (last?.role !== "user") throw unfit("messages", "the last one must be the user's", "to run the tools yourself, send them in tools");
  const text = textOf(last.content);
  const shown = imagesIn(last.content);
  const images = shown.length === 0 ? {} : { images: shown };
  if (text.trim() === "") throw unfit("messages", "the last one has no text");
  const before = remembered ? [] : context.messages.slice(0, -1).map(line);
  const system = remembered || context.systemPrompt === undefined ? [] : [`System: ${context.systemPrompt}`];
  const earlier = [...system, ...before.filter((each) => each !== "")];
  if (earlier.length === 0) return { text, ...images };
  return { text: `The conversation so far:\n\n${earlier.join("\n\n")}\n\nNow the user says:\n\n${text}`, ...images };
}

const imagesIn = (content: string | readonly (TextPart | ImagePart)[]): readonly ImagePart[] =>
  typeof content === "string" ? [] : content.filter((part) => part.type === "image");

function textOf(content: string | readonly (TextPart | ImagePart)[]): string {
  if (typeof content === "string") return content;
  return content.flatMap((part) => (part.type === "text" ? [part.text] : [])).join("\n");
}

/** Of an earlier message, whose images are not sent again. */
function namedOf(content: string | readonly (TextPart | ImagePart)[]): string {
  return typeof content === "string" ? content : content.map((part) => (part.type === "text" ? part.text : "[image]")).join("\n");
}

function line(message: Message): string {
  if (message.role === "user") return `User: ${namedOf(message.content)}`;
  if (message.role === "toolResult") return `Result of ${message.toolName}: ${namedOf(message.content)}`;
  const parts = message.content.map((part) =>
    part.type === "text" ? part.text : part.type === "toolCall" ? `[called ${part.name} ${JSON.stringify(part.arguments)}]` : "",
  );
  const text = parts.filter((part) => part !== "").join("\n");
  return text === "" ? "" : `Assistant: ${text}`;
}
