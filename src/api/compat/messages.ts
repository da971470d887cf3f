// Gathers a conversation from a client's messages: who said what, and which tool each result belongs to.
import { NO_USAGE } from "../../core/usage.ts";
import type { AssistantMessage, ImagePart, Message, TextPart } from "../../core/chat.ts";
import { content } from "./fields.ts";

type Part = AssistantMessage["content"][number];

export interface Gathered {
  system(text: string): void;
  user(parts: readonly (TextPart | ImagePart)[]): void;
  /** Parts right after each other are one message. */
  assistant(parts: readonly Part[]): void;
  result(id: string, parts: readonly (TextPart | ImagePart)[], isError: boolean): void;
  context(): { readonly systemPrompt?: string; readonly messages: readonly Message[] };
}

/** `api` is the client's format. */
export function gather(api: string): Gathered {
  const systems: string[] = [];
  const messages: Message[] = [];
  const names = new Map<string, string>();
  return {
    system: (text) => void (text.trim() !== "" && systems.push(text)),
    user: (parts) => void (parts.length > 0 && messages.push({ role: "user", content: content(parts), timestamp: 0 })),
    assistant(parts) {
      if (parts.length === 0) return;
      for (const part of parts) if (part.type === "toolCall") names.set(part.id, part.name);
      const last = messages.at(-1);
      const before = last?.role === "assistant" ? last.content : [];
      if (last?.role === "assistant") messages.pop();
      messages.push(said(api, [...before, ...parts]));
    },
    result: (id, parts, isError) =>
      void messages.push({
        role: "toolResult",
        toolCallId: id,
        toolName: names.get(id) ?? "tool",
        content: parts,
        isError,
        timestamp: 0,
      }),
    context: () => ({ ...(systems.length > 0 && { systemPrompt: systems.join("\n\n") }), messages }),
  };
}

const said = (api: string, parts: readonly Part[]): AssistantMessage => ({
  role: "assistant",
  content: parts,
  api,
  provider: "client",
  model: "client",
  usage: NO_USAGE,
  stopReason: parts.some((part) => part.type === "toolCall") ? "toolUse" : "stop",
  timestamp: 0,
});
