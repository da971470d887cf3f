// One LLM request: messages in, events out. Shapes follow the pi SDK's, so that its adapter passes them through.
import type { ErrorCode } from "./errors.ts";

export interface TextPart {
  readonly type: "text";
  readonly text: string;
}
export interface ThinkingPart {
  readonly type: "thinking";
  readonly thinking: string;
  readonly thinkingSignature?: string;
}
export interface ImagePart {
  readonly type: "image";
  readonly data: string;
  readonly mimeType: string;
}
export interface ToolCallPart {
  readonly type: "toolCall";
  readonly id: string;
  readonly name: string;
  readonly arguments: Readonly<Record<string, unknown>>;
}

/** Tokens, and US dollars by the physical model's price. */
export interface Usage {
  readonly input: number;
  readonly output: number;
  readonly cacheRead: number;
  readonly cacheWrite: number;
  readonly totalTokens: number;
  readonly cost: {
    readonly input: number;
    readonly output: number;
    readonly cacheRead: number;
    readonly cacheWrite: number;
    readonly total: number;
  };
}

export interface AssistantMessage {
  readonly role: "assistant";
  readonly content: readonly (TextPart | ThinkingPart | ToolCallPart)[];
  readonly api: string;
  readonly provider: string;
  readonly model: string;
  readonly usage: Usage;
  readonly stopReason: "stop" | "length" | "toolUse" | "error" | "aborted";
  readonly errorMessage?: string;
  readonly timestamp: number;
}
export interface UserMessage {
  readonly role: "user";
  readonly content: string | readonly (TextPart | ImagePart)[];
  readonly timestamp: number;
}
export interface ToolResultMessage {
  readonly role: "toolResult";
  readonly toolCallId: string;
  readonly toolName: string;
  readonly content: readonly (TextPart | ImagePart)[];
  readonly isError: boolean;
  readonly timestamp: number;
}
export type Message = UserMessage | AssistantMessage | ToolResultMessage;

export interface ChatContext {
  readonly systemPrompt?: string;
  readonly messages: readonly Message[];
  readonly tools?: readonly { readonly name: string; readonly description: string; readonly parameters: object }[];
}

/** Deltas only: the growing partial is rebuilt by whoever needs it. */
export type ChatEvent =
  /** Names who answers where the gateway has chosen; `fallback` when it is not the first of the list. */
  | { readonly type: "start"; readonly provider?: string; readonly model?: string; readonly fallback?: boolean; readonly wire?: boolean }
  | { readonly type: "text_start" | "thinking_start"; readonly contentIndex: number }
  | { readonly type: "text_delta" | "thinking_delta" | "toolcall_delta"; readonly contentIndex: number; readonly delta: string }
  | { readonly type: "text_end" | "thinking_end"; readonly contentIndex: number; readonly content: string }
  /** Named where the provider has said by then what it calls: its arguments may be passed on as they come. */
  | { readonly type: "toolcall_start"; readonly contentIndex: number; readonly id?: string; readonly name?: string }
  | { readonly type: "toolcall_end"; readonly contentIndex: number; readonly toolCall: ToolCallPart }
  | { readonly type: "done"; readonly message: AssistantMessage }
  | { readonly type: "error"; readonly message: AssistantMessage; readonly failure?: ChatFailure };

/** Why a provider did not answer, as far as the wire told. */
export interface ChatFailure {
  /** HTTP status; absent for network failures. */
  readonly status?: number;
  readonly retryAfterMs?: number;
  readonly message: string;
  /** The context is too long for the model: never answered by another try. */
  readonly overflow?: boolean;
  /** Set where the gateway itself refused or gave up; a provider's own failure has a status or none. */
  readonly code?: ErrorCode;
  readonly hint?: string;
  /** Whose budget is used up. */
  readonly budget?: "agent" | "key" | "provider";
  /** Content had been forwarded already: the answer is cut, and no other model was asked. */
  readonly partial?: boolean;
}

/** One physical model of one provider, with the key that was resolved for this attempt. */
export interface ChatTarget {
  readonly provider: string;
  readonly api: string;
  readonly baseUrl?: string;
  readonly apiKey?: string;
  readonly model: import("../../schemas/types.ts").ModelFacts;
  readonly timeoutMs: number;
  /** Script of the built-in echo provider. */
  readonly echo?: import("../../schemas/types.ts").EchoSpec;
}

export interface ChatOptions {
  readonly thinking: "off" | "minimal" | "low" | "medium" | "high";
  readonly maxTokens?: number;
  readonly temperature?: number;
  readonly session?: string;
}

/** Speaks a provider's wire format. Never throws: ends with `done` or `error`; an `error` carries the failure where the wire told it. */
export interface Llm {
  stream(target: ChatTarget, context: ChatContext, options: ChatOptions, signal: AbortSignal): AsyncIterable<ChatEvent>;
}

export interface ToolAnswer {
  readonly text: string;
  readonly failed: boolean;
  readonly images?: readonly ImagePart[];
}

export interface SessionTool {
  readonly name: string;
  readonly description: string;
  /** JSON Schema of the parameters. */
  readonly parameters: object;
  run(id: string, params: Readonly<Record<string, unknown>>, signal: AbortSignal): Promise<ToolAnswer>;
}

export interface SessionOptions {
  /** Folder of the session files. */
  readonly folder: string;
  /** Existing file to resume; a new one is made when absent. */
  readonly file?: string;
  readonly id: string;
  readonly systemPrompt: string;
  /** Working folder inside the sandbox: the model reads it. */
  readonly cwd: string;
  readonly tools: readonly SessionTool[];
  readonly thinking: ChatOptions["thinking"];
  readonly model: import("../../schemas/types.ts").ModelFacts;
  /** Tokens of context at which the older part is summarised. */
  readonly compactAt: number;
  stream(context: ChatContext, options: ChatOptions, signal: AbortSignal): AsyncIterable<ChatEvent>;
  /** The result of a tool call that was cut with the process before; undefined when nobody knows it. */
  readonly rejoin?: (call: { readonly id: string; readonly name: string }) => Promise<ToolAnswer | undefined>;
}

export type SessionEvent =
  | { readonly type: "text" | "thinking"; readonly delta: string }
  | { readonly type: "tool_start"; readonly id: string; readonly tool: string; readonly args: Readonly<Record<string, unknown>> }
  | { readonly type: "tool_end"; readonly id: string; readonly tool: string; readonly failed: boolean; readonly output: string }
  /** A message that was put in meanwhile is in the conversation now. */
  | { readonly type: "user"; readonly inbox: string; readonly text: string }
  /** The older part was summarised; `failed` says why not. */
  | { readonly type: "compaction"; readonly tokens: number; readonly failed?: string };

/** What a person says. */
export type Words = string | { readonly text: string; readonly images: readonly ImagePart[] };

/** A conversation in memory, written to its file as it goes. */
export interface LiveSession {
  readonly file: string;
  /** What was repaired or lost when it was opened: a sentence. */
  readonly note?: string;
  /** Inbox ids that the file already holds, so that a crash repeats nothing. */
  readonly inbox: ReadonlySet<string>;
  /**
   * Writes the inbox id, then runs the message to its end. Resolves with the last assistant message; provider failures are in it, not thrown.
   * An id that the file holds already is not sent again: what was cut is continued, what was answered is returned.
   */
  prompt(said: Words, inbox: string, on: (event: SessionEvent) => void, signal: AbortSignal): Promise<AssistantMessage>;
  /** Puts a message into the turn that runs: after the tools that run now, or at its end. False when none runs. */
  say(how: "steer" | "follow-up", text: string, inbox: string): boolean;
  /** The last assistant message, if any. */
  last(): AssistantMessage | undefined;
  dispose(): void;
}

/** The agent loop: the pi SDK behind a port. */
export interface SessionRuntime {
  open(options: SessionOptions): Promise<LiveSession>;
  readonly files: import("./session.ts").SessionFiles;
}
