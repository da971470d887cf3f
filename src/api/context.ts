// A conversation as a client of ours sends it: read field by field, since a provider's client will trust its shape.
import { NO_USAGE } from "../core/usage.ts";
import type { AssistantMessage, ChatContext, ImagePart, Message, TextPart } from "../core/chat.ts";
import { record, text, type Unknowns } from "./fields.ts";
import { badRequest } from "./status.ts";

const MESSAGES_MAX = 20_000;
const TOOLS_MAX = 1_000;
const LONG = 8 * 1024 * 1024;

export function contextOf(raw: unknown): ChatContext {
  const from = record(raw, "context");
  const { systemPrompt, tools } = from;
  if (systemPrompt !== undefined && systemPrompt !== null && typeof systemPrompt !== "string")
    throw badRequest("context.systemPrompt must be a string");
  const messages = list(from["messages"], "context.messages", MESSAGES_MAX).map((each, at) => message(each, `context.messages[${at}]`));
  return {
    ...(typeof systemPrompt === "string" && systemPrompt !== "" && { systemPrompt }),
    messages,
    ...(tools !== undefined &&
      tools !== null && { tools: list(tools, "context.tools", TOOLS_MAX).map((each, at) => tool(each, `context.tools[${at}]`)) }),
  };
}

function list(raw: unknown, where: string, max: number): readonly unknown[] {
  if (!Array.isArray(raw) || raw.length > max) throw badRequest(`${where} must be a list of at most ${max}`);
  return raw as readonly unknown[];
}

function tool(raw: unknown, where: string): NonNullable<ChatContext["tools"]>[number] {
  const from = record(raw, where);
  const description = from["description"];
  return {
    name: text(from, "name", 256),
    description: typeof description === "string" ? description : "",
    parameters: record(from["parameters"], `${where}.parameters`),
  };
}

const when = (from: Unknowns): number => (typeof from["timestamp"] === "number" ? from["timestamp"] : 0);

function message(raw: unknown, where: string): Message {
  const from = record(raw, where);
  const content = `${where}.content`;
  switch (from["role"]) {
    case "user":
      return {
        role: "user",
        content: typeof from["content"] === "string" ? from["content"] : shown(from["content"], content),
        timestamp: when(from),
      };
    case "assistant":
      return assistant(from, where);
    case "toolResult":
      return {
        role: "toolResult",
        toolCallId: text(from, "toolCallId", 1024),
        toolName: text(from, "toolName", 256),
        content: shown(from["content"], content),
        isError: from["isError"] === true,
        timestamp: when(from),
      };
    default:
      throw badRequest(`${where}.role must be user, assistant or toolResult`);
  }
}

const STOPS: readonly string[] = ["stop", "length", "toolUse", "error", "aborted"];
const word = (value: unknown, absent: string): string => (typeof value === "string" && value !== "" ? value : absent);

function assistant(from: Unknowns, where: string): AssistantMessage {
  const stop = word(from["stopReason"], "stop");
  if (!STOPS.includes(stop)) throw badRequest(`${where}.stopReason must be one of ${STOPS.join(", ")}`);
  return {
    role: "assistant",
    content: list(from["content"], `${where}.content`, MESSAGES_MAX).map((each, at) => said(each, `${where}.content[${at}]`)),
    api: word(from["api"], "client"),
    provider: word(from["provider"], "client"),
    model: word(from["model"], "client"),
    usage: NO_USAGE,
    stopReason: stop as AssistantMessage["stopReason"],
    timestamp: when(from),
  };
}

/** Signatures that a provider put beside its parts travel with them. */
function said(raw: unknown, where: string): AssistantMessage["content"][number] {
  const from = record(raw, where);
  for (const key of ["textSignature", "thinkingSignature", "thoughtSignature"])
    if (from[key] !== undefined && typeof from[key] !== "string") throw badRequest(`${where}.${key} must be a string`);
  switch (from["type"]) {
    case "text":
      return { ...pick(from, ["textSignature"]), type: "text", text: string(from["text"], `${where}.text`) };
    case "thinking":
      return { ...pick(from, ["thinkingSignature"]), type: "thinking", thinking: string(from["thinking"], `${where}.thinking`) };
    case "toolCall":
      return {
        ...pick(from, ["thoughtSignature"]),
        type: "toolCall",
        id: text(from, "id", 1024),
        name: text(from, "name", 256),
        arguments: record(from["arguments"], `${where}.arguments`),
      };
    default:
      throw badRequest(`${where}.type must be text, thinking or toolCall`);
  }
}

const pick = (from: Unknowns, keys: readonly string[]): Readonly<Record<string, unknown>> =>
  Object.fromEntries(keys.flatMap((key) => (from[key] === undefined ? [] : [[key, from[key]] as const])));

function string(value: unknown, where: string): string {
  if (typeof value !== "string" || value.length > LONG) throw badRequest(`${where} must be a string`);
  return value;
}

function shown(raw: unknown, where: string): readonly (TextPart | ImagePart)[] {
  return list(raw, where, MESSAGES_MAX).map((each, at) => {
    const from = record(each, `${where}[${at}]`);
    if (from["type"] === "text") return { type: "text", text: string(from["text"], `${where}[${at}].text`) };
    if (from["type"] !== "image") throw badRequest(`${where}[${at}].type must be text or image`);
    return {
      type: "image",
      data: string(from["data"], `${where}[${at}].data`),
      mimeType: text(from, "mimeType", 100),
    };
  });
}
