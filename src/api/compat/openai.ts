// OpenAI's error object, which its two formats share.
import type { Fault } from "./format.ts";

/** As of an account without means: its type and its code. */
const QUOTA = "insufficient_quota";

/** What clients tell errors apart by. */
export function openaiFault(fault: Fault): object {
  return { error: { message: fault.message, type: fault.quota ? QUOTA : typeOf(fault.http), param: null, code: codeOf(fault) } };
}

function typeOf(http: number): string {
  if (http === 401) return "authentication_error";
  if (http === 403) return "permission_error";
  if (http === 429) return "rate_limit_error";
  return http >= 500 ? "server_error" : "invalid_request_error";
}

export function codeOf({ http, overflow, quota }: Fault): string | null {
  if (quota) return QUOTA;
  if (overflow) return "context_length_exceeded";
  if (http === 401) return "invalid_api_key";
  if (http === 404) return "model_not_found";
  if (http === 429) return "rate_limit_exceeded";
  return http >= 500 ? "server_error" : null;
}
