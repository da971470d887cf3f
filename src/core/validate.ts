// The one door to ajv: a document against the schema of the kind that it names, with every problem placed and explained.
import { Ajv } from "ajv";
import type { ErrorObject, ValidateFunction } from "ajv";
import type { HostPolicy } from "../../schemas/types.ts";
import host from "../../schemas/host.json" with { type: "json" };
import type { ManifestDocument } from "./documents.ts";
import { MAX_PROBLEMS } from "./documents.ts";
import type { Position, Problem } from "./errors.ts";
import { explainErrors } from "./explain.ts";
import type { FieldProblem } from "./explain.ts";
import { parseYaml } from "./manifest.ts";
import { withDefaults } from "./normalise.ts";
import { API_VERSION } from "./resource.ts";
import { COMMON, SCHEMAS, isObject, scopeOf } from "./schema.ts";
import type { Schema, Schemas } from "./schema.ts";
import { listed, nearest, clip, pointerParts } from "./text.ts";
import { lines, offsetAt, plainValue } from "./tree.ts";
import { walkProblems } from "./walk.ts";

export type { FieldProblem } from "./explain.ts";

/** Explaining compares errors with each other; a thousand wrong items are not told one by one anyway. */
const MAX_ERRORS = 1000;

const WORDS = ["impact", "not-yet", "list", "quantity", "atomic", "secret", "file", "scope", "alike", "keeps"].map(
  (word) => `x-beige-${word}`,
);

function compiler(): Ajv {
  // No coercion and no defaults: validation never changes its input.
  const ajv = new Ajv({ allErrors: true, strict: true, strictTypes: false, strictRequired: false, allowUnionTypes: true });
  for (const word of [...WORDS, "markdownDescription", "defaultSnippets"]) ajv.addKeyword(word);
  ajv.addFormat("regex", isRegex);
  ajv.addSchema(COMMON, "https://beige.dev/schemas/common.json");
  return ajv;
}

const isRegex = (text: string): boolean => {
  try {
    return new RegExp(text, "u") instanceof RegExp;
  } catch {
    return false;
  }
};

const compiled = new WeakMap<Schema, ValidateFunction>();

/** Compiled once a schema, at its first use. */
function validator(schema: Schema): ValidateFunction {
  let found = compiled.get(schema);
  if (found === undefined) {
    found = compiler().compile(schema);
    compiled.set(schema, found);
  }
  return found;
}

/** What is wrong with an object, whoever sent it; at most 100 problems. The input is not changed. */
export function validateObject(value: unknown, schemas: Schemas = SCHEMAS): readonly FieldProblem[] {
  if (!isObject(value)) return [{ message: "object is no mapping", path: "", what: "value", hint: "start it with apiVersion: and kind:" }];
  const known = [...schemas.keys()];
  const kind = value["kind"];
  if (kind === undefined) return [{ message: "kind is missing", path: "", what: "value", hint: `kinds: ${listed(known)}` }];
  const schema = typeof kind === "string" ? schemas.get(kind) : undefined;
  if (schema === undefined) return [unknownKind(kind, known)];
  return atMost([...envelope(value, schemas), ...against(schema, value)]);
}

function atMost(problems: readonly FieldProblem[]): readonly FieldProblem[] {
  const more = problems.length - MAX_PROBLEMS;
  if (more <= 0) return problems;
  return [...problems.slice(0, MAX_PROBLEMS), { message: `and ${String(more)} more problems in this object`, path: "", what: "value" }];
}

function unknownKind(kind: unknown, known: readonly string[]): FieldProblem {
  const name = typeof kind === "string" ? kind : "";
  const near = nearest(name, known);
  const hint = near === undefined ? `kinds of this version: ${listed(known)}` : `did you mean "${near}"? kinds: ${listed(known)}`;
  return { message: typeof kind === "string" ? `unknown kind "${clip(kind)}"` : "kind must be text", path: "/kind", what: "value", hint };
}

/** What the schema cannot say well: the version, and a namespace where there is none. */
function envelope(value: Readonly<Record<string, unknown>>, schemas: Schemas): FieldProblem[] {
  const problems: FieldProblem[] = [];
  const kind = String(value["kind"]);
  const version = value["apiVersion"];
  if (version !== undefined && version !== API_VERSION)
    problems.push({
      message: `apiVersion is not ${API_VERSION}`,
      path: "/apiVersion",
      what: "value",
      hint: `write apiVersion: ${API_VERSION}`,
    });
  const metadata = value["metadata"];
  if (scopeOf(schemas, kind) === "Cluster" && isObject(metadata) && metadata["namespace"] !== undefined && metadata["namespace"] !== "")
    problems.push({ message: `a ${kind} has no namespace`, path: "/metadata/namespace", what: "key", hint: "remove it" });
  return problems;
}

/** All problems of a value against one schema, each fault once. */
function against(schema: Schema, value: unknown): readonly FieldProblem[] {
  const validate = validator(schema);
  const errors: readonly ErrorObject[] = validate(value) ? [] : (validate.errors ?? []);
  const explained = explainErrors(errors.slice(0, MAX_ERRORS), value, schema);
  const [first] = errors;
  // Whatever the explanations leave out: a refused value is never taken for a good one.
  if (first && explained.length === 0 && first.instancePath !== "/apiVersion")
    return [{ message: `object is not valid: ${first.message ?? first.keyword}`, path: first.instancePath, what: "value" }];
  const said = new Set(explained.map((p) => p.path));
  return [...explained, ...walkProblems(value, schema).filter((p) => !said.has(p.path))];
}

/** The same for a document of a manifest, with file, line, column and the source line. */
export function validateDocument(document: ManifestDocument, schemas: Schemas = SCHEMAS): readonly Problem[] {
  const value = document.value;
  const kind = isObject(value) && typeof value["kind"] === "string" ? value["kind"] : undefined;
  const metadata = isObject(value) ? value["metadata"] : undefined;
  const name = isObject(metadata) && typeof metadata["name"] === "string" ? metadata["name"] : undefined;
  const kindVaries = document.variables("/kind").length > 0;
  const object = kind === undefined || (kindVaries && !schemas.has(kind)) ? undefined : clip(name === undefined ? kind : `${kind}/${name}`);
  const fresh = validateObject(value, schemas).filter((p) => !document.reported(p.path));
  return fresh.map((p): Problem => {
    const at = document.at(p.path, p.what);
    const line = document.line(at.line);
    // A value that came from a variable is not repeated: the line shows the variable's name.
    const hidden = p.path === "/kind" && kindVaries;
    return {
      message: hidden ? "unknown kind" : p.message,
      path: p.path,
      at,
      ...(object === undefined ? {} : { object }),
      ...(p.hint === undefined ? {} : { hint: p.hint }),
      ...(line === undefined ? {} : { line }),
    };
  });
}

/** host.yaml, with its defaults; without a policy when anything is wrong with it. An empty file allows nothing. */
export function validateHost(text: string, file = "host.yaml"): { readonly policy?: HostPolicy; readonly problems: readonly Problem[] } {
  const schema = host as Schema;
  const { tree, faults } = parseYaml(text);
  const source = lines(text);
  const place = (offset: number): Position => ({ file, ...source.place(offset) });
  // Lines are not shown: somebody may have put a secret there.
  if (faults.length > 0) return { problems: faults.map(({ offset, ...fault }) => ({ ...fault, at: place(offset) })) };
  const value = tree === undefined ? {} : plainValue(tree);
  const problems = against(schema, value).map(({ what, ...p }): Problem => ({
    ...p,
    at: place(offsetAt(tree, pointerParts(p.path), what)),
  }));
  return problems.length > 0 ? { problems } : { policy: withDefaults(schema, value) as HostPolicy, problems };
}
