// The fields of a kind as its schema tells them: read from the JSON files, without a validator.
import { readFileSync } from "node:fs";
import { join } from "node:path";
import type { Schema } from "../core/schema.ts";
import { packageRoot } from "./place.ts";

const read = (name: string): Schema => JSON.parse(readFileSync(join(packageRoot, "schemas", `${name}.json`), "utf8")) as Schema;
let shared: Readonly<Record<string, Schema>> | undefined;

/** What a $ref points to; the keys beside it win. */
export function resolved(schema: Schema): Schema {
  const name = /^common\.json#\/definitions\/(\w+)$/.exec(schema.$ref ?? "")?.[1];
  if (name === undefined) return schema;
  shared ??= (read("common") as { readonly definitions?: Readonly<Record<string, Schema>> }).definitions ?? {};
  const { $ref: _ref, ...beside } = schema;
  return { ...shared[name], ...beside };
}

export const kindSchema = (kind: string): Schema => read(kind.toLowerCase());

/** The schema that has the fields below: of an object, of a list's items, of the form that is written as an object. */
export function holder(schema: Schema): Schema {
  const whole = resolved(schema);
  if (whole.items !== undefined && whole.properties === undefined) return holder(whole.items);
  const form = whole.anyOf?.map(resolved).find((each) => each.properties !== undefined);
  if (form !== undefined) return form;
  if (whole.properties === undefined && typeof whole.additionalProperties === "object") return holder(whole.additionalProperties);
  return whole;
}

export interface Field {
  readonly name: string;
  readonly schema: Schema;
  readonly required: boolean;
}

export function fieldsOf(schema: Schema): readonly Field[] {
  const { properties = {}, required = [] } = holder(schema);
  return Object.entries(properties).map(([name, each]) => ({ name, schema: resolved(each), required: required.includes(name) }));
}

/** `string`, `[]object`, `string | number`, `map of string`. */
export function typeText(schema: Schema): string {
  const whole = resolved(schema);
  if (whole.anyOf !== undefined) return [...new Set(whole.anyOf.map(typeText))].join(" | ");
  if (whole.type === "array") return `[]${whole.items === undefined ? "any" : typeText(whole.items)}`;
  if (whole.type === "object" && whole.properties === undefined)
    return typeof whole.additionalProperties === "object" ? `map of ${typeText(whole.additionalProperties)}` : "map";
  return whole.type ?? (whole.const === undefined ? "any" : typeof whole.const);
}

const notYet = (schema: Schema): readonly unknown[] => {
  const later = schema["x-beige-not-yet"];
  return Array.isArray(later) ? (later as readonly unknown[]) : [];
};

/** Words that it may be; those that this version refuses are marked. */
export function choicesText(schema: Schema): string {
  const words = schema.enum ?? resolved(schema.items ?? {}).enum ?? [];
  const later = notYet(schema);
  return words.map((each) => `${String(each)}${later.includes(each) ? " (not in this version)" : ""}`).join(" | ");
}

export const IMPACT: Readonly<Record<string, string>> = {
  live: "a change acts at once",
  update: "a change is made in place",
  replace: "a change replaces the sandbox; sessions go on",
};

/** What there is to say of a field besides its description. */
export function factsOf(schema: Schema): readonly (readonly [name: string, text: string])[] {
  const { minimum, maximum, minLength, maxLength, default: usual } = schema;
  const range = [...(minimum === undefined ? [] : [`from ${minimum}`]), ...(maximum === undefined ? [] : [`to ${maximum}`])].join(" ");
  const length = [
    ...(minLength === undefined || minLength < 2 ? [] : [`at least ${minLength}`]),
    ...(maxLength === undefined ? [] : [`at most ${maxLength}`]),
  ];
  const impact = schema["x-beige-impact"];
  const facts: readonly (readonly [string, string])[] = [
    ["one of", choicesText(schema)],
    ["number", range],
    ["length", length.join(", ")],
    ["default", usual === undefined ? "" : JSON.stringify(usual)],
    ["impact", impact === undefined ? "" : (IMPACT[impact] ?? "")],
    ["not yet", schema["x-beige-not-yet"] === true ? "refused: not in this version" : ""],
    ["secret", schema["x-beige-secret"] === true ? "a reference; a literal is refused" : ""],
    [
      "list",
      schema["x-beige-list"] === undefined
        ? ""
        : schema["x-beige-list"] === "set"
          ? "a set: the order means nothing"
          : `items are known by their ${schema["x-beige-list"]}`,
    ],
  ];
  return facts.filter(([, text]) => text !== "");
}
