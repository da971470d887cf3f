// What is known of one physical model from its traffic: its cooldown and its failures. Pure.
import type { ChatFailure } from "./chat.ts";
import type { ErrorCode } from "./errors.ts";

/** After an HTTP 429 that names no time. */
export const HARD_COOLDOWN_MS = 5 * 60_000;
/** After words of a rate limit without a 429. */
export const SOFT_COOLDOWN_MS = 60_000;
const ERROR_MAX = 300;

export interface Health {
  /** Milliseconds since the epoch; every session skips the model until then. */
  readonly coolingUntil?: number;
  /** Failures since the last answer, over all sessions. */
  readonly failures: number;
  readonly lastError?: string;
}

export const HEALTHY: Health = { failures: 0 };

/** What a failure means for the request and for everybody else. */
export type Verdict =
  /** Another model, or another pass, may answer; `coolMs` keeps everybody away from this one. */
  | { readonly next: "fallback"; readonly coolMs?: number }
  /** No other try would help: the request or the configuration is wrong. */
  | { readonly next: "stop"; readonly code: ErrorCode };

const RATE = /rate[ _-]?limit|too[ _-]many[ _-]requests/i;
const STATUS_CODES: Readonly<Record<number, ErrorCode>> = { 401: "denied", 402: "exhausted", 403: "denied", 404: "not_found" };
/** 409 among them: no request of ours names a thing that another could hold, so providers say it of a lock or a model that is being moved. */
const FALLS_BACK: ReadonlySet<number> = new Set([408, 409, 425]);

/** Status table: 408, 409, 425, 429, 5xx and the network fall back; other 4xx and overflow never do. */
export function judge(failure: ChatFailure): Verdict {
  if (failure.code !== undefined) return { next: "stop", code: failure.code };
  if (failure.overflow === true) return { next: "stop", code: "invalid" };
  const status = failure.status;
  if (status === 429) return { next: "fallback", coolMs: failure.retryAfterMs ?? HARD_COOLDOWN_MS };
  if (status !== undefined && status >= 300 && status < 500 && !FALLS_BACK.has(status)) {
    return { next: "stop", code: STATUS_CODES[status] ?? "invalid" };
  }
  // Overloaded, at capacity, temporarily unavailable, cut off: this moment's trouble, which keeps nobody else away.
  if (RATE.test(failure.message)) return { next: "fallback", coolMs: failure.retryAfterMs ?? SOFT_COOLDOWN_MS };
  return { next: "fallback" };
}

export const cooling = (health: Health, nowMs: number): number | undefined =>
  health.coolingUntil !== undefined && health.coolingUntil > nowMs ? health.coolingUntil : undefined;

/** A cooldown never shrinks: a shorter one that comes later changes nothing. */
export function failed(health: Health, failure: { readonly message: string; readonly coolMs?: number }, nowMs: number): Health {
  const until = failure.coolMs === undefined ? undefined : nowMs + failure.coolMs;
  const kept = cooling(health, nowMs);
  const coolingUntil = until === undefined ? kept : Math.max(until, kept ?? 0);
  return {
    failures: health.failures + 1,
    lastError: failure.message.slice(0, ERROR_MAX),
    ...(coolingUntil === undefined ? {} : { coolingUntil }),
  };
}

/** An answer forgets the failures; a cooldown that another request was told stays. */
export function answered(health: Health, nowMs: number): Health {
  const until = cooling(health, nowMs);
  return until === undefined ? HEALTHY : { failures: 0, coolingUntil: until };
}

/** A stored row; what does not fit is forgotten. */
export function parseHealth(text: string, nowMs: number): Health {
  try {
    const row = JSON.parse(text) as Partial<Record<keyof Health, unknown>>;
    const until = typeof row.coolingUntil === "number" && Number.isFinite(row.coolingUntil) ? row.coolingUntil : undefined;
    return {
      failures: typeof row.failures === "number" && row.failures >= 0 ? Math.floor(row.failures) : 0,
      ...(until === undefined || until <= nowMs ? {} : { coolingUntil: until }),
      ...(typeof row.lastError === "string" ? { lastError: row.lastError.slice(0, ERROR_MAX) } : {}),
    };
  } catch {
    return HEALTHY;
  }
}
