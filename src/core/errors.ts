// The one table of errors: what each code means to the command line, to HTTP and to the engine.

export interface ErrorClass {
  readonly exit: number;
  readonly http: number;
  /** The word in a Kubernetes Status object. */
  readonly reason: string;
  readonly engine: "settle" | "backoff" | "wait";
}

export const ERRORS = {
  invalid: { exit: 2, http: 422, reason: "Invalid", engine: "settle" },
  not_found: { exit: 1, http: 404, reason: "NotFound", engine: "settle" },
  conflict: { exit: 3, http: 409, reason: "Conflict", engine: "settle" },
  denied: { exit: 4, http: 403, reason: "Forbidden", engine: "settle" },
  unavailable: { exit: 5, http: 503, reason: "ServiceUnavailable", engine: "backoff" },
  exhausted: { exit: 8, http: 429, reason: "TooManyRequests", engine: "wait" },
  timeout: { exit: 6, http: 504, reason: "Timeout", engine: "backoff" },
  internal: { exit: 70, http: 500, reason: "InternalError", engine: "backoff" },
} as const satisfies Record<string, ErrorClass>;

export type ErrorCode = keyof typeof ERRORS;

/** Where in a manifest; line and column count from 1. */
export interface Position {
  readonly file: string;
  readonly line: number;
  readonly column: number;
  /** Which document of the file, from 1; empty documents count. */
  readonly document?: number;
}

/** One thing that is wrong with a manifest or a request. */
export interface Problem {
  /** Lower case: what failed on what. */
  readonly message: string;
  /** RFC 6901 pointer into the object, such as /spec/tools/0. */
  readonly path?: string;
  readonly at?: Position;
  /** `Kind/name` where known. */
  readonly object?: string;
  /** "did you mean", or the line or command that mends it. */
  readonly hint?: string;
  /** The source line that `at` points into, for a caret. */
  readonly line?: string;
}

export interface ErrorDetails {
  readonly hint?: string;
  readonly at?: Position;
  readonly retryAfterMs?: number;
  readonly problems?: readonly Problem[];
  readonly cause?: unknown;
}

export class BeigeError extends Error {
  readonly code: ErrorCode;
  readonly hint?: string;
  readonly at?: Position;
  readonly retryAfterMs?: number;
  readonly problems: readonly Problem[];
  constructor(code: ErrorCode, message: string, details: ErrorDetails = {}) {
    super(message, details.cause === undefined ? undefined : { cause: details.cause });
    this.name = "BeigeError";
    this.code = code;
    this.problems = details.problems ?? [];
    if (details.hint !== undefined) this.hint = details.hint;
    if (details.at !== undefined) this.at = details.at;
    if (details.retryAfterMs !== undefined) this.retryAfterMs = details.retryAfterMs;
  }
}

/** Anything thrown, as a BeigeError: what has no code is `internal`. */
export function asBeigeError(error: unknown): BeigeError {
  if (error instanceof BeigeError) return error;
  return new BeigeError("internal", error instanceof Error ? error.message : String(error), { cause: error });
}
