// One try of one model: slot, key, budget, audit row, stream. Nothing is forwarded before the first content.
import { BudgetError } from "../core/budget.ts";
import { asBeigeError, BeigeError } from "../core/errors.ts";
import { inputTokens, reserved } from "../core/estimate.ts";
import { NO_USAGE } from "../core/usage.ts";
import type { Audit, AuditCall } from "../core/audit.ts";
import type { ChatContext, ChatEvent, ChatOptions, Llm } from "../core/chat.ts";
import type { Provider } from "../core/resource.ts";
import type { Ledger, Relay, RelayEvent, Spend, WireRequest } from "../core/road.ts";
import type { Clock, Log, Secrets } from "../core/world.ts";
import type { ModelFacts } from "../../schemas/types.ts";
import { limited } from "./deadline.ts";
import { failedWith, newFlow, outcomeOf, take, used, type AttemptEnd, type Flow, type Shown } from "./flow.ts";
import type { Limiter, Slot } from "./limiter.ts";
import { targetOf, tidy } from "./target.ts";
import { veilOf } from "./veil.ts";

/** How long a provider's last word, with its usage, is waited for after the reader has left. */
const LAST_WORD_MS = 100;

export interface AttemptDeps {
  readonly llm: (api: string) => Llm;
  /** Without one every request goes the canonical way. */
  readonly relay?: Relay;
  readonly ledger: Ledger;
  readonly secrets: Secrets;
  readonly audit: Audit;
  readonly limiter: Limiter;
  readonly clock: Clock;
  readonly log: Log;
}

export interface Attempt {
  readonly row: AuditCall;
  readonly provider: Provider;
  readonly model: ModelFacts;
  /** Asked through the relay with this body; else with the context. */
  readonly wire?: WireRequest;
  /** May throw `invalid`. */
  readonly context: () => ChatContext;
  readonly options: ChatOptions;
  readonly spend: Pick<Spend, "call" | "agent" | "key" | "session">;
  /** Length of what is sent, and the most tokens that may come. */
  readonly weight: () => { readonly bytes: number; readonly output: number };
}

/** The gateway itself cannot send: said as a failure that no other try mends. */
const refused = (error: unknown): AttemptEnd => {
  const known = asBeigeError(error);
  const { code, message, hint, retryAfterMs } = known;
  return {
    end: "failed",
    failure: {
      code,
      message,
      ...(hint === undefined ? {} : { hint }),
      ...(retryAfterMs === undefined ? {} : { retryAfterMs }),
      ...(known instanceof BudgetError ? { budget: known.scope } : {}),
    },
  };
};

interface Opened {
  readonly flow: Flow;
  /** Of a relay, which has made the request ready while the disk was waited for. */
  readonly source?: Source;
}

/** Everything that is paid, recorded and allowed before a byte leaves. */
async function opened(deps: AttemptDeps, attempt: Attempt, own: AbortSignal): Promise<Opened | AttemptEnd> {
  const { row, provider, model, wire, spend } = attempt;
  try {
    const target = await targetOf(deps.secrets, provider, model);
    if (wire === undefined) attempt.context();
    const { bytes, output } = attempt.weight();
    const guess = { input: inputTokens(bytes), output };
    await reserve(deps, attempt, { ...spend, provider: target.provider, model: model.id, ...reserved(guess, model.cost) });
    const kind = wire === undefined ? undefined : wire.stream ? "stream" : "whole";
    const flow = newFlow(target, kind, { guess, nowMs: deps.clock.now() });
    const recorded = deps.audit.begin(spend.call, row).then(
      // Before the relay hears of it: what is not given up by now may have left.
      () => void (flow.sent = wire !== undefined && deps.relay !== undefined && !own.aborted),
      (error: unknown) => {
        deps.ledger.settle(spend.call, NO_USAGE, "failed");
        throw error;
      },
    );
    const source = wire && deps.relay?.send(target, { ...wire, after: recorded }, own)[Symbol.asyncIterator]();
    await recorded;
    return { flow, ...(source === undefined ? {} : { source }) };
  } catch (error) {
    return refused(error);
  }
}

async function reserve(deps: AttemptDeps, { row }: Attempt, spend: Spend): Promise<void> {
  try {
    deps.ledger.reserve(spend);
  } catch (error) {
    await deps.audit.denied(spend.call, { ...row, decision: "denied" }, asBeigeError(error).message);
    throw error;
  }
}

interface Running extends Opened {
  readonly attempt: Attempt;
  readonly slot: Slot;
  /** Ends the exchange with the provider. */
  readonly own: AbortController;
  /** Gives everything back but what the provider holds. */
  readonly release: () => void;
}

/** Slot and begin row. Whoever reads may never ask for the next event: slot and provider are let go as soon as the request is given up. */
async function entered(deps: AttemptDeps, attempt: Attempt, life: AbortSignal): Promise<Running | AttemptEnd> {
  const slot = await deps.limiter.slot(attempt.provider.metadata.name, attempt.provider.spec.concurrency, life);
  const own = new AbortController();
  const leave = (): void => {
    own.abort(life.reason);
    slot[Symbol.dispose]();
  };
  const release = (): void => {
    life.removeEventListener("abort", leave);
    slot[Symbol.dispose]();
  };
  life.addEventListener("abort", leave, { once: true });
  try {
    life.throwIfAborted();
    const found = await opened(deps, attempt, own.signal);
    if (!("end" in found)) return { attempt, ...found, slot, own, release };
    release();
    return found;
  } catch (error) {
    release();
    throw error;
  }
}

/** Yields what the reader sees but its last event, which belongs to whoever knows what comes next. Throws only for the caller's abort. */
export async function* runAttempt(deps: AttemptDeps, attempt: Attempt, life: AbortSignal): AsyncGenerator<Shown, AttemptEnd> {
  const run = await entered(deps, attempt, life);
  if ("end" in run) return run;
  const { flow, own } = run;
  const since = deps.clock.monotonic();
  const timer = deps.clock.after(flow.target.timeoutMs, () => {
    flow.late = true;
    own.abort(new BeigeError("timeout", "the answer takes too long"));
  });
  let { source } = run;
  let end: AttemptEnd | undefined;
  try {
    life.throwIfAborted();
    source ??= spoken(deps, run);
    const veil = veilOf(flow.target);
    while (true) {
      const raw = await heard(source, life);
      const event = raw instanceof Error ? raw : veil(raw);
      end = takeIn(deps, flow, event);
      if (life.aborted) {
        end = undefined;
        throw life.reason;
      }
      if (flow.committed && flow.firstMs === undefined) {
        flow.firstMs = deps.clock.monotonic() - since;
        for (const held of flow.held.splice(0)) yield held;
      }
      if (end !== undefined) return end;
      if (flow.committed) yield event as Shown;
    }
  } finally {
    timer.cancel();
    if (source !== undefined) await parted(deps, run, { source, end });
    run.release();
    closed(deps, run, { end, durationMs: deps.clock.monotonic() - since });
  }
}

/** Of an event that goes on nothing; of the last one the end, without secrets. */
function takeIn(deps: AttemptDeps, flow: Flow, event: ChatEvent | RelayEvent | Error): AttemptEnd | undefined {
  const end = event instanceof Error ? failedWith(flow, { message: event.message }) : take(flow, event);
  if (end === undefined || end.end === "answered") return end;
  const failure = tidy(end.failure, flow.target, deps.secrets);
  return end.end === "cut" ? { ...end, failure, message: { ...end.message, errorMessage: failure.message } } : { end: "failed", failure };
}

type Source = AsyncIterator<ChatEvent | RelayEvent>;

/** In our own words, by a client of the provider's. */
function spoken(deps: AttemptDeps, { attempt, flow, own }: Running): Source {
  flow.sent = true;
  return untilAborted(deps.llm(flow.target.api).stream(flow.target, attempt.context(), attempt.options, own.signal), own.signal);
}

/** The next event; what a source throws, or its silent end, is a failure like any other. */
async function heard(source: Source, life: AbortSignal): Promise<ChatEvent | RelayEvent | Error> {
  try {
    const next = await source.next();
    return next.done === true ? new Error("the stream ended before the answer was complete") : next.value;
  } catch (error) {
    life.throwIfAborted();
    return error instanceof Error ? error : new Error(String(error));
  }
}

interface Parting {
  readonly source: Source;
  readonly end: AttemptEnd | undefined;
}

/** Lets the provider go at once, unless it has answered whole; what it had counted by then is still heard. */
async function parted(deps: AttemptDeps, { flow, own }: Running, { source, end }: Parting): Promise<void> {
  if (flow.wire === undefined || end?.end !== "answered") own.abort();
  if (flow.wire !== undefined && end === undefined && !flow.spoken) {
    const listen = async (): Promise<void> => {
      while (!flow.spoken) {
        const next = await source.next();
        if (next.done === true) return;
        if (next.value.type === "error" || next.value.type === "done") take(flow, next.value);
      }
    };
    await limited(deps.clock, { ms: LAST_WORD_MS, what: "the provider" }, listen).catch(() => undefined);
  }
  // Not awaited: a source that ignores its signal must not hold anybody up. One that has answered whole keeps its connection.
  if (flow.wire === undefined || !flow.spoken) source.return?.().catch(() => undefined);
}

interface Closing {
  readonly end: AttemptEnd | undefined;
  readonly durationMs: number;
}

/** Every begin row gets its end, every reservation its settlement, whichever way it ended. */
function closed(deps: AttemptDeps, { attempt, flow, slot }: Running, { end, durationMs }: Closing): void {
  const { call } = attempt.spend;
  const { usage } = used(flow, end);
  const times = { durationMs, waitMs: slot.waitedMs, ...(flow.firstMs === undefined ? {} : { firstMs: flow.firstMs }) };
  const lost = (what: string, error: unknown): void => deps.log.error(what, { call, error: asBeigeError(error).message });
  try {
    deps.ledger.settle(call, usage, end === undefined && flow.sent ? "cancelled" : end?.end === "answered" ? "answered" : "failed");
  } catch (error) {
    lost("spending not settled", error);
  }
  // Not waited for: the row is in line, and the reader's last event need not wait for other people's disk writes.
  deps.audit.end(call, attempt.row, outcomeOf(flow, end, times)).catch((error: unknown) => lost("audit row lost", error));
}

/** The same events, but an abort is felt at once, whatever the source does about it. */
function untilAborted(source: AsyncIterable<ChatEvent>, signal: AbortSignal): Source {
  const iterator = source[Symbol.asyncIterator]();
  let stop: ((reason: unknown) => void) | undefined;
  signal.addEventListener("abort", () => stop?.(signal.reason), { once: true });
  return {
    next() {
      if (signal.aborted) return Promise.reject(signal.reason as Error);
      return new Promise((done, fail) => {
        stop = fail;
        iterator.next().then(done, fail);
      });
    },
    return() {
      iterator.return?.().catch(() => undefined);
      return Promise.resolve({ done: true, value: undefined });
    },
  };
}
