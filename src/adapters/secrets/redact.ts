// Replaces secret values in text, also where they were encoded: base64 at any offset, JSON, URL, hex; and what a cut left of one.

export const REDACTED = "[secret]";
/** Shorter values would turn ordinary words into "[secret]". */
const SHORTEST = 6;
const VALUES_MAX = 1_000;
/** Shortest piece of base64 that is taken for the value. */
const BASE64_SHORTEST = 8;
/** A beginning of a value at the end of a text is taken for a value that was cut off, from this length on. */
const PART_SHORTEST = 6;
/** Shorter texts have not been cut by anybody. */
const CUT_SHORTEST = 256;

const literal = (text: string): string => text.replace(/[\\^$.*+?()[\]{}|/-]/g, "\\$&");

/** Base64 of a text that holds the value at each of the three offsets, without the characters that neighbours decide. */
function base64Forms(value: string): readonly string[] {
  const raw = Buffer.from(value);
  return [0, 1, 2].flatMap((offset) => {
    const text = Buffer.concat([Buffer.alloc(offset), raw])
      .toString("base64")
      .replace(/=+$/, "");
    const from = offset === 0 ? 0 : offset + 1;
    const spill = (offset + raw.length) % 3 === 0 ? 0 : 1;
    const inner = text.slice(from, text.length - spill);
    return inner.length < BASE64_SHORTEST ? [] : [inner, inner.replaceAll("+", "-").replaceAll("/", "_")];
  });
}

function forms(value: string): readonly string[] {
  const json = JSON.stringify(value).slice(1, -1);
  const twice = JSON.stringify(json).slice(1, -1);
  const url = encodeURIComponent(value.toWellFormed());
  const lower = url.replace(/%[0-9A-F]{2}/g, (hex) => hex.toLowerCase());
  const form = url.replaceAll("%20", "+");
  const raw = Buffer.from(value);
  const whole = raw.toString("base64");
  const hex = raw.toString("hex");
  return [value, json, twice, url, lower, form, whole, raw.toString("base64url"), ...base64Forms(value), hex, hex.toUpperCase()];
}

/** Finds the beginnings of forms, by their first characters. */
interface Starts {
  readonly byStart: ReadonlyMap<string, readonly string[]>;
  readonly longest: number;
}

function startsOf(all: readonly string[]): Starts {
  const byStart = Map.groupBy(all, (form) => form.slice(0, PART_SHORTEST));
  return { byStart, longest: Math.max(...all.map((form) => form.length)) };
}

/** A text that was cut before it came here may end inside a value. */
function withoutPart(text: string, { byStart, longest }: Starts): string {
  if (text.length < CUT_SHORTEST) return text;
  for (let at = Math.max(0, text.length - longest + 1); at <= text.length - PART_SHORTEST; at += 1) {
    const forms = byStart.get(text.slice(at, at + PART_SHORTEST));
    const rest = forms === undefined ? "" : text.slice(at);
    if (forms?.some((form) => form.length > rest.length && form.startsWith(rest)) === true) return text.slice(0, at) + REDACTED;
  }
  return text;
}

export interface Redactor {
  readonly add: (value: string) => void;
  readonly redact: (text: string) => string;
}

export function createRedactor(): Redactor {
  const values = new Set<string>();
  let pattern: RegExp | undefined;
  let starts: Starts | undefined;
  return {
    add: (value) => {
      if (value.length < SHORTEST || values.has(value)) return;
      values.add(value);
      // The oldest value goes when a rotating secret has left too many behind.
      if (values.size > VALUES_MAX) values.delete([...values][0] ?? "");
      const all = [...new Set([...values].flatMap(forms))].toSorted((a, b) => b.length - a.length);
      pattern = new RegExp(all.map(literal).join("|"), "g");
      starts = startsOf(all);
    },
    redact: (text) => (pattern === undefined || starts === undefined ? text : withoutPart(text.replace(pattern, REDACTED), starts)),
  };
}
