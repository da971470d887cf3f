// Anthropic messages: a client's request in our words.
import type { AssistantMessage, ChatOptions, ImagePart, TextPart } from "../../../core/chat.ts";
import type { Unknowns } from "../../fields.ts";
import { count, effort, empty, list, number, object, only, options, screened, string, unfit, type Rules } from "../fields.ts";
import type { Asked } from "../format.ts";
import { gather, type Gathered } from "../messages.ts";
import { offered, tool, toolsOf } from "../tools.ts";

type Part = AssistantMessage["content"][number];

const RULES: Rules = {
  model: "acts",
  messages: "acts",
  system: "acts",
  stream: "acts",
  tools: "acts",
  tool_choice: (value) => (value as Unknowns)["disable_parallel_tool_use"] !== true,
  max_tokens: "acts",
  temperature: "acts",
  thinking: "acts",
  metadata: "acts",
  output_config: (value) => (value as Unknowns)["format"] === undefined,
  stop_sequences: empty,
  mcp_servers: empty,
  container: only(null),
};

export function read(body: Unknowns): Asked {
  const dropped = screened(body, RULES);
  const into = gather("anthropic-messages");
  into.system(systemOf(body["system"]));
  for (const [at, raw] of list(body["messages"], "messages").entries()) message(into, object(raw, `messages[${at}]`), `messages[${at}]`);
  const tools = toolsOf(body["tools"], (entry, where) =>
    entry["type"] === undefined || entry["type"] === null || entry["type"] === "custom" ? tool(entry, where, "input_schema") : undefined,
  );
  return { context: { ...into.context(), ...offered(tools, body["tool_choice"]) }, options: said(body), dropped };
}

export function said(body: Unknowns): Partial<ChatOptions> {
  const maxTokens = count(body["max_tokens"], "max_tokens");
  if (maxTokens === undefined) throw unfit("max_tokens", "is needed");
  const config = body["output_config"];
  const wanted =
    config === undefined || config === null ? undefined : effort(object(config, "output_config")["effort"], "output_config.effort");
  return options({ maxTokens, temperature: number(body["temperature"], "temperature"), thinking: wanted ?? thinkingOf(body["thinking"]) });
}

/** The least level that has about that many tokens. */
function thinkingOf(raw: unknown): ChatOptions["thinking"] | undefined {
  if (raw === undefined || raw === null) return undefined;
  const from = object(raw, "thinking");
  if (from["type"] === "disabled") return "off";
  if (from["type"] === "adaptive") return "medium";
  const budget = count(from["budget_tokens"], "thinking.budget_tokens") ?? 0;
  return budget < 2048 ? "minimal" : budget < 8192 ? "low" : budget < 16_384 ? "medium" : "high";
}

const systemOf = (raw: unknown): string =>
  raw === undefined || raw === null ? "" : typeof raw === "string" ? raw : texts(list(raw, "system"), "system");

const texts = (raw: readonly unknown[], where: string): string =>
  raw
    .map((each, at) => {
      const from = object(each, `${where}[${at}]`);
      if (from["type"] !== "text") throw unfit(`${where}[${at}].type`, "instructions are text");
      return string(from["text"], `${where}[${at}].text`);
    })
    .join("\n");

function message(into: Gathered, from: Unknowns, where: string): void {
  const raw = from["content"];
  const at = `${where}.content`;
  const blocks = typeof raw === "string" ? [{ type: "text", text: raw }] : list(raw, at);
  if (from["role"] === "system") return into.system(texts(blocks, at));
  if (from["role"] === "assistant")
    return into.assistant(blocks.flatMap((each, i) => assistantBlock(object(each, `${at}[${i}]`), `${at}[${i}]`)));
  if (from["role"] !== "user") throw unfit(`${where}.role`, `${JSON.stringify(from["role"])} is not a role`, "use user or assistant");
  userBlocks(into, blocks, at);
}

/** Results of tools and what the user says share a message here; in ours each has its own, in the same order. */
function userBlocks(into: Gathered, blocks: readonly unknown[], where: string): void {
  let parts: (TextPart | ImagePart)[] = [];
  for (const [i, each] of blocks.entries()) {
    const at = `${where}[${i}]`;
    const from = object(each, at);
    if (from["type"] !== "tool_result") {
      parts.push(shown(from, at));
      continue;
    }
    into.user(parts);
    parts = [];
    into.result(string(from["tool_use_id"], `${at}.tool_use_id`), resultOf(from["content"], `${at}.content`), from["is_error"] === true);
  }
  into.user(parts);
}

function resultOf(raw: unknown, where: string): readonly (TextPart | ImagePart)[] {
  if (raw === undefined || raw === null || raw === "") return [];
  if (typeof raw === "string") return [{ type: "text", text: raw }];
  return list(raw, where).map((each, i) => shown(object(each, `${where}[${i}]`), `${where}[${i}]`));
}

function shown(from: Unknowns, where: string): TextPart | ImagePart {
  if (from["type"] === "text") return { type: "text", text: string(from["text"], `${where}.text`) };
  if (from["type"] !== "image") throw unfit(`${where}.type`, `${JSON.stringify(from["type"])} is not taken`, "use text or image");
  const source = object(from["source"], `${where}.source`);
  if (source["type"] !== "base64") throw unfit(`${where}.source.type`, "only images inside the request are taken", "use base64");
  return {
    type: "image",
    mimeType: string(source["media_type"], `${where}.source.media_type`),
    data: string(source["data"], `${where}.source.data`),
  };
}

function assistantBlock(from: Unknowns, where: string): readonly Part[] {
  switch (from["type"]) {
    case "text":
      return from["text"] === "" ? [] : [{ type: "text", text: string(from["text"], `${where}.text`) }];
    case "tool_use":
      return [
        {
          type: "toolCall",
          id: string(from["id"], `${where}.id`),
          name: string(from["name"], `${where}.name`),
          arguments: object(from["input"], `${where}.input`),
        },
      ];
    case "thinking": {
      const signature = typeof from["signature"] === "string" && from["signature"] !== "" ? { thinkingSignature: from["signature"] } : {};
      return [{ type: "thinking", thinking: string(from["thinking"], `${where}.thinking`), ...signature }];
    }
    // Only the model that thought it can read it.
    case "redacted_thinking":
      return [];
    default:
      throw unfit(`${where}.type`, `${JSON.stringify(from["type"])} is not taken`, "use text, tool_use or thinking");
  }
}
