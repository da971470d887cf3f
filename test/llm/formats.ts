// Answers in the providers' own wire formats, as bytes: what a local server sends and what must come out of it.
import { textStream, toolStream } from "./wire.ts";

export type Api = "openai-completions" | "openai-responses" | "anthropic-messages" | "google-generative-ai";
export const APIS: readonly Api[] = ["openai-completions", "openai-responses", "anthropic-messages", "google-generative-ai"];

export interface Spoken {
  /** Added to a server's address to make the base URL. */
  readonly base: string;
  readonly streamPath: string;
  /** A whole answer with text, streamed: 12 tokens in, 7 out. */
  readonly text: (parts: readonly string[]) => string;
  readonly tool: (name: string, args: object) => string;
  readonly thinking: (thought: string, text: string) => string;
  /** The same as one JSON body; absent where only streams are used. */
  readonly whole?: (text: string) => string;
  /** An error in the middle of a stream, or as a whole one: an overloaded provider. */
  readonly errorEvent: string;
  /** The same with a limit of requests and a wait of 3 s in words. */
  readonly limitEvent: string;
  /** A body that a refusal with this status has. */
  readonly refusal: (status: number, message: string) => string;
  /** The stream without what says that it is complete. */
  readonly unended: (parts: readonly string[]) => string;
  /** The request of a client of this format. */
  readonly ask: (stream: boolean) => Record<string, unknown>;
}

const named = (event: { readonly type: string } & Record<string, unknown>): string =>
  `event: ${event.type}\ndata: ${JSON.stringify(event)}\n\n`;
const data = (value: unknown): string => `data: ${JSON.stringify(value)}\n\n`;

const chatUsage = { prompt_tokens: 12, completion_tokens: 7, total_tokens: 19 };
const chatChunk = (delta: unknown, finish: string | null = null): string =>
  data({
    id: "c1",
    object: "chat.completion.chunk",
    created: 1,
    model: "m",
    choices: [{ index: 0, delta, finish_reason: finish }],
    usage: null,
  });

const completions: Spoken = {
  base: "/v1",
  streamPath: "/v1/chat/completions",
  text: (parts) => textStream(parts),
  tool: toolStream,
  thinking: (thought, text) =>
    [
      chatChunk({ role: "assistant", content: "" }),
      chatChunk({ reasoning_content: thought }),
      chatChunk({ content: text }),
      chatChunk({}, "stop"),
      data({ id: "c1", object: "chat.completion.chunk", created: 1, model: "m", choices: [], usage: chatUsage }),
      "data: [DONE]\n\n",
    ].join(""),
  whole: (text) =>
    JSON.stringify({
      id: "c1",
      object: "chat.completion",
      created: 1,
      model: "m",
      choices: [{ index: 0, message: { role: "assistant", content: text, refusal: null }, finish_reason: "stop", logprobs: null }],
      usage: chatUsage,
    }),
  errorEvent: data({ error: { code: 529, message: "overloaded just now" } }),
  limitEvent: data({ error: { code: "rate_limit_exceeded", message: "rate limited, try again in 3 seconds" } }),
  refusal: (status, message) => JSON.stringify({ error: { message, type: "some_error", code: null, status } }),
  unended: (parts) => [chatChunk({ role: "assistant", content: "" }), ...parts.map((content) => chatChunk({ content }))].join(""),
  ask: (stream) => ({ model: "asked", messages: [{ role: "user", content: "hi" }], ...(stream ? { stream } : {}) }),
};

const responseUsage = {
  input_tokens: 12,
  input_tokens_details: { cached_tokens: 0 },
  output_tokens: 7,
  output_tokens_details: { reasoning_tokens: 0 },
  total_tokens: 19,
};
const response = (status: string, output: readonly unknown[], more: object = {}): Record<string, unknown> => ({
  id: "resp_1",
  object: "response",
  created_at: 1,
  status,
  model: "m",
  output,
  error: null,
  incomplete_details: null,
  ...more,
});
const messageItem = (text: string, status = "completed"): object => ({
  type: "message",
  id: "msg_1",
  role: "assistant",
  status,
  content: status === "completed" ? [{ type: "output_text", text, annotations: [] }] : [],
});
const begun = (): string =>
  named({ type: "response.created", response: response("in_progress", []) }) +
  named({ type: "response.in_progress", response: response("in_progress", []) });
const completed = (output: readonly unknown[]): string =>
  named({ type: "response.completed", response: response("completed", output, { usage: responseUsage }) });
const textItem = (parts: readonly string[], at = 0): string => {
  const text = parts.join("");
  const place = { item_id: "msg_1", output_index: at, content_index: 0 };
  return [
    named({ type: "response.output_item.added", output_index: at, item: messageItem("", "in_progress") }),
    named({ type: "response.content_part.added", ...place, part: { type: "output_text", text: "", annotations: [] } }),
    ...parts.map((delta) => named({ type: "response.output_text.delta", ...place, delta })),
    named({ type: "response.output_text.done", ...place, text }),
    named({ type: "response.content_part.done", ...place, part: { type: "output_text", text, annotations: [] } }),
    named({ type: "response.output_item.done", output_index: at, item: messageItem(text) }),
  ].join("");
};

const responses: Spoken = {
  base: "/v1",
  streamPath: "/v1/responses",
  text: (parts) => begun() + textItem(parts) + completed([messageItem(parts.join(""))]),
  tool: (name, args) => {
    const text = JSON.stringify(args);
    const call = { type: "function_call", id: "fc_1", call_id: "call_1", name };
    return [
      begun(),
      named({ type: "response.output_item.added", output_index: 0, item: { ...call, arguments: "", status: "in_progress" } }),
      ...[text.slice(0, 3), text.slice(3)].map((delta) =>
        named({ type: "response.function_call_arguments.delta", item_id: "fc_1", output_index: 0, delta }),
      ),
      named({ type: "response.function_call_arguments.done", item_id: "fc_1", output_index: 0, arguments: text }),
      named({ type: "response.output_item.done", output_index: 0, item: { ...call, arguments: text, status: "completed" } }),
      completed([{ ...call, arguments: text, status: "completed" }]),
    ].join("");
  },
  thinking: (thought, text) => {
    const item = (summary: readonly object[]): object => ({ type: "reasoning", id: "rs_1", summary });
    const part = { type: "summary_text", text: thought };
    const place = { item_id: "rs_1", output_index: 0, summary_index: 0 };
    return [
      begun(),
      named({ type: "response.output_item.added", output_index: 0, item: item([]) }),
      named({ type: "response.reasoning_summary_part.added", ...place, part: { ...part, text: "" } }),
      named({ type: "response.reasoning_summary_text.delta", ...place, delta: thought }),
      named({ type: "response.reasoning_summary_text.done", ...place, text: thought }),
      named({ type: "response.reasoning_summary_part.done", ...place, part }),
      named({ type: "response.output_item.done", output_index: 0, item: item([part]) }),
      textItem([text], 1),
      completed([item([part]), messageItem(text)]),
    ].join("");
  },
  whole: (text) => JSON.stringify(response("completed", [messageItem(text)], { usage: responseUsage })),
  errorEvent: named({ type: "error", code: "server_error", message: "overloaded just now", param: null }),
  limitEvent: named({
    type: "response.failed",
    response: response("failed", [], { error: { code: "rate_limit_exceeded", message: "rate limited, try again in 3 seconds" } }),
  }),
  refusal: completions.refusal,
  unended: (parts) => begun() + textItem(parts),
  ask: (stream) => ({ model: "asked", input: "hi", ...(stream ? { stream } : {}) }),
};

const anthropicStart = named({
  type: "message_start",
  message: {
    id: "msg_1",
    type: "message",
    role: "assistant",
    model: "m",
    content: [],
    stop_reason: null,
    stop_sequence: null,
    usage: { input_tokens: 12, cache_creation_input_tokens: 0, cache_read_input_tokens: 0, output_tokens: 1 },
  },
});
const block = (index: number, start: object, deltas: readonly object[]): string =>
  [
    named({ type: "content_block_start", index, content_block: start }),
    ...deltas.map((delta) => named({ type: "content_block_delta", index, delta })),
    named({ type: "content_block_stop", index }),
  ].join("");
const textBlock = (index: number, parts: readonly string[]): string =>
  block(
    index,
    { type: "text", text: "" },
    parts.map((text) => ({ type: "text_delta", text })),
  );
const anthropicEnd = (reason: string): string =>
  named({ type: "message_delta", delta: { stop_reason: reason, stop_sequence: null }, usage: { output_tokens: 7 } }) +
  named({ type: "message_stop" });

const messages: Spoken = {
  base: "",
  streamPath: "/v1/messages",
  text: (parts) => anthropicStart + named({ type: "ping" }) + textBlock(0, parts) + anthropicEnd("end_turn"),
  tool: (name, args) => {
    const text = JSON.stringify(args);
    return [
      anthropicStart,
      block(
        0,
        { type: "tool_use", id: "call_1", name, input: {} },
        ["", text.slice(0, 3), text.slice(3)].map((part) => ({ type: "input_json_delta", partial_json: part })),
      ),
      anthropicEnd("tool_use"),
    ].join("");
  },
  thinking: (thought, text) =>
    [
      anthropicStart,
      block(0, { type: "thinking", thinking: "", signature: "" }, [
        { type: "thinking_delta", thinking: thought },
        { type: "signature_delta", signature: "c2ln" },
      ]),
      textBlock(1, [text]),
      anthropicEnd("end_turn"),
    ].join(""),
  whole: (text) =>
    JSON.stringify({
      id: "msg_1",
      type: "message",
      role: "assistant",
      model: "m",
      content: [{ type: "text", text }],
      stop_reason: "end_turn",
      stop_sequence: null,
      usage: { input_tokens: 12, output_tokens: 7 },
    }),
  errorEvent: named({ type: "error", error: { type: "overloaded_error", message: "overloaded just now" } }),
  limitEvent: named({ type: "error", error: { type: "rate_limit_error", message: "rate limited, try again in 3 seconds" } }),
  refusal: (_, message) => JSON.stringify({ type: "error", error: { type: "some_error", message } }),
  unended: (parts) => anthropicStart + textBlock(0, parts),
  ask: (stream) => ({ model: "asked", max_tokens: 100, messages: [{ role: "user", content: "hi" }], ...(stream ? { stream } : {}) }),
};

const googleChunk = (parts: readonly object[], finish?: string): string =>
  data({
    candidates: [{ content: { role: "model", parts }, index: 0, ...(finish === undefined ? {} : { finishReason: finish }) }],
    usageMetadata: { promptTokenCount: 12, candidatesTokenCount: 7, totalTokenCount: 19 },
    modelVersion: "m",
    responseId: "r1",
  });

const google: Spoken = {
  base: "/v1beta",
  streamPath: "/v1beta/models/m:streamGenerateContent?alt=sse",
  text: (parts) => parts.map((text, at) => googleChunk([{ text }], at === parts.length - 1 ? "STOP" : undefined)).join(""),
  tool: (name, args) => googleChunk([{ functionCall: { name, args } }], "STOP"),
  thinking: (thought, text) => googleChunk([{ text: thought, thought: true }]) + googleChunk([{ text }], "STOP"),
  errorEvent: data({ error: { code: 503, message: "overloaded just now", status: "UNAVAILABLE" } }),
  limitEvent: data({ error: { code: 429, message: "rate limited, try again in 3 seconds", status: "RESOURCE_EXHAUSTED" } }),
  refusal: (status, message) => JSON.stringify({ error: { code: status, message, status: "SOME" } }),
  unended: (parts) => parts.map((text) => googleChunk([{ text }])).join(""),
  ask: () => ({ contents: [{ role: "user", parts: [{ text: "hi" }] }] }),
};

export const SPOKEN: Readonly<Record<Api, Spoken>> = {
  "openai-completions": completions,
  "openai-responses": responses,
  "anthropic-messages": messages,
  "google-generative-ai": google,
};
