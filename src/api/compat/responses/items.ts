// OpenAI responses: the objects that its answers are made of.
import type { ToolCallPart, Usage } from "../../../core/chat.ts";
import type { Unknowns } from "../../fields.ts";
import type { Ended, Head } from "../format.ts";

export type State = "in_progress" | "completed" | "incomplete";

/** The answer itself, as far as it has come. */
export function response(head: Head, state: State, of: { readonly output: readonly object[]; readonly usage?: Usage }): Unknowns {
  return {
    id: `resp_${head.id}`,
    object: "response",
    created_at: Math.floor(head.now / 1000),
    status: state,
    background: false,
    error: null,
    incomplete_details: state === "incomplete" ? { reason: "max_output_tokens" } : null,
    instructions: null,
    max_output_tokens: null,
    metadata: {},
    model: head.model,
    output: of.output,
    parallel_tool_calls: true,
    previous_response_id: null,
    store: false,
    temperature: null,
    text: { format: { type: "text" } },
    tool_choice: "auto",
    tools: [],
    top_p: null,
    truncation: "disabled",
    usage: of.usage === undefined ? null : usageOf(of.usage),
  };
}

export const stateOf = (message: Pick<Ended, "stopReason">): State => (message.stopReason === "length" ? "incomplete" : "completed");

const usageOf = (usage: Usage): object => {
  const input = usage.input + usage.cacheRead + usage.cacheWrite;
  return {
    input_tokens: input,
    input_tokens_details: { cached_tokens: usage.cacheRead },
    output_tokens: usage.output,
    output_tokens_details: { reasoning_tokens: 0 },
    total_tokens: input + usage.output,
  };
};

export const textPart = (text: string): object => ({ type: "output_text", text, annotations: [], logprobs: [] });
export const summaryPart = (text: string): object => ({ type: "summary_text", text });

export const messageItem = (id: string, status: State, content: readonly object[]): object => ({
  id,
  type: "message",
  status,
  role: "assistant",
  content,
});
export const reasoningItem = (id: string, summary: readonly object[]): object => ({ id, type: "reasoning", summary });
export const callItem = (id: string, status: State, call: Pick<ToolCallPart, "id" | "name">, given: string): object => ({
  id,
  type: "function_call",
  status,
  call_id: call.id,
  name: call.name,
  arguments: given,
});
