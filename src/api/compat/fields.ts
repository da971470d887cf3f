// Which fields of a client's request act, which are left out with a word, and which are refused because leaving them out would lie.
import { BeigeError } from "../../core/errors.ts";
import type { ChatOptions, ImagePart, TextPart } from "../../core/chat.ts";
import type { Unknowns } from "../fields.ts";

/** `acts` is read elsewhere; `hint` may be left out; a function says whether this value changes nothing. */
export type Rule = "acts" | "hint" | ((value: unknown) => boolean);
export type Rules = Readonly<Record<string, Rule>>;

export const unfit = (field: string, why: string, hint?: string): BeigeError =>
  new BeigeError("invalid", `${field}: ${why}`, hint === undefined ? {} : { hint });

export const OTHER_MODEL = "use a PROVIDER/MODEL whose provider speaks this format, or leave it out";

/** Names of the fields that are left out. Unknown ones are hints: clients send many. */
export function screened(body: Unknowns, rules: Rules): readonly string[] {
  const dropped: string[] = [];
  for (const [key, value] of Object.entries(body)) {
    if (value === null || value === undefined) continue;
    const rule = Object.hasOwn(rules, key) ? rules[key] : "hint";
    if (rule === "acts" || (typeof rule === "function" && rule(value))) continue;
    if (typeof rule === "function") throw unfit(key, "cannot be honoured when the request is translated", OTHER_MODEL);
    dropped.push(key.slice(0, 60));
  }
  return dropped.slice(0, 20);
}

export const only =
  (...values: readonly unknown[]): Rule =>
  (value) =>
    values.includes(value);
export const empty: Rule = (value) => value === "" || (typeof value === "object" && value !== null && Object.keys(value).length === 0);

export function object(value: unknown, where: string): Unknowns {
  if (typeof value !== "object" || value === null || Array.isArray(value)) throw unfit(where, "must be an object");
  return value as Unknowns;
}
export function list(value: unknown, where: string): readonly unknown[] {
  if (!Array.isArray(value)) throw unfit(where, "must be a list");
  return value;
}
export function string(value: unknown, where: string): string {
  if (typeof value !== "string") throw unfit(where, "must be a string");
  return value;
}
export function number(value: unknown, where: string): number | undefined {
  if (value === undefined || value === null) return undefined;
  if (typeof value !== "number" || !Number.isFinite(value) || value < 0) throw unfit(where, "must be a number from 0 on");
  return value;
}
export function count(value: unknown, where: string): number | undefined {
  const found = number(value, where);
  if (found !== undefined && (!Number.isInteger(found) || found < 1)) throw unfit(where, "must be a whole number from 1 on");
  return found;
}

/** A function call's arguments, which the wire carries as text. */
export function args(value: unknown, where: string): Readonly<Record<string, unknown>> {
  const text = string(value, where);
  if (text.trim() === "") return {};
  try {
    return object(JSON.parse(text), where);
  } catch {
    throw unfit(where, "must be a JSON object as text");
  }
}

const DATA_URL = /^data:([a-z]+\/[-+.\w]+);base64,/i;

/** Only images that are in the request: the gateway fetches nothing for a client. */
export function image(url: unknown, where: string): ImagePart {
  const text = string(url, where);
  const found = DATA_URL.exec(text.slice(0, 200));
  if (found === null) throw unfit(where, "only images inside the request are taken", "send data:image/png;base64,...");
  return { type: "image", mimeType: (found[1] ?? "").toLowerCase(), data: text.slice(found[0].length) };
}

/** One text stays a string, as the context has it. */
export const content = (parts: readonly (TextPart | ImagePart)[]): string | readonly (TextPart | ImagePart)[] => {
  const [first] = parts;
  return parts.length === 1 && first?.type === "text" ? first.text : parts;
};

const EFFORTS: Readonly<Record<string, ChatOptions["thinking"]>> = {
  none: "off",
  minimal: "minimal",
  low: "low",
  medium: "medium",
  high: "high",
  xhigh: "high",
  max: "high",
};
export function effort(value: unknown, where: string): ChatOptions["thinking"] | undefined {
  if (value === undefined || value === null) return undefined;
  const known = typeof value === "string" && Object.hasOwn(EFFORTS, value) ? EFFORTS[value] : undefined;
  if (known === undefined) throw unfit(where, `must be one of ${Object.keys(EFFORTS).join(", ")}`);
  return known;
}

/** Options without what the client did not say. */
export function options(said: { readonly [K in keyof ChatOptions]?: ChatOptions[K] | undefined }): Partial<ChatOptions> {
  return Object.fromEntries(Object.entries(said).filter(([, value]) => value !== undefined));
}
