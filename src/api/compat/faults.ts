// Errors on their way out of the compatible endpoints: which path speaks which format, and what each error becomes there.
import type { ChatFailure } from "../../core/chat.ts";
import { BeigeError, ERRORS } from "../../core/errors.ts";
import { Refusal, retryAfterSeconds, shownError } from "../status.ts";
import { anthropic } from "./anthropic/format.ts";
import { chat } from "./chat/format.ts";
import type { Fault, Format } from "./format.ts";
import { responses } from "./responses/format.ts";

export const FORMATS: Readonly<Record<string, Format>> = {
  "/v1/chat/completions": chat,
  "/v1/responses": responses,
  "/v1/messages": anthropic,
};

/** What the road said instead of an answer. */
export class RoadFault extends BeigeError {
  readonly overflow: boolean;
  /** A budget is used up: trying again later is no use today. */
  readonly quota: boolean;
  constructor(failure: ChatFailure) {
    super(failure.code ?? "unavailable", failure.partial === true ? `the answer was cut: ${failure.message}` : failure.message, {
      ...(failure.hint !== undefined && { hint: failure.hint }),
      ...(failure.retryAfterMs !== undefined && { retryAfterMs: failure.retryAfterMs }),
    });
    this.name = "RoadFault";
    this.overflow = failure.overflow === true;
    this.quota = failure.budget !== undefined;
  }
}

export function faultOf(thrown: unknown): Fault {
  const error = shownError(thrown);
  // Clients of these formats know 400 for whatever is wrong with a request.
  const http = error instanceof Refusal ? error.http : error.code === "invalid" ? 400 : ERRORS[error.code].http;
  const quota = error instanceof RoadFault && error.quota;
  return {
    http,
    quota,
    message: error.hint === undefined ? error.message : `${error.message} (${error.hint})`,
    overflow: error instanceof RoadFault && error.overflow,
    code: error.code,
    ...(error.retryAfterMs !== undefined && { retryAfterMs: error.retryAfterMs }),
  };
}

const formatAt = (url: string): Format | undefined => {
  if (!url.startsWith("/v1/")) return undefined;
  const path = url.split("?", 1)[0] ?? "";
  return Object.hasOwn(FORMATS, path) ? FORMATS[path] : path.startsWith("/v1/messages") ? anthropic : chat;
};

export interface FaultAnswer {
  readonly http: number;
  readonly headers: Readonly<Record<string, string>>;
  readonly body: object;
}

/** The answer to a request below /v1 that failed before its own answer had begun; undefined elsewhere. */
export function faultAnswer(url: string, thrown: unknown): FaultAnswer | undefined {
  const format = formatAt(url);
  if (format === undefined) return undefined;
  const fault = faultOf(thrown);
  // Every model was asked as often as makes sense already: a client's own retries would only multiply that.
  const retried = fault.http === 429 || fault.http >= 500;
  return {
    http: format.httpOf?.(fault) ?? fault.http,
    headers: {
      ...(fault.retryAfterMs !== undefined && { "retry-after": String(retryAfterSeconds(fault.retryAfterMs)) }),
      ...(retried && { "x-should-retry": "false" }),
    },
    body: format.fault(fault),
  };
}
