// Fields that a kind does not have, in a body: refused, told or dropped, as the writer asks (`fieldValidation` of Kubernetes).
import type { KindInfo } from "../core/control.ts";
import { SERVER_METADATA } from "../core/normalise.ts";
import { branch, isObject, member, resolve, type Schema } from "../core/schema.ts";
import { badRequest } from "./status.ts";

export type Validation = "Strict" | "Warn" | "Ignore";

const MOST = 20;

/** The body without unknown fields, and a sentence for each one. Throws a 400 when they are to be refused. */
export function screened(
  info: KindInfo,
  body: unknown,
  validation: Validation | undefined,
): { readonly body: unknown; readonly warnings: readonly string[] } {
  if (validation === undefined) return { body, warnings: [] };
  const unknown: string[] = [];
  const kept = screen(body, resolve(info.schema), "", unknown);
  const told = unknown.slice(0, MOST).map((path) => `unknown field ${JSON.stringify(path)}`);
  if (validation === "Strict" && told.length > 0)
    throw badRequest(`strict decoding error: ${told.join(", ")}`, `kubectl explain ${info.plural} --recursive`);
  return { body: kept, warnings: validation === "Warn" ? told : [] };
}

function screen(value: unknown, schema: Schema | undefined, path: string, unknown: string[]): unknown {
  if (schema === undefined) return value;
  if (Array.isArray(value)) {
    const { items } = branch(schema, value);
    return value.map((item, i) => screen(item, items && branch(items, item), `${path}[${i}]`, unknown));
  }
  if (!isObject(value)) return value;
  const node = branch(schema, value);
  const closed = node.properties !== undefined && node.additionalProperties === false;
  const kept = Object.entries(value).flatMap(([key, item]): [string, unknown][] => {
    const at = path === "" ? key : `${path}.${key}`;
    const known = member(node, key, value);
    if (known !== undefined) return [[key, screen(item, known, at, unknown)]];
    if (!closed || at === "status" || (path === "metadata" && SERVER_METADATA.has(key))) return [[key, item]];
    unknown.push(at);
    return [];
  });
  return Object.fromEntries(kept);
}
