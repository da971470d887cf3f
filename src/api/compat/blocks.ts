// An answer's events as blocks one after another: nothing empty, nothing twice, nothing that only the last event told left out. Pure.
import type { AssistantMessage, ChatEvent, ToolCallPart } from "../../core/chat.ts";

export type Said = "text" | "thinking";
export type Piece =
  | { readonly type: "open"; readonly said: Said }
  | { readonly type: "delta"; readonly said: Said; readonly delta: string }
  | { readonly type: "close"; readonly said: Said; readonly text: string; readonly signature?: string }
  /** A call that is told as it comes: its arguments are the text of all its `args`. */
  | { readonly type: "call_open"; readonly id: string; readonly name: string }
  | { readonly type: "args"; readonly delta: string }
  | { readonly type: "call_close"; readonly call: ToolCallPart; readonly args: string };

export interface Blocks {
  push(event: ChatEvent): readonly Piece[];
}

type Open =
  | { readonly at: number; readonly said: Said; text: string }
  | { readonly at: number; readonly said: "call"; readonly id: string; readonly name: string; text: string };

const NONE: readonly Piece[] = [];

export function createBlocks(): Blocks {
  /** Content indexes that were told whole or in part. */
  const told = new Set<number>();
  /** Begun while a call was open, which nothing may interrupt: they are told whole at their end. */
  const late = new Set<number>();
  let open: Open | undefined;

  const close = (): Piece[] => {
    if (open === undefined || open.said === "call") return [];
    const { said, text } = open;
    open = undefined;
    return [{ type: "close", said, text }];
  };
  const interrupts = (at: number): boolean => {
    if (open?.said === "call" && open.at !== at) late.add(at);
    return late.has(at);
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
  const begin = (at: number, id: string, name: string): Piece[] => {
    const before = close();
    open = { at, said: "call", id, name, text: "" };
    told.add(at);
    return [...before, { type: "call_open", id, name }];
  };
  const args = (at: number, delta: string): Piece[] => {
    if (open?.said !== "call" || open.at !== at || delta === "") return [];
    open.text += delta;
    return [{ type: "args", delta }];
  };
  /** Some providers tell no arguments where there are none, or only at the end. */
  const end = (at: number, call: ToolCallPart): Piece[] => {
    if (open?.said !== "call" || open.at !== at) return [];
    const whole = open.text === "" ? JSON.stringify(call.arguments) : open.text;
    const rest: Piece[] = open.text === "" ? [{ type: "args", delta: whole }] : [];
    const { id, name } = open;
    open = undefined;
    return [...rest, { type: "call_close", call: { ...call, id, name }, args: whole }];
  };
  const call = (at: number, toolCall: ToolCallPart): Piece[] => {
    if (open?.said === "call") return open.at === at ? end(at, toolCall) : [];
    return told.has(at) ? [] : [...begin(at, toolCall.id, toolCall.name), ...end(at, toolCall)];
  };
  const whole = (at: number, said: Said, content: string): Piece[] => {
    if (open?.said === "call") return [];
    const rest = told.has(at) ? [] : add(at, said, content);
    return open?.at === at ? [...rest, ...close()] : rest;
  };
  const left = (part: AssistantMessage["content"][number], at: number): Piece[] => {
    if (part.type === "toolCall") return call(at, part);
    return whole(at, part.type, part.type === "text" ? part.text : part.thinking);
  };
  /** A call that never ended is ended as the last event has it, then what was not told is told. */
  const last = (message: AssistantMessage): Piece[] => {
    const part = open?.said === "call" ? message.content[open.at] : undefined;
    const cut = open?.said === "call" && part?.type !== "toolCall" ? unended(open) : undefined;
    const first = open === undefined || open.said !== "call" ? close() : end(open.at, cut ?? (part as ToolCallPart));
    return [...first, ...message.content.flatMap(left)];
  };
  return {
    push(event) {
      switch (event.type) {
        case "text_delta":
        case "thinking_delta":
          return interrupts(event.contentIndex)
            ? NONE
            : add(event.contentIndex, event.type === "text_delta" ? "text" : "thinking", event.delta);
        case "text_end":
          return whole(event.contentIndex, "text", event.content);
        case "thinking_end":
          return whole(event.contentIndex, "thinking", event.content);
        case "toolcall_start": {
          const { contentIndex: at, id, name } = event;
          return id === undefined || name === undefined || told.has(at) || interrupts(at) ? NONE : begin(at, id, name);
        }
        case "toolcall_delta":
          return args(event.contentIndex, event.delta);
        case "toolcall_end":
          return call(event.contentIndex, event.toolCall);
        case "done":
          return last(event.message);
        case "start":
        case "text_start":
        case "thinking_start":
        case "error":
      }
      return NONE;
    },
  };
}

const unended = ({ id, name }: { readonly id: string; readonly name: string }): ToolCallPart => ({
  type: "toolCall",
  id,
  name,
  arguments: {},
});
