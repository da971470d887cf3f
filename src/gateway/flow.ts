// What is seen of one attempt while it runs: the commit at the first content, and how it ended.
import { fold, newDraft, shows, type Draft } from "../core/draft.ts";
import { guessed, streamTokens, textTokens, type Guess } from "../core/estimate.ts";
import { priced } from "../core/usage.ts";
import type { AuditOutcome } from "../core/audit.ts";
import type { AssistantMessage, ChatEvent, ChatFailure, ChatTarget, Usage } from "../core/chat.ts";
import type { RelayEvent, WireBytes } from "../core/road.ts";

/** Events that a provider may send before any content, and what they may weigh. */
const HELD_MAX = 1000;
const HELD_BYTES_MAX = 1024 * 1024;

/** What the reader gets of an attempt: all but its last event. */
export type Shown = Exclude<ChatEvent, { type: "done" | "error" }> | WireBytes;

export type AttemptEnd =
  | { readonly end: "answered"; readonly message: AssistantMessage }
  /** Nothing was forwarded. */
  | { readonly end: "failed"; readonly failure: ChatFailure }
  /** Something was forwarded: `message` is the answer as far as it came. */
  | { readonly end: "cut"; readonly failure: ChatFailure; readonly message: AssistantMessage };

export interface Flow {
  readonly target: ChatTarget;
  /** Of the wire, as a stream or whole; undefined for events. */
  readonly wire: "stream" | "whole" | undefined;
  readonly guess: Guess;
  readonly draft: Draft;
  held: Shown[];
  bytes: number;
  /** Something may be shown: no other model may answer any more. */
  committed: boolean;
  /** Its time was over. */
  late: boolean;
  /** The provider has said its last word. */
  spoken: boolean;
  /** The request may have reached the provider. */
  sent: boolean;
  /** From its beginning to the first content. */
  firstMs?: number;
}

export const newFlow = (target: ChatTarget, wire: Flow["wire"], about: { readonly guess: Guess; readonly nowMs: number }): Flow => ({
  target,
  wire,
  guess: about.guess,
  draft: newDraft({ api: target.api, provider: target.provider, model: target.model.id, timestamp: about.nowMs }),
  held: [],
  bytes: 0,
  committed: false,
  late: false,
  spoken: false,
  sent: false,
});

const timeoutFailure = (flow: Flow): ChatFailure => ({ message: `no whole answer within ${flow.target.timeoutMs / 1000} s` });

/** Before the first content another model may answer; after it the reader is told that the answer is cut. */
export function failedWith(flow: Flow, failure: ChatFailure, message?: AssistantMessage): AttemptEnd {
  const told = flow.late ? timeoutFailure(flow) : failure;
  if (!flow.committed) return { end: "failed", failure: told };
  const content = message !== undefined && message.content.length > 0 ? message.content : flow.draft.content;
  return {
    end: "cut",
    failure: { ...told, partial: true },
    message: { ...flow.draft, content, usage: used(flow, undefined).usage, stopReason: "error", errorMessage: told.message },
  };
}

/**
 * Takes one event in. Returns the end of the attempt, or nothing while it goes on: then what is in `held`, and after it the event itself,
 * may be shown as soon as the flow is committed.
 */
export function take(flow: Flow, event: ChatEvent | RelayEvent): AttemptEnd | undefined {
  if (event.type === "error" || event.type === "done") {
    flow.spoken = true;
    flow.draft.usage = priced(event.message.usage, flow.target.model.cost);
    if (event.type === "error")
      return failedWith(flow, event.failure ?? { message: event.message.errorMessage ?? "failed" }, event.message);
    flow.committed = true;
    return { end: "answered", message: { ...event.message, usage: flow.draft.usage } };
  }
  if (event.type === "wire") {
    flow.bytes += event.bytes.length;
    flow.committed ||= event.shows;
  } else {
    fold(flow.draft, event);
    if ("delta" in event) flow.bytes += Buffer.byteLength(event.delta);
    flow.committed ||= shows(event);
  }
  return flow.committed ? undefined : hold(flow, event);
}

function hold(flow: Flow, event: Shown): AttemptEnd | undefined {
  flow.held.push(event);
  if (flow.held.length <= HELD_MAX && flow.bytes <= HELD_BYTES_MAX) return undefined;
  return { end: "failed", failure: { message: "the provider sent events without content" } };
}

const NOTHING: Guess = { input: 0, output: 0 };

/** Tokens that were sent and came: what is not known is counted at the guess, whole answers that nobody saw at their longest. */
function sofar(flow: Flow, end: AttemptEnd | undefined): Guess {
  if (!flow.sent || (end?.end === "failed" && !flow.late)) return NOTHING;
  const { input, output } = flow.guess;
  if (flow.wire === "whole") return { input, output: flow.bytes === 0 ? output : Math.min(output, textTokens(flow.bytes)) };
  return { input, output: Math.min(output, flow.wire === "stream" ? streamTokens(flow.bytes) : textTokens(flow.bytes)) };
}

/** What the attempt is charged. A provider that answered and counted is believed. */
export function used(flow: Flow, end: AttemptEnd | undefined): { readonly usage: Usage; readonly estimated: boolean } {
  const told = flow.draft.usage;
  if (end?.end === "answered" && told.totalTokens > 0) return { usage: told, estimated: false };
  const usage = guessed(told, sofar(flow, end), flow.target.model.cost);
  return { usage, estimated: usage.totalTokens !== told.totalTokens };
}

export interface Times {
  readonly durationMs: number;
  readonly waitMs: number;
  readonly firstMs?: number;
}

/** What the audit's outcome row says. */
export function outcomeOf(flow: Flow, ended: AttemptEnd | undefined, times: Times): AuditOutcome {
  const charged = used(flow, ended);
  const { cost, ...tokens } = charged.usage;
  const failure = ended !== undefined && ended.end !== "answered" ? ended.failure : undefined;
  return {
    durationMs: Math.round(times.durationMs),
    exitCode: ended?.end === "answered" ? 0 : 1,
    outputBytes: flow.bytes,
    outcome: ended === undefined ? "cancelled" : ended.end === "answered" ? "ok" : flow.late ? "timeout" : "failed",
    model: flow.target.model.id,
    usage: {
      ...tokens,
      costUsd: cost.total,
      waitMs: Math.round(times.waitMs),
      ...(times.firstMs === undefined ? {} : { firstMs: Math.round(times.firstMs) }),
      ...(charged.estimated ? { estimated: 1 } : {}),
      ...(failure?.status === undefined ? {} : { status: failure.status }),
    },
    ...(failure === undefined ? {} : { error: failure.message }),
  };
}
