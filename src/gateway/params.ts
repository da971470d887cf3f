// Reads the named parameters of a core tool: each checked and bounded, none that the tool does not know.
import type { CoreTool } from "../core/call.ts";
import { BeigeError } from "../core/errors.ts";

export type Params = Readonly<Record<string, unknown>>;

const SHOWN_MAX = 3;
const NAME_CHARS_MAX = 60;

export const wrong = (tool: CoreTool, field: string, wanted: string): BeigeError =>
  new BeigeError("invalid", `${tool}: ${field} must be ${wanted}`);

/** A parameter that would be passed over in silence is refused: whoever gives it counts on it. */
export function onlyKnown(tool: CoreTool, params: Params, known: readonly string[]): void {
  const strange = Object.keys(params).filter((key) => params[key] !== undefined && !known.includes(key));
  if (strange.length === 0) return;
  const names = strange.slice(0, SHOWN_MAX).map((name) => JSON.stringify(name.slice(0, NAME_CHARS_MAX)));
  const more = strange.length > SHOWN_MAX ? ` and ${strange.length - SHOWN_MAX} more` : "";
  throw new BeigeError("invalid", `${tool} does not know ${names.join(", ")}${more}: its parameters are ${known.join(", ")}`);
}

export interface Bound {
  readonly maxBytes: number;
}

export function textOf(tool: CoreTool, params: Params, field: string, { maxBytes }: Bound): string {
  const value = params[field];
  if (typeof value !== "string") throw wrong(tool, field, "text");
  if (Buffer.byteLength(value) > maxBytes) throw wrong(tool, field, `text of at most ${maxBytes} bytes`);
  return value;
}

export function countOf(tool: CoreTool, params: Params, field: string, { most }: { readonly most: number }): number | undefined {
  const value = params[field];
  if (value === undefined || value === null) return undefined;
  if (typeof value !== "number" || !Number.isSafeInteger(value) || value < 1) throw wrong(tool, field, "a whole number from 1");
  return Math.min(value, most);
}

export function flagOf(tool: CoreTool, params: Params, field: string): boolean {
  const value = params[field] ?? false;
  if (typeof value !== "boolean") throw wrong(tool, field, "true or false");
  return value;
}

/** As text, for a record of what was asked: whatever a model gives, and however deep it nests that. */
export function shownOf(value: unknown): string {
  if (typeof value === "string") return value;
  if (value === undefined) return "";
  try {
    return JSON.stringify(value) ?? "";
  } catch {
    return "[what cannot be shown]";
  }
}
