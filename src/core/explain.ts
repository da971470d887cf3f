// Turns a validator's errors into sentences: one fault, one problem, with what was expected and what was probably meant.
import { isObject, resolve, schemaAt } from "./schema.ts";
import type { Schema } from "./schema.ts";
import { clip, listed, nearest, pointer, pointerParts, dotted, suggest } from "./text.ts";

/** A problem before it has a place: which field, and whether its name or its value is meant. */
export interface FieldProblem {
  readonly message: string;
  readonly path: string;
  readonly what: "key" | "value";
  readonly hint?: string;
}

/** The part of ajv's errors that is read. */
export interface SchemaError {
  readonly keyword: string;
  readonly instancePath: string;
  readonly schemaPath: string;
  readonly params: Readonly<Record<string, unknown>>;
  readonly propertyName?: string;
  readonly message?: string;
}

export function explainErrors(errors: readonly SchemaError[], value: unknown, schema: Schema): readonly FieldProblem[] {
  const meant = misspelt(errors, schema);
  const kept = errors.filter(
    (e) =>
      !isNoise(e, errors, value) && !(e.keyword === "required" && meant.has(`${e.instancePath}/${String(e.params["missingProperty"])}`)),
  );
  const seen = new Set<string>();
  const typed = new Set(kept.filter((e) => e.keyword === "type" || e.keyword === "anyOf").map((e) => e.instancePath));
  return kept.flatMap((error): FieldProblem[] => {
    if (typed.has(error.instancePath) && !["type", "anyOf", "additionalProperties"].includes(error.keyword)) return [];
    const problem = explain(error, value, schema);
    if (problem === undefined) return [];
    const key = `${problem.path}\0${problem.message}`;
    if (seen.has(key)) return [];
    seen.add(key);
    return [problem];
  });
}

/** Fields that are there under a wrong name: that they are missing goes without saying. */
function misspelt(errors: readonly SchemaError[], schema: Schema): ReadonlySet<string> {
  const found = errors.flatMap((e) => {
    if (e.keyword !== "additionalProperties") return [];
    const at = schemaAt(schema, pointerParts(e.instancePath));
    const near = nearest(String(e.params["additionalProperty"]), Object.keys(at?.properties ?? objectBranch(at)));
    return near === undefined ? [] : [`${e.instancePath}/${near}`];
  });
  return new Set(found);
}

/** Errors of branches that the value was not meant for, and those that say a second time what another one says. */
function isNoise(error: SchemaError, errors: readonly SchemaError[], value: unknown): boolean {
  if (error.keyword === "if" || error.keyword === "propertyNames") return true;
  const branch = /^(.*\/anyOf)\/\d+\//.exec(error.schemaPath)?.[1];
  if (branch === undefined) {
    // The right branch speaks for itself.
    return error.keyword === "anyOf" && errors.some((e) => e.schemaPath.startsWith(`${error.schemaPath}/`) && fits(e, error, value));
  }
  const whole = errors.find((e) => e.keyword === "anyOf" && e.schemaPath === branch && inside(error, e));
  return whole !== undefined && !fits(error, whole, value);
}

const inside = (error: SchemaError, whole: SchemaError): boolean =>
  error.instancePath === whole.instancePath || error.instancePath.startsWith(`${whole.instancePath}/`);

/** Whether a branch's error is about the content of a value of the right type. */
const fits = (error: SchemaError, whole: SchemaError, value: unknown): boolean =>
  inside(error, whole) &&
  error.keyword !== "type" &&
  (isObject(valueAt(value, whole.instancePath)) || error.instancePath === whole.instancePath);

function valueAt(value: unknown, path: string): unknown {
  let at: unknown = value;
  for (const part of pointerParts(path)) {
    if (Array.isArray(at)) at = at[Number(part)];
    else at = isObject(at) && Object.hasOwn(at, part) ? at[part] : undefined;
  }
  return at;
}

const kindOf = (value: unknown): string =>
  value === null ? "nothing" : Array.isArray(value) ? "a list" : isObject(value) ? "a mapping" : typeof value;

const EXPECTED: Readonly<Record<string, string>> = {
  string: "text",
  integer: "a whole number",
  number: "a number",
  boolean: "true or false",
  array: "a list",
  object: "a mapping",
};

/** `text or a mapping`. */
function expected(schema: Schema | undefined): string {
  if (schema === undefined) return "something else";
  const types = schema.anyOf ? schema.anyOf.map((b) => resolve(b).type) : [schema.type];
  const words = [...new Set(types.map((t) => EXPECTED[t ?? ""] ?? "a value"))];
  return schema["x-beige-secret"] === true ? "{secret: NAME} or {env: VARIABLE}" : words.join(" or ");
}

function explain(error: SchemaError, value: unknown, schema: Schema): FieldProblem | undefined {
  const parts = pointerParts(error.instancePath);
  const at = schemaAt(schema, parts);
  const name = parts.length === 0 ? "object" : dotted(parts);
  const given = valueAt(value, error.instancePath);
  const here = { path: error.instancePath, what: "value" } as const;
  switch (error.keyword) {
    case "additionalProperties":
      return unknownField(parts, String(error.params["additionalProperty"]), at);
    case "required":
      return {
        ...here,
        message: `${name} has no ${String(error.params["missingProperty"])}`,
        what: "key",
        hint: requiredHint(at, String(error.params["missingProperty"])),
      };
    case "type":
    case "anyOf":
      return {
        ...here,
        message: `${name} must be ${expected(at)}, not ${at?.type === "integer" && typeof given === "number" ? "a fraction" : kindOf(given)}`,
        ...typeHint(given, at),
      };
    case "enum":
      return { ...here, message: `${name} has an unknown value`, hint: enumHint(given, at) };
    case "const":
      return parts[0] === "apiVersion"
        ? undefined
        : { ...here, message: `${name} must be ${JSON.stringify(error.params["allowedValue"])}` };
    case "pattern":
      return error.propertyName === undefined
        ? { ...here, message: `${name} is not well formed`, ...formHint(at) }
        : badKey(parts, error.propertyName, at);
    default:
      return { ...here, message: `${name} ${limit(error)}` };
  }
}

function unknownField(parts: readonly string[], field: string, at: Schema | undefined): FieldProblem {
  const known = Object.keys(at?.properties ?? objectBranch(at));
  const where = parts.length === 0 ? "the object" : dotted(parts);
  return {
    path: pointer([...parts, field]),
    what: "key",
    message: `unknown field "${clip(field)}" in ${where}`,
    hint: suggest(field, known, "fields here"),
  };
}

const objectBranch = (at: Schema | undefined): Readonly<Record<string, Schema>> =>
  at?.anyOf?.map((b) => resolve(b)).find((b) => b.properties)?.properties ?? {};

function badKey(parts: readonly string[], key: string, at: Schema | undefined): FieldProblem {
  return {
    path: pointer([...parts, key]),
    what: "key",
    message: `"${clip(key)}" is not allowed as a key of ${dotted(parts)}`,
    ...formHint(at?.propertyNames),
  };
}

function requiredHint(at: Schema | undefined, field: string): string {
  const own = at?.properties?.[field];
  const description = own && resolve(own).description;
  return description === undefined ? `add ${field}:` : `add ${field}: ${description.slice(0, 1).toLowerCase()}${description.slice(1)}`;
}

function typeHint(given: unknown, at: Schema | undefined): { readonly hint?: string } {
  if (given === null) return { hint: "give it a value, or remove the line" };
  const types = at?.anyOf?.map((b) => resolve(b).type) ?? [at?.type];
  if (types.includes("string") && (typeof given === "number" || typeof given === "boolean"))
    return { hint: `quote it: "${String(given)}"` };
  if (types.includes("string") && isObject(given) && (Object.hasOwn(given, "secret") || Object.hasOwn(given, "env")))
    return { hint: "secrets do not go here: what stands here can be seen, with docker inspect for instance" };
  if (types.includes("array") && typeof given === "string") return { hint: "write a list: [ … ]" };
  const number = types.includes("integer") || types.includes("number") || types.includes("boolean");
  return number && typeof given === "string" ? { hint: "write it without quotes; a variable is always text" } : {};
}

function enumHint(given: unknown, at: Schema | undefined): string {
  const later = at?.["x-beige-not-yet"];
  const words = (at?.enum ?? []).filter((word) => !Array.isArray(later) || !later.includes(word)).map(String);
  const near = typeof given === "string" ? nearest(given, words) : undefined;
  return near === undefined ? `one of: ${listed(words)}` : `did you mean "${near}"? one of: ${listed(words)}`;
}

const formHint = (at: Schema | undefined): { readonly hint?: string } => {
  if (at?.description !== undefined) return { hint: at.description };
  return at?.pattern === undefined ? {} : { hint: `it must match ${at.pattern}` };
};

function limit(error: SchemaError): string {
  const most = String(error.params["limit"]);
  switch (error.keyword) {
    case "minimum":
      return `must be at least ${most}`;
    case "maximum":
      return `must be at most ${most}`;
    case "exclusiveMinimum":
      return `must be more than ${most}`;
    case "minLength":
      return most === "1" ? "must not be empty" : `must have at least ${most} characters`;
    case "maxLength":
      return `must have at most ${most} characters`;
    case "minItems":
      return `must have at least ${most} entries`;
    case "maxItems":
      return `must have at most ${most} entries`;
    case "minProperties":
      return "must have one of its fields";
    case "maxProperties":
      return `must have only ${most} of its fields`;
    case "uniqueItems":
      return `has the same entry twice (items ${[error.params["i"], error.params["j"]]
        .map(Number)
        .toSorted((a, b) => a - b)
        .join(" and ")}, from 0)`;
    case "multipleOf":
      return `must be a multiple of ${String(error.params["multipleOf"])}`;
    case "format":
      return `is no valid ${String(error.params["format"])}`;
    case "not":
      return "must not have this value";
    default:
      return error.message ?? "is not valid";
  }
}
