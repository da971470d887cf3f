// OpenAI chat completions: our answers as its objects and chunks.
import type { ToolCallPart, Usage } from "../../../core/chat.ts";
import type { Unknowns } from "../../fields.ts";
import { data, lenient, type Ended, type Format, type Head, type Writer } from "../format.ts";
import { openaiFault } from "../openai.ts";
import { read, said } from "./read.ts";

export const chat: Format = {
  api: "openai-completions",
  read,
  options: (body) => lenient(() => said(body)),
  instructed: (body, instructions) => ({
    ...body,
    messages: [{ role: "system", content: instructions }, ...(Array.isArray(body["messages"]) ? body["messages"] : [])],
  }),
  session: (body) => text(body["prompt_cache_key"]) ?? text(body["user"]),
  whole(message, head) {
    const calls = message.content.filter((part) => part.type === "toolCall");
    const thinking = message.content.map((part) => (part.type === "thinking" ? part.thinking : "")).join("");
    const said = message.content.map((part) => (part.type === "text" ? part.text : "")).join("");
    const answer = {
      role: "assistant",
      content: said === "" && calls.length > 0 ? null : said,
      refusal: null,
      ...(thinking !== "" && { reasoning_content: thinking }),
      ...(calls.length > 0 && { tool_calls: calls.map(callOf) }),
    };
    return {
      ...headOf(head, "chat.completion"),
      choices: [{ index: 0, message: answer, logprobs: null, finish_reason: REASONS[message.stopReason] }],
      usage: usageOf(message.usage),
    };
  },
  writer,
  fault: openaiFault,
  faultEvent: (fault) => data(openaiFault(fault)),
};

const text = (value: unknown): string | undefined => (typeof value === "string" && value !== "" ? value : undefined);

const REASONS: Readonly<Record<Ended["stopReason"], string>> = {
  stop: "stop",
  length: "length",
  toolUse: "tool_calls",
  error: "stop",
  aborted: "stop",
};

const headOf = (head: Head, kind: string): Unknowns => ({
  id: `chatcmpl-${head.id}`,
  object: kind,
  created: Math.floor(head.now / 1000),
  model: head.model,
});

const callOf = (call: ToolCallPart): object => ({
  id: call.id,
  type: "function",
  function: { name: call.name, arguments: JSON.stringify(call.arguments) },
});

export const usageOf = (usage: Usage): object => {
  const prompt = usage.input + usage.cacheRead + usage.cacheWrite;
  return {
    prompt_tokens: prompt,
    completion_tokens: usage.output,
    total_tokens: prompt + usage.output,
    prompt_tokens_details: { cached_tokens: usage.cacheRead },
  };
};

function writer(head: Head): Writer {
  const common = headOf(head, "chat.completion.chunk");
  // Where the usage comes last, every chunk before it says that it has none.
  const none = head.usage === true ? { usage: null } : {};
  const chunk = (delta: object, reason: string | null = null): string =>
    data({ ...common, choices: [{ index: 0, delta, logprobs: null, finish_reason: reason }], ...none });
  let calls = 0;
  return {
    begin: () => chunk({ role: "assistant", content: "", refusal: null }),
    piece(piece) {
      if (piece.type === "delta") return chunk(piece.said === "text" ? { content: piece.delta } : { reasoning_content: piece.delta });
      if (piece.type === "call_open") {
        const { id, name } = piece;
        return chunk({ tool_calls: [{ index: calls++, id, type: "function", function: { name, arguments: "" } }] });
      }
      if (piece.type === "args") return chunk({ tool_calls: [{ index: calls - 1, function: { arguments: piece.delta } }] });
      return "";
    },
    end(message) {
      const last = head.usage === true ? data({ ...common, choices: [], usage: usageOf(message.usage) }) : "";
      return `${chunk({}, REASONS[message.stopReason])}${last}data: [DONE]\n\n`;
    },
  };
}
