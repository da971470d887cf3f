// Durations as people type them: `90s`, `5m`, `1h30m`, `250ms`; a bare number is seconds.
import { BeigeError } from "../core/errors.ts";

const UNIT_MS: Readonly<Record<string, number>> = { ms: 1, s: 1000, m: 60_000, h: 3_600_000, d: 86_400_000 };
/** The longest that a timer and the gateway take. */
const MAX_MS = 86_400_000;

export function milliseconds(text: string, flag: string, max = MAX_MS): number {
  const whole = /^\d{1,9}$/.test(text) ? `${text}s` : text;
  const parts = [...whole.matchAll(/(\d{1,9})(ms|s|m|h|d)/g)];
  const ms = parts.reduce((sum, part) => sum + Number(part[1]) * (UNIT_MS[part[2] ?? ""] ?? 0), 0);
  if (parts.length === 0 || parts.map((part) => part[0]).join("") !== whole) {
    throw new BeigeError("invalid", `${flag} "${text}" is not a duration`, { hint: `${flag} 90s, 5m or 1h30m` });
  }
  if (ms > max) throw new BeigeError("invalid", `${flag} ${text} is longer than ${Math.round(max / 3_600_000)} h`);
  return ms;
}

/** A whole number from 1. */
export function positive(text: string, flag: string, max: number): number {
  const value = Number(text);
  if (!/^\d{1,9}$/.test(text) || value < 1 || value > max)
    throw new BeigeError("invalid", `${flag} is a number from 1 to ${max}, not "${text}"`);
  return value;
}
