// Errors as HTTP answers: a Kubernetes Status that also carries our own error as data.
import { asBeigeError, BeigeError, ERRORS, type ErrorCode, type Problem } from "../core/errors.ts";

/** A refusal that only HTTP knows: it has a status code and reason word of its own. */
export class Refusal extends BeigeError {
  readonly http: number;
  readonly reason: string;
  // eslint-disable-next-line max-params -- status, word, sentence, mend: read in this order everywhere
  constructor(http: number, reason: string, message: string, hint?: string, retryAfterMs?: number) {
    super(codeOf(http), message, { ...(hint === undefined ? {} : { hint }), ...(retryAfterMs === undefined ? {} : { retryAfterMs }) });
    this.name = "Refusal";
    this.http = http;
    this.reason = reason;
  }
}

const codeOf = (http: number): ErrorCode =>
  http === 401 || http === 403 || http === 421
    ? "denied"
    : http === 404
      ? "not_found"
      : http === 410
        ? "conflict"
        : http === 503
          ? "unavailable"
          : http === 429
            ? "exhausted"
            : "invalid";

/** Any error as a refusal, for requests that reach no route. */
export function refusalOf(thrown: unknown): Refusal {
  const error = shownError(thrown);
  if (error instanceof Refusal) return error;
  const { http, reason } = ERRORS[error.code];
  return new Refusal(http, reason, error.message, error.hint, error.retryAfterMs);
}

export const badRequest = (message: string, hint?: string): Refusal => new Refusal(400, "BadRequest", message, hint);

export interface Cause {
  readonly reason: string;
  readonly message: string;
  readonly field: string;
}

/** meta.k8s.io/v1 Status. `error` is our addition: the whole BeigeError, for clients that know it. */
export interface Status {
  readonly kind: "Status";
  readonly apiVersion: "v1";
  readonly metadata: object;
  readonly status: "Success" | "Failure";
  readonly message?: string;
  readonly reason?: string;
  readonly details?: Readonly<Record<string, unknown>>;
  readonly code: number;
  readonly error?: {
    readonly code: ErrorCode;
    readonly message: string;
    readonly hint?: string;
    readonly retryAfterMs?: number;
    readonly problems?: readonly Problem[];
  };
}

/** Where an error happened, for details.name and details.kind. */
export interface Place {
  readonly name?: string;
  readonly plural?: string;
  /** A POST to a collection: a conflict means that the object is there already. */
  readonly creating?: boolean;
  /** A read has no object that could be invalid: the request itself is wrong. */
  readonly reading?: boolean;
}

export function failure(thrown: unknown, place: Place = {}): Status {
  const error = shownError(thrown);
  const { http, reason } = error instanceof Refusal ? error : wire(error.code, place, error.problems.length);
  return {
    kind: "Status",
    apiVersion: "v1",
    metadata: {},
    status: "Failure",
    // Clients of Kubernetes show nothing else.
    message: error.hint === undefined ? error.message : `${error.message}; ${error.hint}`,
    reason,
    details: details(error, place),
    code: http,
    error: {
      code: error.code,
      message: error.message,
      ...(error.hint !== undefined && { hint: error.hint }),
      ...(error.retryAfterMs !== undefined && { retryAfterMs: error.retryAfterMs }),
      ...(error.problems.length > 0 && { problems: error.problems }),
    },
  };
}

function wire(code: ErrorCode, place: Place, problems: number): { readonly http: number; readonly reason: string } {
  if (code === "conflict" && place.creating === true) return { http: 409, reason: "AlreadyExists" };
  // Of an invalid object clients show the fields alone: without any, the sentence would be lost.
  if (code === "invalid" && (place.reading === true || problems === 0)) return { http: 400, reason: "BadRequest" };
  return ERRORS[code];
}

/** What was thrown by accident may hold anything: its text goes to the log, never to a client. */
export function shownError(thrown: unknown): BeigeError {
  if (thrown instanceof BeigeError) return thrown;
  const http = frameworkStatus(thrown);
  if (http === 413) return new Refusal(413, "RequestEntityTooLarge", "the request body is too large");
  if (http === 414) return new Refusal(414, "RequestURITooLong", "a part of the path is too long");
  if (http === 415) return new Refusal(415, "UnsupportedMediaType", "this content type is not understood", "send application/json");
  if (http !== undefined) return badRequest("the request could not be read");
  return new BeigeError("internal", "the gateway failed on this request", { hint: "beige gateway logs", cause: thrown });
}

/** Status below 500 that the HTTP framework put on an error of its own. */
function frameworkStatus(thrown: unknown): number | undefined {
  if (!(thrown instanceof Error) || !("code" in thrown) || !("statusCode" in thrown)) return undefined;
  const { code, statusCode } = thrown;
  if (typeof code !== "string" || !code.startsWith("FST_") || typeof statusCode !== "number") return undefined;
  return statusCode >= 400 && statusCode < 500 ? statusCode : undefined;
}

function details(error: BeigeError, place: Place): Readonly<Record<string, unknown>> {
  const reason = error.code === "conflict" ? "FieldManagerConflict" : "FieldValueInvalid";
  const causes: readonly Cause[] = error.problems.map((p) => ({ reason, message: p.message, field: fieldPath(p.path ?? "", error.code) }));
  return {
    ...(place.name !== undefined && { name: place.name }),
    ...(place.plural !== undefined && { group: "beige.dev", kind: place.plural }),
    ...(causes.length > 0 && { causes }),
    ...(error.retryAfterMs !== undefined && { retryAfterSeconds: retryAfterSeconds(error.retryAfterMs) }),
  };
}

export const retryAfterSeconds = (ms: number): number => Math.max(1, Math.ceil(ms / 1000));

/** /spec/tools/0 as spec.tools[0]; conflicts start with a dot, as Kubernetes writes them. */
function fieldPath(pointer: string, code: ErrorCode): string {
  if (!pointer.startsWith("/")) return pointer;
  let out = "";
  for (const part of pointer.slice(1).split("/")) {
    const name = part.replaceAll("~1", "/").replaceAll("~0", "~");
    if (/^\d+$/.test(name)) out += `[${name}]`;
    else if (/^[A-Za-z_][\w-]*$/.test(name)) out += `.${name}`;
    else out += `[${name}]`;
  }
  return code === "conflict" ? out : out.replace(/^\./, "");
}

/** Whether this is a bug of ours that the log must have. */
export const isInternal = (thrown: unknown): boolean =>
  !(thrown instanceof Refusal) && asBeigeError(thrown).code === "internal" && frameworkStatus(thrown) === undefined;
