// OpenAI responses: our answers as its objects and events.
import type { AssistantMessage, ToolCallPart } from "../../../core/chat.ts";
import type { Said } from "../blocks.ts";
import { event, lenient, type Format, type Head, type Writer } from "../format.ts";
import { codeOf, openaiFault } from "../openai.ts";
import { callItem, messageItem, reasoningItem, response, stateOf, summaryPart, textPart } from "./items.ts";
import { read, said } from "./read.ts";

export const responses: Format = {
  api: "openai-responses",
  read,
  options: (body) => lenient(() => said(body)),
  instructed(body, instructions) {
    const own = body["instructions"];
    return { ...body, instructions: typeof own === "string" && own !== "" ? `${instructions}\n\n${own}` : instructions };
  },
  session: (body) => text(body["prompt_cache_key"]) ?? text(body["user"]),
  whole: (message, head) =>
    response(head, stateOf(message), { output: message.content.map((part, at) => itemOf(part, `${head.id}_${at}`)), usage: message.usage }),
  writer,
  fault: openaiFault,
  faultEvent: (fault) => event("error", { type: "error", code: codeOf(fault), message: fault.message, param: null }),
};

const text = (value: unknown): string | undefined => (typeof value === "string" && value !== "" ? value : undefined);

function itemOf(part: AssistantMessage["content"][number], id: string): object {
  if (part.type === "text") return messageItem(`msg_${id}`, "completed", [textPart(part.text)]);
  if (part.type === "thinking") return reasoningItem(`rs_${id}`, [summaryPart(part.thinking)]);
  return callItem(`fc_${id}`, "completed", part, JSON.stringify(part.arguments));
}

type Say = (type: string, data: object) => string;

function writer(head: Head): Writer {
  const output: object[] = [];
  let sequence = 0;
  const say: Say = (type, data) => event(type, { type, sequence_number: sequence++, ...data });
  const place = (): { readonly id: string; readonly index: number } => ({ id: `${head.id}_${output.length}`, index: output.length });
  const done = (item: object): string => {
    output.push(item);
    return say("response.output_item.done", { output_index: output.length - 1, item });
  };
  return {
    begin: () => {
      const state = { response: response(head, "in_progress", { output: [] }) };
      return say("response.created", state) + say("response.in_progress", state);
    },
    piece(piece) {
      const at = place();
      const where = { item_id: `fc_${at.id}`, output_index: at.index };
      if (piece.type === "call_open") return say("response.output_item.added", { output_index: at.index, item: openCall(piece, at) });
      if (piece.type === "args") return say("response.function_call_arguments.delta", { ...where, delta: piece.delta });
      if (piece.type === "call_close") {
        const { call, args } = piece;
        return (
          say("response.function_call_arguments.done", { ...where, name: call.name, arguments: args }) +
          done(callItem(`fc_${at.id}`, "completed", call, args))
        );
      }
      const words = WORDS[piece.said];
      if (piece.type === "open") return words.open(say, at);
      if (piece.type === "delta") return say(words.delta, { ...words.where(at), delta: piece.delta, ...words.more });
      const item = itemOf(piece.said === "text" ? { type: "text", text: piece.text } : { type: "thinking", thinking: piece.text }, at.id);
      return words.close(say, at, piece.text) + done(item);
    },
    end: (message) => {
      const state = stateOf(message);
      return say(`response.${state}`, { response: response(head, state, { output, usage: message.usage }) });
    },
  };
}

interface Place {
  readonly id: string;
  readonly index: number;
}

const openCall = (call: Pick<ToolCallPart, "id" | "name">, { id }: Place): object => callItem(`fc_${id}`, "in_progress", call, "");

interface Words {
  readonly delta: string;
  /** Besides the delta. */
  readonly more: object;
  where(at: Place): object;
  open(say: Say, at: Place): string;
  close(say: Say, at: Place, text: string): string;
}

const textAt = (at: Place): object => ({ item_id: `msg_${at.id}`, output_index: at.index, content_index: 0 });
const summaryAt = (at: Place): object => ({ item_id: `rs_${at.id}`, output_index: at.index, summary_index: 0 });

/** The same steps have other names for what is said and what is thought. */
const WORDS: Readonly<Record<Said, Words>> = {
  text: {
    delta: "response.output_text.delta",
    more: { logprobs: [] },
    where: textAt,
    open: (say, at) =>
      say("response.output_item.added", { output_index: at.index, item: messageItem(`msg_${at.id}`, "in_progress", []) }) +
      say("response.content_part.added", { ...textAt(at), part: textPart("") }),
    close: (say, at, whole) =>
      say("response.output_text.done", { ...textAt(at), text: whole, logprobs: [] }) +
      say("response.content_part.done", { ...textAt(at), part: textPart(whole) }),
  },
  thinking: {
    delta: "response.reasoning_summary_text.delta",
    more: {},
    where: summaryAt,
    open: (say, at) =>
      say("response.output_item.added", { output_index: at.index, item: reasoningItem(`rs_${at.id}`, []) }) +
      say("response.reasoning_summary_part.added", { ...summaryAt(at), part: summaryPart("") }),
    close: (say, at, whole) =>
      say("response.reasoning_summary_text.done", { ...summaryAt(at), text: whole }) +
      say("response.reasoning_summary_part.done", { ...summaryAt(at), part: summaryPart(whole) }),
  },
};
