// The wire of OpenAI's responses, as far as a relay reads it.
import { count, headOf, isObject, listAt, objectAt, type Format, type Json, type Memo, type Word } from "./format.ts";

const PLAIN = /^\{\s*"type"\s*:\s*"response\.[a-z_.]{1,60}\.delta"/;

function remember(response: Json, memo: Memo): void {
  const usage = objectAt(response, "usage");
  memo.cacheRead = count(objectAt(usage, "input_tokens_details")["cached_tokens"]);
  memo.input = Math.max(0, count(usage["input_tokens"]) - memo.cacheRead);
  memo.output = count(usage["output_tokens"]);
  const called = listAt(response, "output").some((item) => isObject(item) && item["type"] === "function_call");
  const reason = objectAt(response, "incomplete_details")["reason"];
  memo.stop = response["status"] === "incomplete" && reason !== "content_filter" ? "length" : called ? "toolUse" : "stop";
}

function read(json: Json, memo: Memo): Word {
  const type = typeof json["type"] === "string" ? json["type"] : "";
  switch (type) {
    case "error":
    case "response.failed":
    case "response.cancelled":
      return "error";
    case "response.completed":
    case "response.incomplete":
      remember(objectAt(json, "response"), memo);
      return "end";
    default:
      if (isObject(json["error"])) return "error";
      return type.endsWith(".delta") && json["delta"] !== "" && json["delta"] !== undefined ? "shows" : "quiet";
  }
}

export const responses: Format = {
  path: "/responses",
  keyHeaders: (key) => ({ authorization: `Bearer ${key}` }),
  headers: {},
  body: ({ body }) => body,
  wantsExtra: () => true,
  needles: [],
  plain: (payload) => PLAIN.test(headOf(payload)),
  read,
  marked: false,
  whole: (json, memo) => {
    if (json["status"] !== "completed" && json["status"] !== "incomplete") return false;
    remember(json, memo);
    return Array.isArray(json["output"]);
  },
};
