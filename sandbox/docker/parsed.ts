// What the engine's answers say: asked for each time, and read anew only when they say something else than the last.
import type { Look } from "./look.ts";

const KEPT_MAX_CHARS = 8 * 1024 * 1024;

interface Kept {
  readonly parts: readonly string[];
  readonly chars: number;
  readonly value: unknown;
}

export interface Ask<T> {
  readonly path: string;
  /** Holds the parsed answer to the shape that is read from it; throws. */
  readonly read: (raw: unknown) => T;
}

/** What is no JSON is left as it is: nothing takes it for an answer. */
function asJson(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return text;
  }
}

const MOUNTS = '"Mounts":[';
const [QUOTE, BACKSLASH, OPEN, CLOSE, END] = ['"', "\\", "{", "}", "]"].map((sign) => sign.charCodeAt(0));

/** The objects of an array that begins at `from`, as text, and where it ends; undefined where it holds anything but flat objects. */
function flatObjects(text: string, from: number): { readonly objects: readonly string[]; readonly end: number } | undefined {
  const objects: string[] = [];
  let quoted = false;
  let start = -1;
  for (let at = from; at < text.length; at++) {
    const sign = text.charCodeAt(at);
    if (quoted) {
      if (sign === BACKSLASH) at += 1;
      else if (sign === QUOTE) quoted = false;
    } else if (sign === QUOTE) quoted = true;
    else if (sign === OPEN) {
      if (start >= 0) return undefined;
      start = at;
    } else if (sign === CLOSE) {
      objects.push(text.slice(start, at + 1));
      start = -1;
    } else if (sign === END) return { objects, end: at };
  }
  return undefined;
}

/**
 * The same pieces for the same answer: the engine tells the mounts of a container in another order each time, and each is a
 * piece of its own here. A quote inside of a JSON text is escaped, so these words are always a key.
 */
export function pieces(text: string): readonly string[] {
  const parts: string[] = [];
  let done = 0;
  for (let at = text.indexOf(MOUNTS); at >= 0; at = text.indexOf(MOUNTS, at + MOUNTS.length)) {
    const from = at + MOUNTS.length;
    const found = flatObjects(text, from);
    if (found === undefined) continue;
    parts.push(text.slice(done, from), ...found.objects.toSorted());
    done = found.end;
  }
  parts.push(text.slice(done));
  return parts;
}

const same = (a: readonly string[], b: readonly string[]): boolean => a.length === b.length && a.every((part, i) => part === b[i]);

/** Answers the very same object as long as the engine answers the very same: whoever read that one knows this one. */
export function createParsed(look: Look): <T>(ask: Ask<T>, signal: AbortSignal) => Promise<T> {
  const kept = new Map<string, Kept>();
  let chars = 0;
  const forget = (path: string): void => {
    chars -= kept.get(path)?.chars ?? 0;
    kept.delete(path);
  };
  return async <T>({ path, read }: Ask<T>, signal: AbortSignal): Promise<T> => {
    let text: string;
    try {
      text = (await look.get(path, signal)).toString();
    } catch (error) {
      forget(path);
      throw error;
    }
    const known = kept.get(path);
    forget(path);
    const parts = pieces(text);
    const value = known !== undefined && same(known.parts, parts) ? (known.value as T) : read(asJson(text));
    kept.set(path, { parts, chars: text.length, value });
    chars += text.length;
    for (const old of kept.keys()) {
      if (chars <= KEPT_MAX_CHARS) break;
      forget(old);
    }
    return value;
  };
}
