// Small pieces of text that several views share: values, times, durations, names.
import { age } from "../../core/age.ts";
import type { Ref } from "../../core/resource.ts";
import { refName } from "../../core/resource.ts";
import { clean, oneLine, type Output } from "../output.ts";

/** One value of a field on one line; long ones are cut. */
export function valueText(value: unknown, longest = 120): string {
  if (value === undefined) return "(unset)";
  const text = typeof value === "string" ? value : (JSON.stringify(value) ?? "(unset)");
  const flat = oneLine(text);
  return flat.length > longest ? `${flat.slice(0, longest - 1)}…` : flat === "" ? '""' : flat;
}

/** `0.4 s`, `21.3 s`, `5 min`. */
export const secondsText = (ms: number): string => (ms < 90_000 ? `${(ms / 1000).toFixed(1)} s` : `${Math.round(ms / 60_000)} min`);

/** How long ago on a terminal, the time itself in a pipe. */
export function whenText(out: Output, time: string, now: number): string {
  const at = Date.parse(time);
  return out.tty && Number.isFinite(at) ? age(now - at) : clean(time);
}

export const nameOf = (ref: Ref): string => clean(refName(ref));

/** Cuts at the terminal's width; never in a pipe. */
export const fit = (text: string, width: number | undefined): string =>
  width !== undefined && text.length > width && width > 1 ? `${text.slice(0, width - 1)}…` : text;

/** Replaces the symbols beyond ASCII where the locale has none. */
export const ascii = (out: Output, text: string): string =>
  out.unicode
    ? text
    : text
        .replaceAll("⇐", "<=")
        .replaceAll("→", "->")
        .replaceAll("✔", "ok")
        .replaceAll("✖", "FAIL")
        .replaceAll("…", "...")
        .replaceAll("·", "-");
