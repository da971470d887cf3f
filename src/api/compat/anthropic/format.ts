// Anthropic messages: our answers as its objects and events.
import type { AssistantMessage, ToolCallPart, Usage } from "../../../core/chat.ts";
import { event, lenient, type Ended, type Fault, type Format, type Head, type Writer } from "../format.ts";
import { read, said } from "./read.ts";

export const anthropic: Format = {
  api: "anthropic-messages",
  read,
  options: (body) => lenient(() => said(body)),
  instructed(body, instructions) {
    const { system } = body;
    if (system === undefined || system === null || system === "") return { ...body, system: instructions };
    const own = { type: "text", text: instructions };
    return { ...body, system: [own, ...(Array.isArray(system) ? (system as unknown[]) : [{ type: "text", text: system }])] };
  },
  session(body) {
    const metadata = body["metadata"];
    const id = typeof metadata === "object" && metadata !== null ? (metadata as { readonly user_id?: unknown }).user_id : undefined;
    return typeof id === "string" && id !== "" ? id : undefined;
  },
  whole: (message, head) => ({
    ...headOf(head),
    content: message.content.map(blockOf),
    stop_reason: REASONS[message.stopReason],
    stop_sequence: null,
    usage: usageOf(message.usage),
  }),
  writer,
  httpOf: ({ quota }) => (quota ? 402 : undefined),
  fault: faultOf,
  faultEvent: (fault) => event("error", faultOf(fault)),
};

const REASONS: Readonly<Record<Ended["stopReason"], string>> = {
  stop: "end_turn",
  length: "max_tokens",
  toolUse: "tool_use",
  error: "end_turn",
  aborted: "end_turn",
};

const headOf = (head: Head): object => ({ id: `msg_${head.id}`, type: "message", role: "assistant", model: head.model });

const useOf = (call: Pick<ToolCallPart, "id" | "name">, input: object): object => ({
  type: "tool_use",
  id: call.id,
  name: call.name,
  input,
});

function blockOf(part: AssistantMessage["content"][number]): object {
  if (part.type === "text") return { type: "text", text: part.text };
  if (part.type === "toolCall") return useOf(part, part.arguments);
  return { type: "thinking", thinking: part.thinking, signature: part.thinkingSignature ?? "" };
}

const usageOf = (usage: Usage): object => ({
  input_tokens: usage.input,
  output_tokens: usage.output,
  cache_read_input_tokens: usage.cacheRead,
  cache_creation_input_tokens: usage.cacheWrite,
});

function writer(head: Head): Writer {
  let index = 0;
  const start = (block: object): string => event("content_block_start", { type: "content_block_start", index, content_block: block });
  const delta = (what: object): string => event("content_block_delta", { type: "content_block_delta", index, delta: what });
  const stop = (): string => event("content_block_stop", { type: "content_block_stop", index: index++ });
  return {
    begin() {
      const usage = { input_tokens: 0, output_tokens: 0 };
      const message = { ...headOf(head), content: [], stop_reason: null, stop_sequence: null, usage };
      return event("message_start", { type: "message_start", message });
    },
    piece(piece) {
      switch (piece.type) {
        case "open":
          return start(piece.said === "text" ? { type: "text", text: "" } : { type: "thinking", thinking: "", signature: "" });
        case "delta":
          return delta(
            piece.said === "text" ? { type: "text_delta", text: piece.delta } : { type: "thinking_delta", thinking: piece.delta },
          );
        case "close":
          return stop();
        case "call_open":
          return start(useOf(piece, {}));
        case "args":
          return delta({ type: "input_json_delta", partial_json: piece.delta });
        case "call_close":
          return stop();
      }
      return "";
    },
    end: (message) =>
      event("message_delta", {
        type: "message_delta",
        delta: { stop_reason: REASONS[message.stopReason], stop_sequence: null },
        usage: usageOf(message.usage),
      }) + event("message_stop", { type: "message_stop" }),
  };
}

function faultOf(fault: Fault): object {
  return {
    type: "error",
    error: { type: typeOf(fault), message: fault.overflow ? `prompt is too long: ${fault.message}` : fault.message },
  };
}

function typeOf({ http, quota }: Fault): string {
  if (quota) return "billing_error";
  const known: Readonly<Record<number, string>> = {
    401: "authentication_error",
    403: "permission_error",
    404: "not_found_error",
    413: "request_too_large",
    429: "rate_limit_error",
    503: "overloaded_error",
    504: "timeout_error",
  };
  return known[http] ?? (http >= 500 ? "api_error" : "invalid_request_error");
}
