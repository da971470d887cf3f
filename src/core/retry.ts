// Reads from a provider's refusal how long it wants to be left alone. Pure.

/** Nobody is locked out for longer, whatever a provider says. */
export const RETRY_AFTER_MAX_MS = 24 * 3_600_000;
const BODY_MAX = 65_536;
const DEPTH_MAX = 6;

const SECONDS = /^\s*\d{1,15}(\.\d{1,9})?(\s*,\s*\d{1,15}(\.\d{1,9})?)*\s*$/;
const DATE = /^\s*(Mon|Tue|Wed|Thu|Fri|Sat|Sun)[a-z]*,? /;
const ISO = /^\s*\d{4}-\d{2}-\d{2}T/;

const capped = (ms: number): number | undefined =>
  Number.isFinite(ms) && ms >= 0 ? Math.min(Math.ceil(ms), RETRY_AFTER_MAX_MS) : undefined;

/** The largest of a header that was sent several times and joined. */
const largest = (text: string): number => Math.max(...text.split(",").map((part) => Number(part.trim())));

/** Seconds, an HTTP date or an RFC 3339 time. A moment that has passed is 0. */
function fromText(text: string, nowMs: number, unitMs: number): number | undefined {
  if (SECONDS.test(text)) return capped(largest(text) * unitMs);
  if (!DATE.test(text) && !ISO.test(text)) return undefined;
  const at = Date.parse(text);
  return Number.isNaN(at) ? undefined : capped(Math.max(0, at - nowMs));
}

/** Words such as `17s`, `6m0s`, `1h2m`, `250ms`. */
function fromDuration(text: string): number | undefined {
  const whole = /^\s*(?:(\d{1,6})h)?(?:(\d{1,7})m(?!s))?(?:(\d{1,9}(?:\.\d{1,9})?)s)?(?:(\d{1,12}(?:\.\d{1,9})?)ms)?\s*$/.exec(text);
  if (whole === null || whole.slice(1).every((part) => part === undefined)) return undefined;
  const [hours = 0, minutes = 0, seconds = 0, ms = 0] = whole.slice(1).map((part) => (part === undefined ? 0 : Number(part)));
  return capped(hours * 3_600_000 + minutes * 60_000 + seconds * 1000 + ms);
}

const FIELDS: Readonly<Record<string, number>> = {
  retry_after_ms: 1,
  retryafterms: 1,
  "retry-after-ms": 1,
  retry_after_seconds: 1000,
  retryafterseconds: 1000,
  retry_after: 1000,
  retryafter: 1000,
  "retry-after": 1000,
  retrydelay: 1000,
  retry_delay: 1000,
};

const fieldMs = (value: unknown, unitMs: number, nowMs: number): number | undefined => {
  if (typeof value === "number") return capped(value * unitMs);
  if (typeof value !== "string") return undefined;
  return fromText(value, nowMs, unitMs) ?? fromDuration(value);
};

/** The longest wait that any known field of the body names. */
function fromBody(value: unknown, nowMs: number, depth: number): number | undefined {
  if (depth > DEPTH_MAX || typeof value !== "object" || value === null) return undefined;
  let found: number | undefined;
  for (const [key, inner] of Object.entries(value)) {
    const unit = Object.hasOwn(FIELDS, key.toLowerCase()) ? FIELDS[key.toLowerCase()] : undefined;
    const ms = (unit === undefined ? undefined : fieldMs(inner, unit, nowMs)) ?? fromBody(inner, nowMs, depth + 1);
    if (ms !== undefined && (found === undefined || ms > found)) found = ms;
  }
  return found;
}

function fromSentence(body: string): number | undefined {
  const match =
    /\b(?:try again|retry(?:ing)?)\s+(?:in|after)\s+(\d{1,9}(?:\.\d{1,6})?)\s*(ms|milliseconds?|s|sec(?:onds?)?|m|min(?:utes?)?)\b/i.exec(
      body,
    );
  if (match === null) return undefined;
  const unit = (match[2] ?? "s").toLowerCase();
  const unitMs = unit === "ms" || unit.startsWith("milli") ? 1 : unit.startsWith("s") ? 1000 : 60_000;
  return capped(Number(match[1]) * unitMs);
}

/**
 * Milliseconds to wait, from `retry-after-ms`, `retry-after` (seconds or a date), fields of a JSON body,
 * or a sentence of it; undefined when nothing says. Between 0 and 24 h.
 */
export function retryAfterMs(headers: { get(name: string): string | null }, body: string, nowMs: number): number | undefined {
  for (const name of ["retry-after-ms", "x-ms-retry-after-ms"]) {
    const text = headers.get(name);
    const ms = text === null ? undefined : fromText(text, nowMs, 1);
    if (ms !== undefined) return ms;
  }
  const header = headers.get("retry-after");
  const ms = header === null ? undefined : (fromText(header, nowMs, 1000) ?? fromDuration(header));
  if (ms !== undefined) return ms;
  const text = body.slice(0, BODY_MAX);
  try {
    const named = fromBody(JSON.parse(text) as unknown, nowMs, 0);
    if (named !== undefined) return named;
  } catch {
    // Not JSON: a sentence may still say it.
  }
  return fromSentence(text);
}
