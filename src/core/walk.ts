// What a schema's own words refuse and a validator does not know: fields of a later version, redaction marks, repeated identities.
import type { FieldProblem } from "./explain.ts";
import { branch, isObject, member } from "./schema.ts";
import type { Schema } from "./schema.ts";
import { dotted, pointer } from "./text.ts";

/** Written by every printer in place of a secret; never a value. */
export const REDACTED = "[secret]";

export function walkProblems(value: unknown, schema: Schema): readonly FieldProblem[] {
  const problems: FieldProblem[] = [];
  visit(value, schema, [], problems);
  return problems;
}

function visit(value: unknown, schema: Schema | undefined, path: readonly string[], problems: FieldProblem[]): void {
  if (schema && notYet(value, schema)) {
    const what = schema["x-beige-not-yet"] === true ? "key" : "value";
    const word = what === "key" ? dotted(path) : `${dotted(path)}: ${String(value)}`;
    problems.push({ path: pointer(path), what, message: `${word} is not in this version`, hint: others(schema) });
    return;
  }
  if (typeof value === "string") badText(value, path, problems);
  else if (Array.isArray(value)) {
    const items = schema && branch(schema, value).items;
    for (const [i, item] of value.entries()) visit(item, items && branch(items, item), [...path, String(i)], problems);
    if (schema) repeated(value, schema, path, problems);
  } else if (isObject(value)) {
    for (const [key, item] of Object.entries(value)) {
      if (UNSAFE.has(key))
        problems.push({ path: pointer([...path, key]), what: "key", message: `key "${key}" is not allowed`, hint: "rename it" });
      const own = schema && member(schema, key, value);
      visit(item, own && branch(own, item), [...path, key], problems);
    }
  }
}

const UNSAFE = new Set(["__proto__", "constructor", "prototype"]);

function notYet(value: unknown, schema: Schema): boolean {
  const word = schema["x-beige-not-yet"];
  return word === true ? value !== undefined : word !== undefined && word.includes(value);
}

function others(schema: Schema): string {
  const word = schema["x-beige-not-yet"];
  if (word === true || word === undefined) return "remove it";
  const rest = (schema.enum ?? []).filter((v) => !word.includes(v));
  return rest.length === 0 ? "remove it" : `this version has: ${rest.map(String).join(", ")}`;
}

function badText(value: string, path: readonly string[], problems: FieldProblem[]): void {
  const at = { path: pointer(path), what: "value" } as const;
  if (value === REDACTED)
    problems.push({
      ...at,
      message: `${dotted(path)} is a redaction mark, not a value`,
      hint: "write the value that it stands for",
    });
  else if (value.includes("\0")) problems.push({ ...at, message: `${dotted(path)} holds a NUL character`, hint: "remove it" });
  else if (!value.isWellFormed())
    problems.push({ ...at, message: `${dotted(path)} is not valid Unicode text`, hint: "remove the half of a surrogate pair" });
}

/** Items of a list with identity have it once. */
function repeated(value: readonly unknown[], schema: Schema, path: readonly string[], problems: FieldProblem[]): void {
  const key = schema["x-beige-list"];
  if (key === undefined || key === "set") return;
  const seen = new Set<unknown>();
  for (const [i, item] of value.entries()) {
    const id = isObject(item) ? item[key] : undefined;
    if (id !== undefined && seen.has(id))
      problems.push({
        path: pointer([...path, String(i), key]),
        what: "value",
        message: `${dotted(path)} has two entries with the same ${key}`,
        hint: "remove or change one",
      });
    seen.add(id);
  }
}
