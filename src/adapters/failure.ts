// Reads a provider's refusal, whichever way it came: status, wait, words, and whether the context was too long.
import { retryAfterMs } from "../core/retry.ts";
import type { ChatFailure } from "../core/chat.ts";

export const MESSAGE_MAX = 4000;
const READ_MAX = 65_536;

/** What providers call their errors in an answer whose HTTP status says that all is well. */
const KINDS: Readonly<Record<string, number>> = {
  overloaded_error: 529,
  rate_limit_error: 429,
  rate_limit_exceeded: 429,
  insufficient_quota: 429,
  resource_exhausted: 429,
  api_error: 500,
  server_error: 500,
  internal: 500,
  unavailable: 503,
  timeout_error: 504,
  deadline_exceeded: 504,
  authentication_error: 401,
  invalid_api_key: 401,
  unauthenticated: 401,
  billing_error: 402,
  permission_error: 403,
  permission_denied: 403,
  not_found_error: 404,
  model_not_found: 404,
  not_found: 404,
  request_too_large: 413,
  context_length_exceeded: 400,
  invalid_prompt: 400,
  invalid_request_error: 400,
  invalid_argument: 400,
};

const TOO_LONG =
  /context[_ ]?length[_ ]?exceeded|context[_ ]window|maximum (?:context|prompt) length|prompt (?:is )?too long|request_too_large|input (?:is )?too long|input token count.{0,60}exceeds|too many (?:input )?tokens|reduce the length of|context size|than the (?:model'?s )?context length/i;
const RATE = /rate[ _-]?limit|too many requests|quota/i;

/** Whether a refusal says that what was sent is longer than the model reads. */
export const overflows = (status: number | undefined, words: string): boolean =>
  status === 413 || ((status === undefined || status === 400 || status === 422) && TOO_LONG.test(words) && !RATE.test(words));

type Json = Readonly<Record<string, unknown>>;
const isObject = (value: unknown): value is Json => typeof value === "object" && value !== null && !Array.isArray(value);

/** The innermost object that describes the error: some wrap it in `response`, some in a list. */
function inner(json: unknown): unknown {
  const one: unknown = Array.isArray(json) ? json[0] : json;
  if (!isObject(one)) return one;
  const response = one["response"];
  return one["error"] ?? (isObject(response) ? response["error"] : undefined) ?? one;
}

const parsed = (text: string): unknown => {
  try {
    return JSON.parse(text.slice(0, READ_MAX)) as unknown;
  } catch {
    return undefined;
  }
};

function statusOf(error: unknown): number | undefined {
  if (!isObject(error)) return undefined;
  const told = [error["code"], error["status"], error["status_code"], error["type"]];
  for (const one of told) {
    const code = typeof one === "number" || (typeof one === "string" && /^\d{3}$/.test(one)) ? Number(one) : 0;
    if (code >= 400 && code <= 599) return code;
  }
  for (const one of told) {
    const key = typeof one === "string" ? one.toLowerCase() : "";
    if (Object.hasOwn(KINDS, key)) return KINDS[key];
  }
  return undefined;
}

function wordsOf(error: unknown, text: string): string {
  const message = isObject(error) ? error["message"] : error;
  return (typeof message === "string" && message !== "" ? message : text).slice(0, MESSAGE_MAX);
}

/** Status and wait that an error inside an answer names, if it is one that can be read. */
export function toldIn(text: string, nowMs: number): Pick<ChatFailure, "status" | "retryAfterMs"> {
  const status = statusOf(inner(parsed(text)));
  const wait = retryAfterMs({ get: () => null }, text, nowMs);
  return { ...(status === undefined ? {} : { status }), ...(wait === undefined ? {} : { retryAfterMs: wait }) };
}

/** An error event, or a whole answer of status 200 that is one. */
export function errorInside(text: string, nowMs: number): ChatFailure {
  const told = toldIn(text, nowMs);
  const error = inner(parsed(text));
  const kind = isObject(error) ? `${JSON.stringify([error["code"], error["type"]])} ` : "";
  const message = wordsOf(error, text);
  return { ...told, message, ...(overflows(told.status, kind + message) ? { overflow: true } : {}) };
}

export interface Refusal {
  readonly status: number;
  readonly headers: { get(name: string): string | null };
  readonly body: string;
}

/** An answer with a status of its own. */
export function refusalOf({ status, headers, body }: Refusal, nowMs: number): ChatFailure {
  const wait = retryAfterMs(headers, body, nowMs);
  const words = wordsOf(inner(parsed(body)), body).trim();
  return {
    status,
    message: `${status}${words === "" ? "" : `: ${words}`}`.slice(0, MESSAGE_MAX),
    ...(wait === undefined ? {} : { retryAfterMs: wait }),
    ...(overflows(status, body) ? { overflow: true } : {}),
  };
}
