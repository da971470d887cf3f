// Others' text before it gets to the terminal: without what moves a cursor, sets a title or reads the clipboard. What it was stays known.
import { clean } from "../core/text.ts";
import type { Entry } from "./gateway.ts";

type Fields = Readonly<Record<string, unknown>>;

/** The same value with all its strings cleaned. */
export function cleaned<T>(value: T): T {
  if (typeof value === "string") return clean(value) as T;
  if (Array.isArray(value)) return value.map(cleaned) as T;
  if (typeof value !== "object" || value === null) return value;
  return Object.fromEntries(Object.entries(value).map(([key, each]) => [clean(key), cleaned(each)])) as T;
}

export interface Screen {
  /** For the terminal. Signatures and pictures are as they were. */
  readonly shown: <M extends object>(message: M) => M;
  /** For models, sandboxes and files: what `shown` was made of. */
  readonly whole: <M extends object>(message: M) => M;
  readonly shownCall: <C extends Fields>(part: C) => C;
  /** Arguments of a call as the model gave them. */
  readonly argumentsOf: (id: string, shown: unknown) => unknown;
  readonly shownEntry: (entry: Entry) => Entry;
  readonly wholeEntry: (entry: Entry) => Entry;
}

const isObject = (value: unknown): value is Fields => typeof value === "object" && value !== null && !Array.isArray(value);

export function createScreen(): Screen {
  // Only what differs: of most conversations that is nothing.
  const texts = new Map<string, string>();
  const calls = new Map<string, unknown>();
  const show = (text: string): string => {
    const seen = clean(text);
    if (seen !== text) texts.set(seen, text);
    return seen;
  };
  const back = (text: string): string => texts.get(text) ?? text;
  const shownCall = <C extends Fields>(part: C): C => {
    const { id, name, arguments: given } = part;
    const seen = cleaned(given);
    if (JSON.stringify(seen) !== JSON.stringify(given)) calls.set(String(id), given);
    return { ...part, name: cleaned(name), arguments: seen };
  };
  const argumentsOf = (id: string, shown: unknown): unknown => calls.get(id) ?? shown;
  const parts =
    (text: (text: string) => string, call: (part: Fields) => Fields) =>
    (part: unknown): unknown => {
      if (!isObject(part)) return part;
      if (part["type"] === "toolCall") return call(part);
      const key = part["type"] === "thinking" ? "thinking" : "text";
      return typeof part[key] === "string" ? { ...part, [key]: text(part[key]) } : part;
    };
  const over = <M extends object>(message: M, text: (text: string) => string, call: (part: Fields) => Fields): M => {
    const fields = message as Fields;
    const { content } = fields;
    const own = ["errorMessage", "command", "output", "toolName"].flatMap((key) =>
      typeof fields[key] === "string" ? [[key, text(fields[key])] as const] : [],
    );
    const mapped = typeof content === "string" ? text(content) : Array.isArray(content) ? content.map(parts(text, call)) : content;
    return { ...message, ...Object.fromEntries(own), ...(content !== undefined && { content: mapped }) };
  };
  const shown: Screen["shown"] = (message) => over(message, show, shownCall);
  const whole: Screen["whole"] = (message) =>
    texts.size + calls.size === 0
      ? message
      : over(message, back, (part) => ({ ...part, arguments: argumentsOf(String(part["id"]), part["arguments"]) }));
  const entryOver = (entry: Entry, map: <M extends object>(message: M) => M): Entry =>
    isObject(entry["message"]) && entry["message"]["role"] !== "system" ? { ...entry, message: map(entry["message"]) } : entry;
  return {
    shown,
    whole,
    shownCall,
    argumentsOf,
    shownEntry: (entry) => (entry.type === "message" ? entryOver(entry, shown) : cleaned(entry)),
    wholeEntry: (entry) => entryOver(entry, whole),
  };
}
