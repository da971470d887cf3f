// OpenAI responses: a client's request in our words.
import type { ChatOptions, ImagePart, TextPart } from "../../../core/chat.ts";
import type { Unknowns } from "../../fields.ts";
import { args, count, effort, image, list, number, object, only, options, screened, string, unfit, type Rules } from "../fields.ts";
import type { Asked } from "../format.ts";
import { gather, type Gathered } from "../messages.ts";
import { offered, tool, toolsOf } from "../tools.ts";

const RULES: Rules = {
  model: "acts",
  input: "acts",
  instructions: "acts",
  stream: "acts",
  stream_options: "acts",
  tools: "acts",
  tool_choice: "acts",
  max_output_tokens: "acts",
  temperature: "acts",
  reasoning: "acts",
  user: "acts",
  prompt_cache_key: "acts",
  safety_identifier: "acts",
  text: (value) => {
    const format = (value as Unknowns)["format"];
    return format === undefined || format === null || (format as Unknowns)["type"] === "text";
  },
  background: only(false),
  conversation: () => false,
  prompt: () => false,
  parallel_tool_calls: only(true),
  top_logprobs: only(0),
};

export function read(body: Unknowns): Asked {
  if (typeof body["previous_response_id"] === "string")
    throw unfit(
      "previous_response_id",
      "answers are not kept here",
      "send the whole input, or name a session in the header x-beige-session",
    );
  const dropped = screened(body, RULES);
  const into = gather("openai-responses");
  if (typeof body["instructions"] === "string") into.system(body["instructions"]);
  const input = body["input"];
  if (typeof input === "string") into.user(input === "" ? [] : [{ type: "text", text: input }]);
  else for (const [at, raw] of list(input, "input").entries()) item(into, object(raw, `input[${at}]`), `input[${at}]`);
  const tools = toolsOf(body["tools"], (entry, where) => (entry["type"] === "function" ? tool(entry, where, "parameters") : undefined));
  return { context: { ...into.context(), ...offered(tools, body["tool_choice"]) }, options: said(body), dropped };
}

export function said(body: Unknowns): Partial<ChatOptions> {
  const reasoning = body["reasoning"];
  return options({
    maxTokens: count(body["max_output_tokens"], "max_output_tokens"),
    temperature: number(body["temperature"], "temperature"),
    thinking:
      reasoning === undefined || reasoning === null ? undefined : effort(object(reasoning, "reasoning")["effort"], "reasoning.effort"),
  });
}

function item(into: Gathered, from: Unknowns, where: string): void {
  switch (from["type"] ?? "message") {
    case "message":
      return message(into, from, where);
    case "function_call":
      return into.assistant([
        {
          type: "toolCall",
          id: string(from["call_id"], `${where}.call_id`),
          name: string(from["name"], `${where}.name`),
          arguments: args(from["arguments"], `${where}.arguments`),
        },
      ]);
    case "function_call_output":
      return into.result(string(from["call_id"], `${where}.call_id`), contentOf(from["output"], `${where}.output`), false);
    // Only the model that thought it can read it.
    case "reasoning":
      return;
    default:
      throw unfit(
        `${where}.type`,
        `${JSON.stringify(from["type"])} is not taken`,
        "use message, function_call, function_call_output or reasoning",
      );
  }
}

function message(into: Gathered, from: Unknowns, where: string): void {
  const parts = contentOf(from["content"], `${where}.content`);
  const words = parts.filter((part) => part.type === "text");
  switch (from["role"]) {
    case "system":
    case "developer":
      return into.system(words.map((part) => part.text).join("\n"));
    case "user":
      return into.user(parts);
    case "assistant":
      return into.assistant(words);
    default:
      throw unfit(`${where}.role`, `${JSON.stringify(from["role"])} is not a role`, "use system, developer, user or assistant");
  }
}

function contentOf(raw: unknown, where: string): readonly (TextPart | ImagePart)[] {
  if (typeof raw === "string") return raw === "" ? [] : [{ type: "text", text: raw }];
  return list(raw, where).map((each, at) => part(object(each, `${where}[${at}]`), `${where}[${at}]`));
}

function part(from: Unknowns, where: string): TextPart | ImagePart {
  switch (from["type"]) {
    case "input_text":
    case "output_text":
    case "text":
      return { type: "text", text: string(from["text"], `${where}.text`) };
    case "refusal":
      return { type: "text", text: string(from["refusal"], `${where}.refusal`) };
    case "input_image":
      return image(from["image_url"], `${where}.image_url`);
    default:
      throw unfit(`${where}.type`, `${JSON.stringify(from["type"])} is not taken`, "use input_text or input_image");
  }
}
