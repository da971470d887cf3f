// Replaces secret values in text, also where they were encoded: base64 at any offset, JSON, URL.

export const REDACTED = "[secret]";
/** Shorter values would turn ordinary words into "[secret]". */
const SHORTEST = 6;
const VALUES_MAX = 1_000;
/** Shortest piece of base64 that is taken for the value. */
const BASE64_SHORTEST = 8;

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
  const whole = Buffer.from(value).toString("base64");
  return [value, json, twice, url, lower, form, whole, Buffer.from(value).toString("base64url"), ...base64Forms(value)];
}

export interface Redactor {
  readonly add: (value: string) => void;
  readonly redact: (text: string) => string;
}

export function createRedactor(): Redactor {
  const values = new Set<string>();
  let pattern: RegExp | undefined;
  return {
    add: (value) => {
      if (value.length < SHORTEST || values.has(value)) return;
      values.add(value);
      // The oldest value goes when a rotating secret has left too many behind.
      if (values.size > VALUES_MAX) values.delete([...values][0] ?? "");
      const all = [...new Set([...values].flatMap(forms))].toSorted((a, b) => b.length - a.length);
      pattern = new RegExp(all.map(literal).join("|"), "g");
    },
    redact: (text) => (pattern === undefined ? text : text.replace(pattern, REDACTED)),
  };
}
