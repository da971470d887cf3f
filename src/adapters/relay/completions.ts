// The wire of OpenAI's chat completions, as far as a relay reads it.
import { count, isObject, listAt, objectAt, type Format, type Json, type Memo, type Payload, type Word } from "./format.ts";

const STOPS: Readonly<Record<string, Memo["stop"]>> = { length: "length", tool_calls: "toolUse", function_call: "toolUse" };
const NEEDLES = ['"finish_reason"', '"usage"', '"error"'].map((text) => Buffer.from(text));
const SPACE = 32;
const COLON = 58;
const LOWER_N = 110;

/** Whether the field that the needle names is told: there, and not null. Inside of a JSON string its quotes would be escaped. */
function told(payload: Payload, needle: number): boolean {
  const { buffer, to, next } = payload;
  const width = NEEDLES[needle]?.length ?? 0;
  for (let at = next(needle, payload.from); at < to; at = next(needle, at + width)) {
    let value = at + width;
    while (buffer[value] === SPACE || buffer[value] === COLON) value++;
    if (buffer[value] !== LOWER_N) return true;
  }
  return false;
}

function remember(usage: Json, memo: Memo): void {
  const details = objectAt(usage, "prompt_tokens_details");
  memo.cacheRead = count(details["cached_tokens"]);
  memo.cacheWrite = count(details["cache_write_tokens"]);
  memo.input = Math.max(0, count(usage["prompt_tokens"]) - memo.cacheRead - memo.cacheWrite);
  memo.output = count(usage["completion_tokens"]);
}

/** Anything but a role that is not empty. */
const shown = (delta: Json): boolean =>
  Object.entries(delta).some(([key, value]) => {
    if (key === "role" || value === null) return false;
    if (Array.isArray(value)) return value.length > 0;
    return typeof value === "string" ? value !== "" : isObject(value);
  });

function read(json: Json, memo: Memo): Word {
  if (json["error"] !== undefined && json["error"] !== null) return "error";
  if (isObject(json["usage"])) remember(json["usage"], memo);
  const choices = listAt(json, "choices");
  if (choices.length === 0) return isObject(json["usage"]) ? "extra" : "quiet";
  let word: Word = "quiet";
  for (const choice of choices) {
    if (!isObject(choice)) continue;
    const reason = choice["finish_reason"];
    if (reason === "error") return "error";
    if (typeof reason === "string") memo.stop = STOPS[reason] ?? "stop";
    if (shown(objectAt(choice, "delta"))) word = "shows";
  }
  return word;
}

export const completions: Format = {
  path: "/chat/completions",
  keyHeaders: (key) => ({ authorization: `Bearer ${key}` }),
  headers: {},
  body: ({ body, stream }) => {
    if (!stream) return body;
    return { ...body, stream_options: { ...objectAt(body, "stream_options"), include_usage: true } };
  },
  wantsExtra: ({ body }) => objectAt(body, "stream_options")["include_usage"] === true,
  needles: NEEDLES,
  plain: (payload) => !told(payload, 0) && !told(payload, 1) && !told(payload, 2),
  read,
  marked: true,
  whole: (json, memo) => {
    const [choice] = listAt(json, "choices");
    if (!isObject(choice)) return false;
    const reason = choice["finish_reason"];
    memo.stop = STOPS[typeof reason === "string" ? reason : ""] ?? "stop";
    remember(objectAt(json, "usage"), memo);
    return true;
  },
};
