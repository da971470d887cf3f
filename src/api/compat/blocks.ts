// An answer's events as blocks one after another: nothing empty, nothing twice, nothing that only the last event told left out. Pure.
import type { AssistantMessage, ChatEvent, ToolCallPart } from "../../core/chat.ts";

export type Said = "text" | "thinking";
export type Piece =
  | { readonly type: "open"; readonly said: Said }
  | { readonly type: "delta"; readonly said: Said; readonly delta: string }
  | { readonly type: "close"; readonly said: Said; readonly text: string; readonly signature?: string }
  | { readonly type: "call"; readonly call: ToolCallPart };

export interface Blocks {
  push(event: ChatEvent): readonly Piece[];
}

const NONE: readonly Piece[] = [];

export function createBlocks(): Blocks {
  /** Content indexes that were told whole or in part. */
  const told = new Set<number>();
  let open: { readonly at: number; readonly said: Said; text: string } | undefined;

  const close = (): Piece[] => {
    if (open === undefined) return [];
    const { said, text } = open;
    open = undefined;
    return [{ type: "close", said, text }];
  };
  const add = (at: number, said: Said, delta: string): Piece[] => {
    if (delta === "") return [];
    const before: Piece[] = [];
    if (open?.at !== at || open.said !== said) {
      before.push(...close(), { type: "open", said });
      open = { at, said, text: "" };
    }
    told.add(at);
    open.text += delta;
    return [...before, { type: "delta", said, delta }];
  };
  const call = (at: number, toolCall: ToolCallPart): Piece[] => {
    if (told.has(at)) return [];
    told.add(at);
    return [...close(), { type: "call", call: toolCall }];
  };
  const whole = (at: number, said: Said, content: string): Piece[] => {
    const rest = told.has(at) ? [] : add(at, said, content);
    return open?.at === at ? [...rest, ...close()] : rest;
  };
  return {
    push(event) {
      switch (event.type) {
        case "text_delta":
          return add(event.contentIndex, "text", event.delta);
        case "thinking_delta":
          return add(event.contentIndex, "thinking", event.delta);
        case "text_end":
          return whole(event.contentIndex, "text", event.content);
        case "thinking_end":
          return whole(event.contentIndex, "thinking", event.content);
        case "toolcall_end":
          return call(event.contentIndex, event.toolCall);
        case "done":
          return [...close(), ...event.message.content.flatMap((part, at) => left(part, at))];
        case "start":
        case "text_start":
        case "thinking_start":
        case "toolcall_start":
        case "toolcall_delta":
        case "error":
      }
      return NONE;
    },
  };

  function left(part: AssistantMessage["content"][number], at: number): Piece[] {
    if (part.type === "toolCall") return call(at, part);
    return whole(at, part.type, part.type === "text" ? part.text : part.thinking);
  }
}
