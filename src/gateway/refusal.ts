// Why a request got no answer, in words: nobody is left, no other try would help, or the gateway itself refused.
import { asBeigeError, BeigeError, type ErrorCode } from "../core/errors.ts";
import { NO_USAGE } from "../core/usage.ts";
import type { AssistantMessage, ChatEvent, ChatFailure } from "../core/chat.ts";
import type { RoadRequest } from "../core/road.ts";
import type { Clock, Directory, Log, Secrets } from "../core/world.ts";
import type { Candidate } from "./models.ts";

const failureOf = (error: BeigeError): ChatFailure => ({
  code: error.code,
  message: error.message,
  ...(error.hint === undefined ? {} : { hint: error.hint }),
  ...(error.retryAfterMs === undefined ? {} : { retryAfterMs: error.retryAfterMs }),
});

/** `whose`: of agent 'dev', or the one model that was asked for. */
export function exhausted(
  whose: string,
  step: { readonly allCooling: boolean; readonly retryAfterMs?: number },
  errors: ReadonlyMap<string, string>,
): ChatFailure {
  const why = [...errors].map(([model, error]) => `${model}: ${error}`).join("; ");
  const wait = step.retryAfterMs === undefined ? {} : { retryAfterMs: step.retryAfterMs };
  if (step.allCooling) {
    const seconds = Math.ceil((step.retryAfterMs ?? 0) / 1000);
    const message = `every model ${whose} is cooling down for ${seconds} s${why === "" ? "" : ` (${why})`}`;
    return { ...wait, code: "exhausted", message, hint: "try again then, or add spec.fallbacks" };
  }
  return { ...wait, code: "unavailable", message: `no model ${whose} answered (${why})`, hint: "beige get providers -o wide" };
}

const HINTS: Partial<Record<ErrorCode, (provider: string) => string>> = {
  denied: (provider) => `check spec.apiKey: beige describe provider ${provider}`,
  not_found: () => "check the model's id and the provider's baseUrl",
};

/** What the provider said stays with it: its status, and that the context was too long. */
export function stopped(candidate: Candidate, failure: ChatFailure, code: ErrorCode): ChatFailure {
  const name = candidate.provider.metadata.name;
  const hint = failure.hint ?? (failure.overflow === true ? "start a new session: beige prompt AGENT --new TEXT" : HINTS[code]?.(name));
  const { status, retryAfterMs, overflow, budget } = failure;
  return {
    code,
    message: `${name}/${candidate.model.id}: ${failure.message}`,
    ...(hint === undefined ? {} : { hint }),
    ...(status === undefined ? {} : { status }),
    ...(retryAfterMs === undefined ? {} : { retryAfterMs }),
    ...(overflow === true ? { overflow } : {}),
    ...(budget === undefined ? {} : { budget }),
  };
}

interface RefusalDeps {
  readonly directory: Directory;
  readonly secrets: Secrets;
  readonly clock: Clock;
  readonly log: Log;
}

/** Whatever was thrown on the road; after an abort its reason. */
export function thrown({ log, secrets }: RefusalDeps, error: unknown, life: AbortSignal): ChatFailure {
  if (life.aborted) {
    const reason: unknown = life.reason;
    return reason instanceof BeigeError ? failureOf(reason) : { message: "aborted" };
  }
  const known = asBeigeError(error);
  if (known.code === "internal") log.error("chat failed", { error: secrets.redact(known.stack ?? known.message) });
  return failureOf(known);
}

interface Refused {
  readonly deps: RefusalDeps;
  readonly request: RoadRequest;
}

/** The last event of a request that nobody answered. */
export function refusal({ deps, request }: Refused, failure: ChatFailure, aborted = false): ChatEvent & { readonly type: "error" } {
  const message = deps.secrets.redact(failure.message);
  const first = request.agent === undefined ? request.model : deps.directory.agentByUid(request.agent.uid)?.spec.model;
  const blank: AssistantMessage = {
    role: "assistant",
    content: [],
    api: "beige",
    provider: first?.provider ?? "beige",
    model: first?.id ?? "none",
    usage: NO_USAGE,
    stopReason: aborted ? "aborted" : "error",
    errorMessage: message,
    timestamp: deps.clock.now(),
  };
  return { type: "error", message: blank, failure: { ...failure, message } };
}
