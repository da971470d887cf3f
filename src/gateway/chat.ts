// The one road of every LLM request: hooks, models in order with fallback, one stream of events that never throws.
import { asBeigeError, BeigeError } from "../core/errors.ts";
import { answerText } from "../core/draft.ts";
import { afterFailure, nextStep, pauseMs, startFallback, type Fallback } from "../core/fallback.ts";
import { judge } from "../core/health.ts";
import { NO_USAGE } from "../core/usage.ts";
import { nsName, type Agent, type Provider } from "../core/resource.ts";
import type { Audit, AuditCall } from "../core/audit.ts";
import type { AgentId, Principal } from "../core/call.ts";
import type { AssistantMessage, ChatContext, ChatEvent, ChatFailure, ChatOptions, Llm } from "../core/chat.ts";
import type { Hooks } from "../core/plugin.ts";
import type { Clock, Directory, Log, Providers, Random, Secrets, Shelf } from "../core/world.ts";
import type { ModelFacts } from "../../schemas/types.ts";
import { runAttempt, type AttemptDeps } from "./attempt.ts";
import { createHealth, type HealthBook } from "./health.ts";
import type { Limiter } from "./limiter.ts";
import { candidatesOf, type ModelName } from "./models.ts";
import { lastUserText, withLastUserText } from "./prompt.ts";

export interface ChatRequest {
  readonly agent: AgentId;
  readonly principal: Principal;
  readonly session?: string;
  readonly context: ChatContext;
  readonly options: ChatOptions;
  /** Another model of the agent's own list goes first. */
  readonly override?: ModelName;
}

/** Never throws; ends with `done` or `error`. */
export type RunChat = (request: ChatRequest, signal: AbortSignal) => AsyncIterable<ChatEvent>;
export type Chat = RunChat & { readonly providers: Providers };

/** What chat needs of the plugins; each runner is bounded in time by whoever provides it. */
export type ChatHooks = Required<Pick<Hooks, "prePrompt" | "postResponse" | "modelSwitched">>;

export interface ChatDeps {
  readonly directory: Directory;
  readonly llm: (api: string) => Llm;
  readonly secrets: Secrets;
  readonly hooks: ChatHooks;
  readonly audit: Audit;
  readonly limiter: Limiter;
  readonly shelf: Shelf;
  readonly clock: Clock;
  readonly random: Random;
  readonly log: Log;
}

export function createChat(deps: ChatDeps): Chat {
  const health = createHealth(deps);
  const run: RunChat = (request, signal) => guarded(deps, health, { request, signal });
  return Object.assign(run, { providers: health.providers });
}

interface Asked {
  readonly request: ChatRequest;
  readonly signal: AbortSignal;
}

/** Turns whatever is thrown into the last event. */
async function* guarded(deps: ChatDeps, health: HealthBook, asked: Asked): AsyncGenerator<ChatEvent> {
  const { request, signal } = asked;
  try {
    const agent = allowed(deps.directory, request);
    const context = await hooked(deps, agent, request);
    yield* answered(deps, health, { agent, request: { ...request, context }, signal });
  } catch (error) {
    yield errorEvent(deps, request, thrown(deps, error, signal));
  }
}

function thrown(deps: ChatDeps, error: unknown, signal: AbortSignal): ChatFailure & { readonly aborted?: boolean } {
  if (signal.aborted) {
    const reason: unknown = signal.reason;
    return reason instanceof BeigeError ? { ...failureOf(reason), aborted: true } : { message: "aborted", aborted: true };
  }
  const known = asBeigeError(error);
  if (known.code === "internal") deps.log.error("chat failed", { error: deps.secrets.redact(known.stack ?? known.message) });
  return failureOf(known);
}

const failureOf = (error: BeigeError): ChatFailure => ({
  code: error.code,
  message: error.message,
  ...(error.hint === undefined ? {} : { hint: error.hint }),
  ...(error.retryAfterMs === undefined ? {} : { retryAfterMs: error.retryAfterMs }),
});

function errorEvent(deps: ChatDeps, request: ChatRequest, failed: ChatFailure & { readonly aborted?: boolean }): ChatEvent {
  const { aborted = false, ...failure } = failed;
  const message = deps.secrets.redact(failure.message);
  const model = deps.directory.agentByUid(request.agent.uid)?.spec.model;
  const blank: AssistantMessage = {
    role: "assistant",
    content: [],
    api: "beige",
    provider: model?.provider ?? "beige",
    model: model?.id ?? "none",
    usage: NO_USAGE,
    stopReason: aborted ? "aborted" : "error",
    errorMessage: message,
    timestamp: deps.clock.now(),
  };
  return { type: "error", message: blank, failure: { ...failure, message } };
}

function allowed(directory: Directory, request: ChatRequest): Agent {
  const name = nsName(request.agent.namespace, request.agent.name);
  if (request.principal.kind === "viewer") throw new BeigeError("denied", "a viewer may not use models");
  const agent = directory.agentByUid(request.agent.uid);
  if (agent === undefined) throw new BeigeError("not_found", `agent '${name}' does not exist`, { hint: "beige get agents" });
  if (agent.metadata.deletionTimestamp !== undefined) throw new BeigeError("denied", `agent '${name}' is being deleted`);
  if (agent.spec.suspend) throw new BeigeError("denied", `agent '${name}' is suspended`, { hint: "set spec.suspend: false and apply" });
  return agent;
}

const rowOf = (request: ChatRequest, tool: string): AuditCall => ({
  agent: nsName(request.agent.namespace, request.agent.name),
  type: "llm",
  tool,
  args: [],
  decision: "allowed",
  target: "provider",
  principal: request.principal.kind,
  ...(request.session === undefined ? {} : { session: request.session }),
});

/** Hooks may refuse the request or change its last user text; what they answer is sent, not stored. */
async function hooked(deps: ChatDeps, agent: Agent, request: ChatRequest): Promise<ChatContext> {
  const text = lastUserText(request.context);
  if (text === undefined) return request.context;
  const name = nsName(request.agent.namespace, request.agent.name);
  const said = await deps.hooks.prePrompt({ agent: name, text, ...(request.session === undefined ? {} : { session: request.session }) });
  if (said === undefined) return request.context;
  if ("text" in said) return said.text === text ? request.context : withLastUserText(request.context, said.text);
  const reason = deps.secrets.redact(said.deny);
  const { provider, id } = agent.spec.model;
  await deps.audit.denied(deps.random.uuid(), { ...rowOf(request, `${provider}/${id}`), decision: "denied" }, reason);
  throw new BeigeError("denied", `prompt refused: ${reason}`);
}

interface Run {
  readonly agent: Agent;
  readonly request: ChatRequest;
  readonly signal: AbortSignal;
}

interface Candidate {
  readonly provider: Provider;
  readonly model: ModelFacts;
}

async function* answered(deps: ChatDeps, health: HealthBook, run: Run): AsyncGenerator<ChatEvent> {
  const models = candidatesOf(deps.directory, run.agent, run.request.override);
  const coolingUntil = (index: number): number | undefined => {
    const { provider, model } = at(models, index);
    return health.coolingUntil(provider.metadata.name, model.id);
  };
  let state: Fallback = startFallback(models.length);
  let pass = 1;
  const errors = new Map<string, string>();
  while (true) {
    const step = nextStep(state, coolingUntil, deps.clock.now());
    if (step.next === "exhausted") throw exhausted(run.agent, step, errors);
    if (step.pass > pass) await deps.clock.sleep(pauseMs(step.pass, deps.random.float()), run.signal);
    pass = step.pass;
    const candidate = at(models, step.model);
    const end = yield* oneAttempt(deps, run, { ...candidate, fallback: step.model > 0 });
    const name = candidate.provider.metadata.name;
    if (end.end === "answered") {
      health.answered(name, candidate.model.id);
      afterwards(deps, run, { first: at(models, 0), message: end.message });
      yield { type: "done", message: end.message };
      return;
    }
    const verdict = judge(end.failure);
    if (end.failure.code === undefined) {
      health.failed(name, candidate.model.id, {
        message: end.failure.message,
        ...(verdict.next === "fallback" && verdict.coolMs !== undefined ? { coolMs: verdict.coolMs } : {}),
      });
    }
    if (end.end === "cut") {
      yield { type: "error", message: end.message, failure: end.failure };
      return;
    }
    if (verdict.next === "stop") throw stopped(candidate, end.failure, verdict.code);
    deps.log.warn("model failed", {
      provider: name,
      model: candidate.model.id,
      pass,
      status: end.failure.status,
      error: end.failure.message,
    });
    errors.set(`${name}/${candidate.model.id}`, end.failure.message);
    state = afterFailure(step.state, step.model);
  }
}

function at(models: readonly Candidate[], index: number): Candidate {
  const found = models[index];
  if (found === undefined) throw new BeigeError("internal", `no model ${index}`);
  return found;
}

async function* oneAttempt(deps: ChatDeps, run: Run, candidate: Candidate & { readonly fallback: boolean }): ReturnType<typeof runAttempt> {
  const { request, signal } = run;
  const { provider, model } = candidate;
  const inner: AttemptDeps = deps;
  const started: ChatEvent = { type: "start", provider: provider.metadata.name, model: model.id, fallback: candidate.fallback };
  const events = runAttempt(
    inner,
    {
      call: deps.random.uuid(),
      row: { ...rowOf(request, `${provider.metadata.name}/${model.id}`), model: model.id },
      provider,
      model,
      context: request.context,
      options: clamped(request.options, model),
    },
    signal,
  );
  // The provider's own start says nothing; ours names who answers.
  let first = true;
  try {
    while (true) {
      const next = await events.next();
      if (next.done === true) return next.value;
      if (first) yield started;
      first = false;
      if (next.value.type !== "start") yield next.value;
    }
  } finally {
    await events.return({ end: "failed", failure: { message: "the reader left" } });
  }
}

const clamped = (options: ChatOptions, model: ModelFacts): ChatOptions => ({
  ...options,
  thinking: model.reasoning ? options.thinking : "off",
  maxTokens: Math.min(options.maxTokens ?? model.maxTokens, model.maxTokens),
});

/** Observers: never waited for, never heard of. */
function afterwards(deps: ChatDeps, run: Run, what: { readonly first: Candidate; readonly message: AssistantMessage }): void {
  const { request } = run;
  const { message, first } = what;
  const agent = nsName(request.agent.namespace, request.agent.name);
  const who = { agent, ...(request.session === undefined ? {} : { session: request.session }) };
  const quiet = (error: unknown): void => deps.log.warn("hook failed", { error: deps.secrets.redact(String(error)) });
  const from = `${first.provider.metadata.name}/${first.model.id}`;
  const to = `${message.provider}/${message.model}`;
  deps.hooks.postResponse({ ...who, text: answerText(message), provider: message.provider, model: message.model }).catch(quiet);
  if (from !== to) deps.hooks.modelSwitched({ ...who, from, to }).catch(quiet);
}

function exhausted(
  agent: Agent,
  step: { readonly allCooling: boolean; readonly retryAfterMs?: number },
  errors: ReadonlyMap<string, string>,
): BeigeError {
  const name = nsName(agent.metadata.namespace, agent.metadata.name);
  const why = [...errors].map(([model, error]) => `${model}: ${error}`).join("; ");
  const details = step.retryAfterMs === undefined ? {} : { retryAfterMs: step.retryAfterMs };
  if (step.allCooling) {
    const seconds = Math.ceil((step.retryAfterMs ?? 0) / 1000);
    return new BeigeError("exhausted", `every model of agent '${name}' is cooling down for ${seconds} s${why === "" ? "" : ` (${why})`}`, {
      ...details,
      hint: "try again then, or add spec.fallbacks",
    });
  }
  return new BeigeError("unavailable", `no model of agent '${name}' answered (${why})`, {
    ...details,
    hint: "beige get providers -o wide",
  });
}

const HINTS: Partial<Record<string, (provider: string) => string>> = {
  denied: (provider) => `check spec.apiKey: beige describe provider ${provider}`,
  not_found: () => "check the model's id and the provider's baseUrl",
};

function stopped(candidate: Candidate, failure: ChatFailure, code: BeigeError["code"]): BeigeError {
  const name = candidate.provider.metadata.name;
  const hint = failure.hint ?? (failure.overflow === true ? "start a new session: beige prompt AGENT --new TEXT" : HINTS[code]?.(name));
  return new BeigeError(code, `${name}/${candidate.model.id}: ${failure.message}`, {
    ...(hint === undefined ? {} : { hint }),
    ...(failure.retryAfterMs === undefined ? {} : { retryAfterMs: failure.retryAfterMs }),
  });
}
