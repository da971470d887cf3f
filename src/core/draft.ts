// Builds the message that a stream of deltas stands for, as far as it has come. Pure.
import { NO_USAGE } from "./usage.ts";
import type { AssistantMessage, ChatEvent, TextPart, ThinkingPart, ToolCallPart } from "./chat.ts";

type Open<T> = { -readonly [K in keyof T]: T[K] };
export type DraftPart = Open<TextPart> | Open<ThinkingPart> | Open<ToolCallPart>;
/** One object that grows: whoever holds it sees the newest state. */
export type Draft = Omit<Open<AssistantMessage>, "content"> & { content: DraftPart[] };

/** Content blocks that one answer may have. */
const PARTS_MAX = 10_000;

export const newDraft = (of: {
  readonly api: string;
  readonly provider: string;
  readonly model: string;
  readonly timestamp: number;
}): Draft => ({
  role: "assistant",
  content: [],
  ...of,
  usage: NO_USAGE,
  stopReason: "stop",
});

function part<T extends DraftPart["type"]>(
  draft: Draft,
  at: number,
  blank: Extract<DraftPart, { type: T }>,
): Extract<DraftPart, { type: T }> | undefined {
  if (!Number.isInteger(at) || at < 0 || at > draft.content.length || at >= PARTS_MAX) return undefined;
  const held = draft.content[at];
  if (held !== undefined && held.type === blank.type) return held as Extract<DraftPart, { type: T }>;
  draft.content[at] = blank;
  return blank;
}

const text = (draft: Draft, at: number): Open<TextPart> | undefined => part<"text">(draft, at, { type: "text", text: "" });
const thinking = (draft: Draft, at: number): Open<ThinkingPart> | undefined =>
  part<"thinking">(draft, at, { type: "thinking", thinking: "" });
const call = (draft: Draft, at: number): Open<ToolCallPart> | undefined =>
  part<"toolCall">(draft, at, { type: "toolCall", id: "", name: "", arguments: {} });

/** Adds one event. An index out of order is ignored: the final message is the provider's own. */
export function fold(draft: Draft, event: ChatEvent): void {
  switch (event.type) {
    case "text_start":
    case "text_delta":
    case "text_end": {
      const held = text(draft, event.contentIndex);
      if (held === undefined) return;
      if (event.type === "text_delta") held.text += event.delta;
      if (event.type === "text_end") held.text = event.content;
      return;
    }
    case "thinking_start":
    case "thinking_delta":
    case "thinking_end": {
      const held = thinking(draft, event.contentIndex);
      if (held === undefined) return;
      if (event.type === "thinking_delta") held.thinking += event.delta;
      if (event.type === "thinking_end") held.thinking = event.content;
      return;
    }
    case "toolcall_start":
    case "toolcall_delta":
      call(draft, event.contentIndex);
      return;
    case "toolcall_end": {
      const held = call(draft, event.contentIndex);
      if (held !== undefined) Object.assign(held, event.toolCall);
      return;
    }
    case "start":
    case "done":
    case "error":
  }
}

/** Text of an answer, without its thinking and tool calls. */
export const answerText = (message: Pick<AssistantMessage, "content">): string =>
  message.content.map((held) => (held.type === "text" ? held.text : "")).join("");

/** Whether an event shows the reader something: the point after which no other model may answer. */
export function shows(event: ChatEvent): boolean {
  switch (event.type) {
    case "text_delta":
    case "thinking_delta":
    case "toolcall_delta":
      return event.delta !== "";
    case "text_end":
    case "thinking_end":
      return event.content !== "";
    case "toolcall_end":
    case "done":
      return true;
    case "start":
    case "text_start":
    case "thinking_start":
    case "toolcall_start":
    case "error":
  }
  return false;
}
