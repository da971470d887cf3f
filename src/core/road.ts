// A request on the one LLM road, whichever door it came through, and what the road answers. Ports between doors, gateway and adapters.
import type { AgentId, Principal } from "./call.ts";
import type { AssistantMessage, ChatContext, ChatEvent, ChatFailure, ChatOptions, ChatTarget, Usage } from "./chat.ts";

/** Wire formats that clients may speak to us. */
export type WireApi = "openai-completions" | "openai-responses" | "anthropic-messages";

export interface ModelName {
  /** Name of a Provider. */
  readonly provider: string;
  /** As the provider writes it. */
  readonly id: string;
}

/** A request as its client wrote it. */
export interface WireRequest {
  readonly api: WireApi;
  /** Parsed JSON; the road replaces `model` and caps the answer's length. */
  readonly body: Readonly<Record<string, unknown>>;
  readonly stream: boolean;
  /** Of the client's, passed on to a provider of the same format. */
  readonly headers?: { readonly "anthropic-beta": string };
  /** Length of the body as it came, where the door knows it: budgets reserve by it. */
  readonly bytes?: number;
}

export interface RoadRequest {
  readonly principal: Principal;
  /** Whose models, hooks and budget; absent for an operator's own request to one model. */
  readonly agent?: AgentId;
  readonly session?: string;
  /** From the edge to the audit row. */
  readonly request?: string;
  /** A function where it costs something to make: it is asked for once, when a model needs it. May throw `invalid`. */
  readonly context: ChatContext | (() => ChatContext);
  readonly options: ChatOptions;
  /** With an agent: this one of its own list goes first. Without: the only one. */
  readonly model?: ModelName;
  /** A provider of the same format is sent just this; others get the context. Its answer then comes as `wire` events. */
  readonly wire?: WireRequest;
}

/** Bytes of the provider's own answer, for a client of the same format. Without stream: one event with the whole body. */
export interface WireBytes {
  readonly type: "wire";
  readonly bytes: Uint8Array;
}

/**
 * First `start` (names who answers; `wire: true` when wire events follow), last `done` or `error`. Never throws.
 * After an `error` with `failure.partial` some of the answer was forwarded already.
 */
export type RoadEvent = ChatEvent | WireBytes;
export type RunRoad = (request: RoadRequest, signal: AbortSignal) => AsyncIterable<RoadEvent>;

/** What a relay says of one exchange with a provider. */
export type RelayEvent =
  /** `shows`: has content that a reader would see; from the first of these on no other model may answer. */
  | { readonly type: "wire"; readonly bytes: Uint8Array; readonly shows: boolean }
  /** The content of `message` is empty: who needs it reads the bytes. Its usage and stop reason are the provider's. */
  | { readonly type: "done"; readonly message: AssistantMessage }
  | { readonly type: "error"; readonly message: AssistantMessage; readonly failure: ChatFailure };

/** What a relay is given. */
export interface Sending extends WireRequest {
  /** No byte of the request leaves before this resolves, and none ever when it rejects: what can be made ready meanwhile is. */
  readonly after?: Promise<unknown>;
}

/** Sends a client's own request to a provider of the same format. Never throws; an aborted signal ends the exchange at once. */
export interface Relay {
  send(target: ChatTarget, wire: Sending, signal: AbortSignal): AsyncIterable<RelayEvent>;
}

/** One attempt that is about to be paid. */
export interface Spend {
  readonly call: string;
  readonly agent?: AgentId;
  /** Id of the API key, where one asked. */
  readonly key?: string;
  readonly session?: string;
  readonly provider: string;
  readonly model: string;
  /** Upper guess of tokens and of US dollars; no dollars where the price is not known. */
  readonly tokens: number;
  readonly usd?: number;
}

/** The one record of what was spent, for every door. */
export interface Ledger {
  /** Before the request leaves. Throws `exhausted` naming the budget, what is spent and when it resets; `invalid` for an unknown price under a budget. */
  reserve(spend: Spend): void;
  /** Replaces the reservation by what it was; harmless for a call that is not reserved. */
  settle(call: string, usage: Usage, how: "answered" | "failed" | "cancelled"): void;
}
