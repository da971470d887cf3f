// The wire of Anthropic's messages, as far as a relay reads it.
import { count, headOf, isObject, objectAt, type Format, type Json, type Memo, type Word } from "./format.ts";

const STOPS: Readonly<Record<string, Memo["stop"]>> = {
  max_tokens: "length",
  model_context_window_exceeded: "length",
  tool_use: "toolUse",
};
const PLAIN = /^\{\s*"type"\s*:\s*"(?:content_block_delta|content_block_stop|ping)"/;

/** Later events tell some counts again; what they leave out stays. */
function remember(usage: unknown, memo: Memo): void {
  if (!isObject(usage)) return;
  memo.input = count(usage["input_tokens"], memo.input);
  memo.output = count(usage["output_tokens"], memo.output);
  memo.cacheRead = count(usage["cache_read_input_tokens"], memo.cacheRead);
  memo.cacheWrite = count(usage["cache_creation_input_tokens"], memo.cacheWrite);
}

function stopped(reason: unknown, memo: Memo): void {
  if (typeof reason === "string") memo.stop = STOPS[reason] ?? "stop";
}

const filled = (part: Json): boolean =>
  ["text", "thinking", "partial_json", "data"].some((key) => typeof part[key] === "string" && part[key] !== "");

function read(json: Json, memo: Memo): Word {
  switch (json["type"]) {
    case "error":
      return "error";
    case "message_start":
      remember(objectAt(json, "message")["usage"], memo);
      return "quiet";
    case "content_block_start":
      return filled(objectAt(json, "content_block")) ? "shows" : "quiet";
    case "content_block_delta":
      return filled(objectAt(json, "delta")) ? "shows" : "quiet";
    case "message_delta":
      stopped(objectAt(json, "delta")["stop_reason"], memo);
      remember(json["usage"], memo);
      return "quiet";
    case "message_stop":
      return "end";
    default:
      return isObject(json["error"]) ? "error" : "quiet";
  }
}

export const messages: Format = {
  path: "/v1/messages",
  keyHeaders: (key) => ({ "x-api-key": key }),
  headers: { "anthropic-version": "2023-06-01" },
  body: ({ body }) => body,
  wantsExtra: () => true,
  needles: [],
  plain: (payload) => PLAIN.test(headOf(payload)),
  read,
  marked: false,
  whole: (json, memo) => {
    if (json["type"] !== "message" || !Array.isArray(json["content"])) return false;
    stopped(json["stop_reason"], memo);
    remember(json["usage"], memo);
    return true;
  },
};
