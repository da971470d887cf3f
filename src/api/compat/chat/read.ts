// OpenAI chat completions: a client's request in our words.
import type { ChatOptions, ImagePart, TextPart, ToolCallPart } from "../../../core/chat.ts";
import type { Unknowns } from "../../fields.ts";
import { args, count, effort, empty, image, list, number, object, only, options, screened, string, unfit, type Rules } from "../fields.ts";
import type { Asked } from "../format.ts";
import { gather, type Gathered } from "../messages.ts";
import { offered, tool, toolsOf } from "../tools.ts";

const RULES: Rules = {
  model: "acts",
  messages: "acts",
  stream: "acts",
  stream_options: "acts",
  tools: "acts",
  tool_choice: "acts",
  max_tokens: "acts",
  max_completion_tokens: "acts",
  temperature: "acts",
  reasoning_effort: "acts",
  user: "acts",
  prompt_cache_key: "acts",
  safety_identifier: "acts",
  n: only(1),
  logprobs: only(false),
  top_logprobs: only(0),
  audio: () => false,
  modalities: (value) => Array.isArray(value) && value.every((each) => each === "text"),
  functions: empty,
  function_call: only("none", "auto"),
  response_format: (value) => (value as Unknowns)["type"] === "text",
  parallel_tool_calls: only(true),
  stop: empty,
  logit_bias: empty,
  prediction: () => false,
  web_search_options: () => false,
};

export function read(body: Unknowns): Asked {
  const dropped = screened(body, RULES);
  const into = gather("openai-completions");
  for (const [at, raw] of list(body["messages"], "messages").entries()) message(into, object(raw, `messages[${at}]`), `messages[${at}]`);
  const tools = toolsOf(body["tools"], (entry, where) =>
    entry["type"] === "function" ? tool(object(entry["function"], `${where}.function`), `${where}.function`, "parameters") : undefined,
  );
  return { context: { ...into.context(), ...offered(tools, body["tool_choice"]) }, options: said(body), dropped };
}

export const said = (body: Unknowns): Partial<ChatOptions> =>
  options({
    maxTokens: count(body["max_completion_tokens"] ?? body["max_tokens"], "max_tokens"),
    temperature: number(body["temperature"], "temperature"),
    thinking: effort(body["reasoning_effort"], "reasoning_effort"),
  });

function message(into: Gathered, from: Unknowns, where: string): void {
  const parts = (): readonly (TextPart | ImagePart)[] => contentOf(from["content"], `${where}.content`);
  switch (from["role"]) {
    case "system":
    case "developer":
      return into.system(plain(parts(), where));
    case "user":
      return into.user(parts());
    case "assistant":
      return into.assistant([...assistantText(from, where), ...calls(from["tool_calls"], where)]);
    case "tool":
      return into.result(string(from["tool_call_id"], `${where}.tool_call_id`), parts(), false);
    default:
      throw unfit(`${where}.role`, `${JSON.stringify(from["role"])} is not a role`, "use system, developer, user, assistant or tool");
  }
}

function assistantText(from: Unknowns, where: string): readonly TextPart[] {
  const parts = from["content"] === null || from["content"] === undefined ? [] : contentOf(from["content"], `${where}.content`);
  return parts.filter((part) => part.type === "text");
}

const plain = (parts: readonly (TextPart | ImagePart)[], where: string): string =>
  parts
    .map((part) => {
      if (part.type === "text") return part.text;
      throw unfit(where, "instructions are text");
    })
    .join("\n");

function contentOf(raw: unknown, where: string): readonly (TextPart | ImagePart)[] {
  if (typeof raw === "string") return raw === "" ? [] : [{ type: "text", text: raw }];
  return list(raw, where).map((each, at) => part(object(each, `${where}[${at}]`), `${where}[${at}]`));
}

function part(from: Unknowns, where: string): TextPart | ImagePart {
  if (from["type"] === "text") return { type: "text", text: string(from["text"], `${where}.text`) };
  if (from["type"] === "refusal") return { type: "text", text: string(from["refusal"], `${where}.refusal`) };
  if (from["type"] === "image_url") return image(object(from["image_url"], `${where}.image_url`)["url"], `${where}.image_url.url`);
  throw unfit(`${where}.type`, `${JSON.stringify(from["type"])} is not taken`, "use text or image_url");
}

const calls = (raw: unknown, where: string): readonly ToolCallPart[] =>
  raw === undefined || raw === null
    ? []
    : list(raw, `${where}.tool_calls`).map((each, at) => {
        const place = `${where}.tool_calls[${at}]`;
        const from = object(each, place);
        const called = object(from["function"], `${place}.function`);
        return {
          type: "toolCall",
          id: string(from["id"], `${place}.id`),
          name: string(called["name"], `${place}.function.name`),
          arguments: args(called["arguments"], `${place}.function.arguments`),
        };
      });
