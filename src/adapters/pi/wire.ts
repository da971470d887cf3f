// One request in a provider's own wire format, by the SDK: one HTTP request, no retry, no environment, no discovery.
import { createHash } from "node:crypto";
import {
  isContextOverflow,
  normalizeContext,
  type AssistantMessageEvent,
  type Context,
  type Model,
  type ProviderStreams,
  type SimpleStreamOptions,
} from "@earendil-works/pi-ai";
import { BeigeError } from "../../core/errors.ts";
import { NO_USAGE } from "../../core/usage.ts";
import type { AssistantMessage, ChatContext, ChatEvent, ChatFailure, ChatOptions, ChatTarget } from "../../core/chat.ts";
import { MESSAGE_MAX, overflows, toldIn } from "../failure.ts";
import { createTail, watchedFetch, type Heard } from "./fetch.ts";

/** Each is loaded when a provider of its type is first asked. */
const APIS: Readonly<Record<string, () => Promise<ProviderStreams>>> = {
  "openai-completions": async () => (await import("@earendil-works/pi-ai/api/openai-completions.lazy")).openAICompletionsApi(),
  "openai-responses": async () => (await import("@earendil-works/pi-ai/api/openai-responses.lazy")).openAIResponsesApi(),
  "anthropic-messages": async () => (await import("@earendil-works/pi-ai/api/anthropic-messages.lazy")).anthropicMessagesApi(),
  "google-generative-ai": async () => (await import("@earendil-works/pi-ai/api/google-generative-ai.lazy")).googleGenerativeAIApi(),
};

const NO_PRICE = { input: 0, output: 0, cacheRead: 0, cacheWrite: 0 };

function modelOf(target: ChatTarget): Model<string> {
  const { model } = target;
  return {
    id: model.id,
    name: model.id,
    api: target.api,
    provider: target.provider,
    baseUrl: target.baseUrl ?? "",
    reasoning: model.reasoning,
    input: [...model.input],
    cost: { ...NO_PRICE, ...model.cost },
    contextWindow: model.contextWindow,
    maxTokens: model.maxTokens,
  };
}

function optionsOf(
  target: ChatTarget,
  options: ChatOptions,
  wire: { readonly heard: Heard; readonly signal: AbortSignal },
): SimpleStreamOptions {
  return {
    signal: wire.signal,
    fetch: watchedFetch(wire.heard),
    // Never absent: the SDK would look for a key in the environment.
    apiKey: target.apiKey ?? "none",
    maxRetries: 0,
    timeoutMs: Math.min(target.timeoutMs, 2 ** 31 - 1),
    identity: { userAgent: { custom: "beige" }, attribution: null },
    ...(options.maxTokens === undefined ? {} : { maxTokens: options.maxTokens }),
    ...(options.thinking === "off" ? {} : { reasoning: options.thinking }),
    // Providers get something that groups requests, not the name of a chat.
    ...(options.session === undefined ? {} : { sessionId: createHash("sha256").update(options.session).digest("hex").slice(0, 32) }),
  };
}

/** Never throws; ends with `done` or `error`. */
export async function* streamWire(
  target: ChatTarget,
  request: { readonly context: ChatContext; readonly options: ChatOptions },
  signal: AbortSignal,
): AsyncGenerator<ChatEvent> {
  const heard: Heard = { tail: createTail() };
  // Not every wire format of the SDK keeps to a time limit that it is given.
  const late = new AbortController();
  const timer = setTimeout(() => late.abort(), Math.min(target.timeoutMs, 2 ** 31 - 1));
  const both = AbortSignal.any([signal, late.signal]);
  try {
    const load = APIS[target.api];
    if (load === undefined) throw new BeigeError("invalid", `api '${target.api}' is not in this version`);
    const api = await load();
    const context = normalizeContext(request.context as unknown as Context);
    for await (const event of api.streamSimple(modelOf(target), context, optionsOf(target, request.options, { heard, signal: both }))) {
      yield toChat(event, heard);
    }
  } catch (error) {
    const message = (error instanceof Error ? error.message : String(error)).slice(0, MESSAGE_MAX);
    const code = error instanceof BeigeError ? { code: error.code } : {};
    yield { type: "error", message: blank(target, message), failure: { ...failureFrom(heard, message), ...code } };
  } finally {
    clearTimeout(timer);
  }
}

const blank = (target: ChatTarget, errorMessage: string): AssistantMessage => ({
  role: "assistant",
  content: [],
  api: target.api,
  provider: target.provider,
  model: target.model.id,
  usage: NO_USAGE,
  stopReason: "error",
  errorMessage,
  timestamp: Date.now(),
});

/** Without `partial`, which repeats the whole message at every event. */
function toChat(event: AssistantMessageEvent, heard: Heard): ChatEvent {
  switch (event.type) {
    case "start":
      return { type: "start" };
    case "done":
      return { type: "done", message: event.message as unknown as AssistantMessage };
    case "error": {
      const message = event.error as unknown as AssistantMessage;
      const text = (message.errorMessage ?? "failed").slice(0, MESSAGE_MAX);
      const failure = failureFrom(heard, text);
      const overflow = event.reason === "error" && (isContextOverflow(event.error) || overflows(failure.status, text));
      return {
        type: "error",
        message: { ...message, errorMessage: failure.message },
        failure: { ...failure, ...(overflow ? { overflow } : {}) },
      };
    }
    case "toolcall_start": {
      const part = event.partial.content[event.contentIndex];
      const named = part?.type === "toolCall" && part.id !== "" && part.name !== "" ? { id: part.id, name: part.name } : {};
      return { type: "toolcall_start", contentIndex: event.contentIndex, ...named };
    }
    default: {
      const { partial: _partial, ...rest } = event;
      return rest;
    }
  }
}

/** A failure inside an answer of status 200 names its status and its wait in the event that told it, if at all. */
function failureFrom(heard: Heard, message: string): ChatFailure {
  if (heard.refusal !== undefined) return heard.refusal;
  if (heard.status === undefined) return { message };
  return { ...toldIn(message, Date.now()), ...toldIn(errorEvent(heard.tail.text()), Date.now()), message };
}

/** The data of the last event that holds an error. */
const errorEvent = (text: string): string =>
  text
    .split(/\r?\n/)
    .findLast((line) => line.startsWith("data:") && line.includes('"error"'))
    ?.slice("data:".length)
    .trim() ?? "";
