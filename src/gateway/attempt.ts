// One try of one model: slot, key, audit row, stream. Nothing is forwarded before the first content.
import { asBeigeError, BeigeError } from "../core/errors.ts";
import { baseUrlOf } from "../core/address.ts";
import { hostOf } from "../core/hostpolicy.ts";
import { fold, newDraft, shows, type Draft } from "../core/draft.ts";
import { priced } from "../core/usage.ts";
import { looksSecret } from "../core/secretref.ts";
import type { Audit, AuditCall, AuditOutcome } from "../core/audit.ts";
import type { AssistantMessage, ChatContext, ChatEvent, ChatFailure, ChatOptions, ChatTarget, Llm } from "../core/chat.ts";
import type { Provider } from "../core/resource.ts";
import type { Clock, Log, Secrets } from "../core/world.ts";
import type { ModelFacts } from "../../schemas/types.ts";
import type { Limiter } from "./limiter.ts";

/** Events that a provider may send before any content. */
const HELD_MAX = 1000;
const MESSAGE_MAX = 2000;

export interface AttemptDeps {
  readonly llm: (api: string) => Llm;
  readonly secrets: Secrets;
  readonly audit: Audit;
  readonly limiter: Limiter;
  readonly clock: Clock;
  readonly log: Log;
}

export interface Attempt {
  readonly call: string;
  readonly row: AuditCall;
  readonly provider: Provider;
  readonly model: ModelFacts;
  readonly context: ChatContext;
  readonly options: ChatOptions;
}

export type AttemptEnd =
  | { readonly end: "answered"; readonly message: AssistantMessage }
  /** Nothing was forwarded. */
  | { readonly end: "failed"; readonly failure: ChatFailure }
  /** Something was forwarded: `message` is the answer as far as it came. */
  | { readonly end: "cut"; readonly failure: ChatFailure; readonly message: AssistantMessage };

/** Yields what the reader sees but its last event, which belongs to whoever knows what comes next. Throws only for the caller's abort. */
export async function* runAttempt(deps: AttemptDeps, attempt: Attempt, signal: AbortSignal): AsyncGenerator<ChatEvent, AttemptEnd> {
  const { name } = attempt.provider.metadata;
  using slot = await deps.limiter.slot(name, attempt.provider.spec.concurrency, signal);
  // Whoever reads may never ask for the next event: the slot is free as soon as the request is given up.
  const free = (): void => slot[Symbol.dispose]();
  signal.addEventListener("abort", free, { once: true });
  try {
    signal.throwIfAborted();
    return yield* recorded(deps, attempt, { waitedMs: slot.waitedMs }, signal);
  } finally {
    signal.removeEventListener("abort", free);
  }
}

/** The gateway itself cannot send: said as a failure that no other try mends. */
const refused = (error: unknown): AttemptEnd => {
  const known = asBeigeError(error);
  return {
    end: "failed",
    failure: { code: known.code, message: known.message, ...(known.hint === undefined ? {} : { hint: known.hint }) },
  };
};

async function* recorded(
  deps: AttemptDeps,
  attempt: Attempt,
  extra: { readonly waitedMs: number },
  signal: AbortSignal,
): AsyncGenerator<ChatEvent, AttemptEnd> {
  const { audit, clock } = deps;
  let target: ChatTarget;
  try {
    target = await targetOf(deps, attempt);
    await audit.begin(attempt.call, attempt.row);
  } catch (error) {
    return refused(error);
  }
  const since = clock.monotonic();
  const seen: Seen = {
    draft: newDraft({ api: target.api, provider: target.provider, model: target.model.id, timestamp: clock.now() }),
    bytes: 0,
    committed: false,
    late: false,
  };
  let ended: AttemptEnd | undefined;
  try {
    ended = yield* streamed(deps, { attempt, target, seen }, signal);
    return ended;
  } finally {
    // Also runs when the reader has left or the request was given up: every begin row gets its end.
    await audit
      .end(attempt.call, attempt.row, outcome(ended, seen, { durationMs: clock.monotonic() - since, waitMs: extra.waitedMs }))
      .catch((error: unknown) => deps.log.error("audit row lost", { call: attempt.call, error: asBeigeError(error).message }));
  }
}

interface Seen {
  readonly draft: Draft;
  bytes: number;
  committed: boolean;
  late: boolean;
}

function outcome(ended: AttemptEnd | undefined, seen: Seen, times: { readonly durationMs: number; readonly waitMs: number }): AuditOutcome {
  const { cost, ...tokens } = ended?.end === "answered" ? ended.message.usage : seen.draft.usage;
  const failure = ended !== undefined && ended.end !== "answered" ? ended.failure : undefined;
  return {
    durationMs: Math.round(times.durationMs),
    exitCode: ended?.end === "answered" ? 0 : 1,
    outputBytes: seen.bytes,
    outcome: ended === undefined ? "cancelled" : ended.end === "answered" ? "ok" : seen.late ? "timeout" : "failed",
    model: seen.draft.model,
    usage: {
      ...tokens,
      costUsd: cost.total,
      waitMs: Math.round(times.waitMs),
      ...(failure?.status === undefined ? {} : { status: failure.status }),
    },
    ...(failure === undefined ? {} : { error: failure.message }),
  };
}

/** A key goes to the host that the address names, and to no unknown place. */
async function keyOf(deps: AttemptDeps, provider: Provider, baseUrl: string): Promise<string | undefined> {
  if (provider.spec.apiKey === undefined) return undefined;
  const host = hostOf(baseUrl);
  if (host === undefined) throw new BeigeError("invalid", `provider '${provider.metadata.name}' has an address without a host`);
  return await deps.secrets.resolve(provider.spec.apiKey, host);
}

async function targetOf(deps: AttemptDeps, attempt: Attempt): Promise<ChatTarget> {
  const { provider, model } = attempt;
  const { spec } = provider;
  const { name } = provider.metadata;
  const basic = { provider: name, api: spec.api, model, timeoutMs: spec.timeoutSeconds * 1000 };
  if (spec.api === "echo") return { ...basic, ...(spec.echo === undefined ? {} : { echo: spec.echo }) };
  const baseUrl = baseUrlOf(spec);
  if (baseUrl === undefined)
    throw new BeigeError("invalid", `provider '${name}' has no baseUrl`, { hint: "set spec.baseUrl of the Provider" });
  const apiKey = await keyOf(deps, provider, baseUrl);
  return { ...basic, baseUrl, ...(apiKey === undefined ? {} : { apiKey }) };
}

interface Running {
  readonly attempt: Attempt;
  readonly target: ChatTarget;
  readonly seen: Seen;
}

async function* streamed(deps: AttemptDeps, running: Running, signal: AbortSignal): AsyncGenerator<ChatEvent, AttemptEnd> {
  const { target, attempt, seen } = running;
  const deadline = new AbortController();
  const timer = deps.clock.after(target.timeoutMs, () => {
    seen.late = true;
    deadline.abort(new BeigeError("timeout", timeoutFailure(target).message));
  });
  const both = AbortSignal.any([signal, deadline.signal]);
  const held: ChatEvent[] = [];
  const clean = (failure: ChatFailure): ChatFailure => tidy(failure, target, deps.secrets);
  try {
    for await (const event of untilAborted(deps.llm(target.api).stream(target, attempt.context, attempt.options, both), both)) {
      if (event.type === "error") {
        seen.draft.usage = priced(event.message.usage, target.model.cost);
        signal.throwIfAborted();
        return failedWith(
          seen,
          clean(seen.late ? timeoutFailure(target) : (event.failure ?? { message: event.message.errorMessage ?? "failed" })),
          event.message,
        );
      }
      fold(seen.draft, event);
      if ("delta" in event) seen.bytes += Buffer.byteLength(event.delta);
      if (!seen.committed && !shows(event)) {
        held.push(event);
        if (held.length > HELD_MAX) return { end: "failed", failure: { message: "the provider sent events without content" } };
        continue;
      }
      if (!seen.committed) yield* held.splice(0);
      seen.committed = true;
      if (event.type === "done") {
        const message: AssistantMessage = { ...event.message, usage: priced(event.message.usage, target.model.cost) };
        return { end: "answered", message };
      }
      yield event;
    }
    return failedWith(seen, { message: "the stream ended before the answer was complete" });
  } catch (error) {
    signal.throwIfAborted();
    const failure = seen.late ? timeoutFailure(target) : { message: error instanceof Error ? error.message : String(error) };
    return failedWith(seen, clean(failure));
  } finally {
    timer.cancel();
    deadline.abort();
  }
}

const timeoutFailure = (target: ChatTarget): ChatFailure => ({ message: `no whole answer within ${target.timeoutMs / 1000} s` });

/** Before the first content another model may answer; after it the reader is told that the answer is cut. */
function failedWith(seen: Seen, failure: ChatFailure, message?: AssistantMessage): AttemptEnd {
  if (!seen.committed) return { end: "failed", failure };
  const content = message !== undefined && message.content.length > 0 ? message.content : seen.draft.content;
  return {
    end: "cut",
    failure: { ...failure, partial: true },
    message: { ...seen.draft, content, stopReason: "error", errorMessage: failure.message },
  };
}

/** Parts of an address that only those may know who may use it. */
const hiddenParts = ({ baseUrl }: ChatTarget): readonly string[] =>
  (URL.parse(baseUrl ?? "")?.pathname ?? "").split("/").filter(looksSecret);

/** Providers repeat keys and addresses in their refusals: what goes on from here holds none. */
function tidy(failure: ChatFailure, target: ChatTarget, secrets: Secrets): ChatFailure {
  const key = target.apiKey;
  const hidden = [...(key === undefined || key.length < 4 ? [] : [key]), ...hiddenParts(target)];
  const message = hidden.reduce((text, part) => text.replaceAll(part, "[secret]"), secrets.redact(failure.message));
  return { ...failure, message: message.length > MESSAGE_MAX ? `${message.slice(0, MESSAGE_MAX)}…` : message };
}

/** The same events, but an abort is felt at once, whatever the source does about it. */
async function* untilAborted(source: AsyncIterable<ChatEvent>, signal: AbortSignal): AsyncGenerator<ChatEvent> {
  const iterator = source[Symbol.asyncIterator]();
  let stop: ((reason: unknown) => void) | undefined;
  const abort = (): void => stop?.(signal.reason);
  signal.addEventListener("abort", abort, { once: true });
  try {
    while (true) {
      signal.throwIfAborted();
      const next = Promise.withResolvers<IteratorResult<ChatEvent>>();
      stop = next.reject;
      iterator.next().then(next.resolve, next.reject);
      const result = await next.promise;
      if (result.done === true) return;
      yield result.value;
    }
  } finally {
    signal.removeEventListener("abort", abort);
    // Not awaited: a source that ignores its signal must not hold the slot.
    iterator.return?.().catch(() => undefined);
  }
}
