// Words for people: the nearest known name, a list that is not too long, a pointer as a dotted path.

/** Edits (insert, delete, change, swap of neighbours) between two words; gives up above `limit`. */
export function distance(a: string, b: string, limit: number): number {
  if (Math.abs(a.length - b.length) > limit) return limit + 1;
  let before: number[] = [];
  let last = Array.from({ length: b.length + 1 }, (_, i) => i);
  for (let i = 1; i <= a.length; i++) {
    const row = [i];
    for (let j = 1; j <= b.length; j++) {
      const change = a[i - 1] === b[j - 1] ? 0 : 1;
      let best = Math.min((last[j] ?? 0) + 1, (row[j - 1] ?? 0) + 1, (last[j - 1] ?? 0) + change);
      if (i > 1 && j > 1 && a[i - 1] === b[j - 2] && a[i - 2] === b[j - 1]) best = Math.min(best, (before[j - 2] ?? 0) + 1);
      row.push(best);
    }
    before = last;
    last = row;
  }
  return last[b.length] ?? limit + 1;
}

/** The known word that was probably meant; undefined when none is near. */
export function nearest(word: string, known: Iterable<string>): string | undefined {
  if (word.length > 64) return undefined;
  const limit = Math.max(1, Math.floor(word.length / 3));
  let best: string | undefined;
  let least = limit + 1;
  for (const name of known) {
    const far = distance(word.toLowerCase(), name.toLowerCase(), limit);
    if (far < least) [best, least] = [name, far];
  }
  return best;
}

/** `did you mean "x"?`, or the list of what is known. */
export function suggest(word: string, known: readonly string[], what: string): string {
  const near = nearest(word, known);
  if (near !== undefined) return `did you mean "${near}"?`;
  return known.length === 0 ? `there are no ${what}` : `known ${what}: ${listed(known)}`;
}

/** The first of many, and how many more. */
export function listed(words: readonly string[], most = 24): string {
  const rest = words.length - most;
  return words.slice(0, most).join(", ") + (rest > 0 ? `, and ${String(rest)} more` : "");
}

/** One line of at most `most` characters that is safe on a terminal. */
export function clip(text: string, most = 80): string {
  const line = text.replaceAll(/[\p{Cc}\p{Cf}\u2028\u2029]/gu, (c) => (c === "\n" ? "⏎" : "\ufffd"));
  return line.length > most ? `${line.slice(0, most - 1).replace(/[\ud800-\udbff]$/, "")}…` : line;
}

/** RFC 6901. */
export const pointer = (parts: readonly string[]): string => parts.map((p) => `/${p.replaceAll("~", "~0").replaceAll("/", "~1")}`).join("");

export const pointerParts = (path: string): readonly string[] =>
  path === ""
    ? []
    : path
        .slice(1)
        .split("/")
        .map((p) => p.replaceAll("~1", "/").replaceAll("~0", "~"));

/** `/spec/models/0/id` as `spec.models[0].id`; keys that are no plain words go into brackets. */
export function dotted(parts: readonly string[]): string {
  let text = "";
  for (const part of parts) {
    if (/^[A-Za-z_][A-Za-z0-9_-]*$/.test(part)) text += text === "" ? part : `.${part}`;
    else text += `[${part}]`;
  }
  return text;
}

// Characters that move a cursor, ring, recolour or reorder text: never passed on from others' text to a terminal.
// eslint-disable-next-line no-control-regex -- this is the list of them
const HOSTILE = /[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u200e\u200f\u202a-\u202e\u2066-\u2069]/g;

/** Others' text, safe for a terminal; lines and tabs stay. */
export const clean = (text: string): string => text.replace(HOSTILE, "");
