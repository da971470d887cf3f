// The one road of every LLM request: hooks, models in order with fallback, one stream of events that never throws.
import { asBeigeError, BeigeError } from "../core/errors.ts";
import { jsonBytes } from "../core/estimate.ts";
import { afterFailure, nextStep, pauseMs, startFallback, without, type Fallback } from "../core/fallback.ts";
import { judge } from "../core/health.ts";
import type { ChatContext, ChatEvent, ChatFailure } from "../core/chat.ts";
import type { RoadEvent, RoadRequest, RunRoad, WireRequest } from "../core/road.ts";
import type { Providers, Random, Shelf } from "../core/world.ts";
import { admit, agentName, rowOf, type Admitted, type Gates } from "./admit.ts";
import { runAttempt, type Attempt, type AttemptDeps } from "./attempt.ts";
import type { AttemptEnd, Shown } from "./flow.ts";
import { createHealth, type HealthBook } from "./health.ts";
import { cappedWire, clamped, longestAnswer, type Candidate } from "./models.ts";
import { lastUserText, withLastUserText } from "./prompt.ts";
import { exhausted, refusal, stopped, thrown } from "./refusal.ts";
import { afterwards, eventsOf, released, type ChatHooks, type Whole } from "./release.ts";

export type Chat = RunRoad & { readonly providers: Providers };

export interface ChatDeps extends AttemptDeps, Gates {
  readonly hooks: ChatHooks;
  readonly shelf: Shelf;
  readonly random: Random;
  /** What a provider's status shows of a model is another now. */
  readonly onHealth?: (provider: string) => void;
}

export function createChat(deps: ChatDeps): Chat {
  const health = createHealth(deps);
  const run: RunRoad = (request, signal) => {
    const life = new AbortController();
    const asked: Asked = { deps, health, request, life, told: false };
    const events = road(asked, signal);
    return {
      [Symbol.asyncIterator]: () => ({
        next: () => events.next(),
        // A generator takes a return only at its next event, which may be long in coming: the provider is let go now.
        return: () => {
          if (!asked.told) life.abort(new Error("the reader left"));
          return events.return(undefined);
        },
      }),
    };
  };
  return Object.assign(run, { providers: health.providers });
}

interface Asked {
  readonly deps: ChatDeps;
  readonly health: HealthBook;
  readonly request: RoadRequest;
  /** Ends with the caller's signal, or when the reader leaves. */
  readonly life: AbortController;
  /** The last event was given away: nobody is left to let go. */
  told: boolean;
}

async function* road(asked: Asked, signal: AbortSignal): AsyncGenerator<RoadEvent, void> {
  const { deps, life } = asked;
  const leave = (): void => life.abort(signal.reason);
  if (signal.aborted) leave();
  else signal.addEventListener("abort", leave, { once: true });
  try {
    const trip = await prepared(asked);
    while (true) {
      const next = await candidateOf(trip);
      if ("failure" in next) {
        asked.told = true;
        yield refusal(asked, next.failure);
        return;
      }
      const started: ChatEvent = startOf(next);
      let first = true;
      const events = runAttempt(deps, attemptOf(trip, next), life.signal);
      let step = await events.next();
      try {
        for (; step.done !== true; step = await events.next()) {
          if (trip.held) continue;
          if (first) yield started;
          first = false;
          if (step.value.type !== "start") yield step.value;
        }
      } finally {
        if (step.done !== true) await left(events);
      }
      const last = await finished(trip, next, concluded(trip, next, step.value));
      if (last === undefined) continue;
      if (first && last.type === "done") yield started;
      if (trip.held && last.type === "done") yield* eventsOf(last.message);
      asked.told = true;
      yield last;
      return;
    }
  } catch (error) {
    yield refusal(asked, thrown(deps, error, life.signal), life.signal.aborted);
  } finally {
    signal.removeEventListener("abort", leave);
  }
}

/** The reader is gone, so nobody hears what its end throws. */
const left = (events: AsyncGenerator<Shown, AttemptEnd>): Promise<unknown> =>
  events.return({ end: "failed", failure: { message: "the reader left" } }).catch(() => undefined);

/** A request under way. */
interface Trip extends Asked, Admitted {
  /** Hooks read the whole answer before anybody gets a piece of it. */
  readonly held: boolean;
  /** Absent where the text must be read, and for providers of another format. */
  readonly wire?: WireRequest;
  readonly context: () => ChatContext;
  readonly bytes: (wire: boolean) => number;
  readonly errors: Map<string, string>;
  /** The first provider's budget that was used up, and whether anything else went wrong. */
  unpaid?: ChatFailure;
  unanswered: boolean;
  state: Fallback;
  pass: number;
}

async function prepared(asked: Asked): Promise<Trip> {
  const { deps, request } = asked;
  const admitted = await recordedAdmission(asked);
  const reads = request.agent !== undefined && (request.wire === undefined || (deps.hooks.reads?.(agentName(request)) ?? true));
  const lazily = once(() => (typeof request.context === "function" ? request.context() : request.context));
  const context = reads ? await hooked(asked, admitted, lazily()) : undefined;
  const contextOf = context === undefined ? lazily : () => context;
  const wire = reads || deps.relay === undefined ? undefined : request.wire;
  const weight = { wire: once(() => wire?.bytes ?? jsonBytes(wire?.body)), context: once(() => jsonBytes(contextOf())) };
  return {
    ...asked,
    ...admitted,
    held: request.agent !== undefined && deps.hooks.holds?.() === true,
    ...(wire === undefined ? {} : { wire }),
    context: contextOf,
    bytes: (asWire) => (asWire ? weight.wire() : weight.context()),
    errors: new Map(),
    unanswered: false,
    state: startFallback(admitted.models.length),
    pass: 1,
  };
}

function once<T>(make: () => T): () => T {
  let made: { readonly value: T } | undefined;
  return () => (made ??= { value: make() }).value;
}

/** Who may not is written down, whichever door they came through. */
async function recordedAdmission({ deps, request }: Asked): Promise<Admitted> {
  try {
    return admit(deps, request);
  } catch (error) {
    const known = asBeigeError(error);
    const { model } = request;
    const row = rowOf(request, model === undefined ? "" : `${model.provider}/${model.id}`);
    if (known.code === "denied") await deps.audit.denied(deps.random.uuid(), { ...row, decision: "denied" }, known.message);
    throw error;
  }
}

/** Hooks may refuse the request or change its last user text; what they answer is sent, not stored. */
async function hooked({ deps, request }: Asked, { models }: Admitted, context: ChatContext): Promise<ChatContext> {
  const text = lastUserText(context);
  if (text === undefined) return context;
  const session = request.session === undefined ? {} : { session: request.session };
  const said = await deps.hooks.prePrompt({ agent: agentName(request), text, ...session });
  if (said === undefined) return context;
  if ("text" in said) return said.text === text ? context : withLastUserText(context, said.text);
  const reason = deps.secrets.redact(said.deny);
  const first = models[0];
  const tool = first === undefined ? "" : `${first.provider.metadata.name}/${first.model.id}`;
  await deps.audit.denied(deps.random.uuid(), { ...rowOf(request, tool), decision: "denied" }, reason);
  throw new BeigeError("denied", `prompt refused: ${reason}`);
}

interface Next extends Candidate {
  readonly index: number;
  readonly wire?: WireRequest;
}

/** Who is asked next, after the pause that comes before a later pass. */
async function candidateOf(trip: Trip): Promise<Next | { readonly failure: ChatFailure }> {
  const { deps, health, models, life } = trip;
  const coolingUntil = (index: number): number | undefined => {
    const { provider, model } = at(models, index);
    return health.coolingUntil(provider.metadata.name, model.id);
  };
  while (true) {
    const step = nextStep(trip.state, coolingUntil, deps.clock.now());
    if (step.next === "exhausted")
      return { failure: trip.unpaid !== undefined && !trip.unanswered ? trip.unpaid : exhausted(whose(trip), step, trip.errors) };
    trip.state = step.state;
    if (step.next === "wait") await deps.clock.sleep(step.ms, life.signal);
    else if (step.pass > trip.pass) await deps.clock.sleep(pauseMs(step.pass, deps.random.float()), life.signal);
    trip.pass = step.state.pass;
    if (step.next === "wait") continue;
    const found = at(models, step.model);
    const wire = trip.wire !== undefined && found.provider.spec.api === trip.wire.api ? cappedWire(trip.wire, found) : undefined;
    return { ...found, index: step.model, ...(wire === undefined ? {} : { wire }) };
  }
}

const whose = ({ agent, models, request }: Trip): string =>
  agent === undefined ? `${at(models, 0).provider.metadata.name}/${at(models, 0).model.id}` : `of agent '${agentName(request)}'`;

function at(models: readonly Candidate[], index: number): Candidate {
  const found = models[index];
  if (found === undefined) throw new BeigeError("internal", `no model ${index}`);
  return found;
}

const startOf = ({ provider, model, index, wire }: Next): ChatEvent => ({
  type: "start",
  provider: provider.metadata.name,
  model: model.id,
  fallback: index > 0,
  ...(wire === undefined ? {} : { wire: true }),
});

function attemptOf({ deps, request, context, bytes }: Trip, { provider, model, wire }: Next): Attempt {
  const { principal, agent, session } = request;
  const options = clamped(request.options, model);
  const key = "key" in principal ? principal.key : undefined;
  return {
    row: { ...rowOf(request, `${provider.metadata.name}/${model.id}`), model: model.id },
    provider,
    model,
    context,
    options,
    ...(wire === undefined ? {} : { wire }),
    spend: {
      call: deps.random.uuid(),
      ...(agent === undefined ? {} : { agent }),
      ...(key === undefined ? {} : { key }),
      ...(session === undefined ? {} : { session }),
    },
    weight: () => ({
      bytes: bytes(wire !== undefined),
      output: wire === undefined ? (options.maxTokens ?? model.maxTokens) : longestAnswer(wire, model),
    }),
  };
}

type Last = ChatEvent & { readonly type: "done" | "error" };

/** The last event, or nothing while somebody else may answer. */
function concluded(trip: Trip, next: Next, end: AttemptEnd): Last | undefined {
  const { deps, health } = trip;
  const { provider, model } = next;
  const { name } = provider.metadata;
  if (end.end === "answered") {
    health.answered(name, model.id);
    return { type: "done", message: end.message };
  }
  const { failure } = end;
  const verdict = judge(failure);
  const cool = verdict.next === "fallback" && verdict.coolMs !== undefined ? { coolMs: verdict.coolMs } : {};
  // What the request itself has wrong says nothing of the model.
  const faultless = failure.code !== undefined || (verdict.next === "stop" && verdict.code === "invalid");
  if (!faultless) health.failed(name, model.id, { message: failure.message, ...cool });
  if (end.end === "cut") return { type: "error", message: end.message, failure };
  // Another provider's models may be paid still; what an agent or a key has used up, none of them is.
  const unpaid = failure.budget === "provider";
  const passed = unpaid || untold(trip, next, failure);
  if (unpaid) trip.unpaid ??= stopped(next, failure, verdict.next === "stop" ? verdict.code : "exhausted");
  else trip.unanswered = true;
  if (verdict.next === "stop" && !passed) return refusal(trip, stopped(next, failure, verdict.code));
  deps.log.warn("model failed", { provider: name, model: model.id, pass: trip.pass, status: failure.status, error: failure.message });
  trip.errors.set(`${name}/${model.id}`, failure.message);
  trip.state = passed ? without(trip.state, next.index) : afterFailure(trip.state, next.index);
  return undefined;
}

/** A body that cannot be said in this provider's format may still be answered by those of its own. */
const untold = ({ wire, models }: Trip, next: Next, { code }: ChatFailure): boolean =>
  wire !== undefined && next.wire === undefined && code === "invalid" && models.some(({ provider }) => provider.spec.api === wire.api);

/** What the hooks make of an answer; nobody gets what is left of one that was cut before they read it. */
async function finished(trip: Trip, next: Next, last: Last | undefined): Promise<Last | undefined> {
  const { deps, request, held } = trip;
  if (last === undefined || request.agent === undefined) return last;
  if (last.type === "error") return held ? { ...last, message: { ...last.message, content: [] } } : last;
  const name = ({ provider, model }: Candidate): string => `${provider.metadata.name}/${model.id}`;
  const whole: Whole = { deps, request, first: name(at(trip.models, 0)), used: name(next), wire: next.wire !== undefined };
  const out = held ? await released(whole, last.message) : last;
  if (out.type === "done") afterwards(whole, out.message);
  return out.type === "done" ? out : refusal(trip, out.failure);
}
