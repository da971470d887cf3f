// Columns and orders that the caller names by paths into the objects: -o custom-columns and --sort-by, as kubectl has them.
import { BeigeError } from "../core/errors.ts";
import { pathValues, valueOf } from "./jsonpath.ts";

export interface Column {
  readonly header: string;
  readonly path: string;
}

/** Commas inside brackets, braces and quotes belong to a path. */
function splitTop(text: string): readonly string[] {
  const parts: string[] = [];
  let depth = 0;
  let quote = "";
  let from = 0;
  for (let i = 0; i < text.length; i++) {
    const char = text[i] ?? "";
    if (quote !== "") quote = char === quote ? "" : quote;
    else if (char === '"' || char === "'") quote = char;
    else if ("[{(".includes(char)) depth++;
    else if ("]})".includes(char)) depth--;
    else if (char === "," && depth === 0) {
      parts.push(text.slice(from, i));
      from = i + 1;
    }
  }
  return [...parts, text.slice(from)];
}

export function parseColumns(text: string): readonly Column[] {
  const columns = splitTop(text).map((part) => {
    const colon = part.indexOf(":");
    return { header: part.slice(0, colon).trim(), path: part.slice(colon + 1).trim(), fine: colon > 0 };
  });
  const odd = columns.find((each) => !each.fine || each.path === "");
  if (odd !== undefined)
    throw new BeigeError("invalid", "custom-columns are HEADER:PATH, with commas between", {
      hint: "beige get agents -o custom-columns=NAME:.metadata.name,MODEL:.spec.model.id",
    });
  return columns.map(({ header, path }) => ({ header, path }));
}

export const cellsOf = (columns: readonly Column[], object: unknown): readonly string[] =>
  columns.map(({ path }) => pathValues(path, object).map(valueOf).join(",") || "<none>");

const rank = (value: unknown): number =>
  value === undefined || value === null ? 0 : typeof value === "number" ? 1 : typeof value === "boolean" ? 2 : 3;

function compare(a: unknown, b: unknown): number {
  if (rank(a) !== rank(b)) return rank(a) - rank(b);
  if (typeof a === "number" && typeof b === "number") return a - b;
  const [left, right] = [valueOf(a), valueOf(b)];
  return left < right ? -1 : left > right ? 1 : 0;
}

/** Ascending by what the path finds; what has nothing there comes first, equals stay as they were. */
export function sortedBy<T>(items: readonly T[], path: string, objectOf: (item: T) => unknown): readonly T[] {
  const keyed = items.map((item) => ({ item, key: pathValues(path, objectOf(item))[0] }));
  return keyed.toSorted((a, b) => compare(a.key, b.key)).map(({ item }) => item);
}
