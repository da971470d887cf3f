// Which model is asked next: three passes over the ordered list. Pure.

export const PASSES = 3;
/** Consecutive failures in one request after which a model is out of it. */
export const FAILURES_MAX = 3;
const PAUSE_MS = 500;
const PAUSE_MAX_MS = 4000;
/** The end of a cooldown is waited for when it is this near and nobody else is left; a longer one ends the request at once. */
export const WAIT_MAX_MS = 5000;

export interface Fallback {
  /** From 1. */
  readonly pass: number;
  /** Where in the list the pass stands. */
  readonly position: number;
  /** Consecutive failures in this request, by model. */
  readonly failures: readonly number[];
}

export const startFallback = (models: number): Fallback => ({
  pass: 1,
  position: 0,
  failures: Array.from({ length: models }, () => 0),
});

export type Step =
  /** `pass` tells the caller to pause when it has grown since the last attempt. */
  | { readonly next: "attempt"; readonly model: number; readonly pass: number; readonly state: Fallback }
  /** Nobody may be asked now, but somebody soon: that costs a pass. */
  | { readonly next: "wait"; readonly ms: number; readonly state: Fallback }
  /** `allCooling`: a time is known; `retryAfterMs` is the soonest end of a cooldown, if there is any. */
  | { readonly next: "exhausted"; readonly allCooling: boolean; readonly retryAfterMs?: number };

/** The next attempt. `coolingUntil` is asked at each visit, since other requests change it meanwhile. */
export function nextStep(state: Fallback, coolingUntil: (model: number) => number | undefined, nowMs: number): Step {
  for (let { pass, position } = state; pass <= PASSES; pass++, position = 0) {
    for (; position < state.failures.length; position++) {
      const out = (state.failures[position] ?? 0) >= FAILURES_MAX || (coolingUntil(position) ?? 0) > nowMs;
      if (!out) return { next: "attempt", model: position, pass, state: { ...state, pass, position: position + 1 } };
    }
  }
  return soon(state, coolingUntil, nowMs) ?? exhausted(state, coolingUntil, nowMs);
}

function soon(state: Fallback, coolingUntil: (model: number) => number | undefined, nowMs: number): Step | undefined {
  if (state.pass >= PASSES) return undefined;
  const left = state.failures.flatMap((count, model) => (count >= FAILURES_MAX ? [] : [(coolingUntil(model) ?? nowMs) - nowMs]));
  const ms = Math.min(...left);
  return ms > 0 && ms <= WAIT_MAX_MS ? { next: "wait", ms, state: { ...state, pass: state.pass + 1, position: 0 } } : undefined;
}

function exhausted(state: Fallback, coolingUntil: (model: number) => number | undefined, nowMs: number): Step {
  const ends = state.failures.map((_, model) => coolingUntil(model) ?? 0).filter((until) => until > nowMs);
  const allCooling = ends.length > 0 && ends.length === state.failures.length;
  return { next: "exhausted", allCooling, ...(ends.length === 0 ? {} : { retryAfterMs: Math.min(...ends) - nowMs }) };
}

export const afterFailure = (state: Fallback, model: number): Fallback => ({
  ...state,
  failures: state.failures.map((count, index) => (index === model ? count + 1 : count)),
});

/** Not asked again in this request. */
export const without = (state: Fallback, model: number): Fallback => ({
  ...state,
  failures: state.failures.map((count, index) => (index === model ? FAILURES_MAX : count)),
});

/** How long to wait before a pass, with jitter: `random` in [0, 1). The first pass waits for nothing. */
export const pauseMs = (pass: number, random: number): number =>
  pass <= 1 ? 0 : Math.round(Math.min(PAUSE_MAX_MS, PAUSE_MS * 2 ** (pass - 2)) * (0.5 + random / 2));
