// Reads typed fields out of untrusted bodies and queries; whatever is wrong is a 400 that names the field.
import { badRequest } from "./status.ts";

export type Unknowns = Readonly<Record<string, unknown>>;

/** An object with none but these keys: a misspelt flag must not be taken for an absent one. */
export function only(value: unknown, keys: readonly string[], where = "the request body"): Unknowns {
  const object = record(value, where);
  const odd = Object.keys(object).find((key) => !keys.includes(key));
  if (odd !== undefined) throw badRequest(`unknown field ${JSON.stringify(odd)} in ${where}`, `known fields: ${keys.join(", ")}`);
  return object;
}

export function record(value: unknown, where: string): Unknowns {
  if (typeof value !== "object" || value === null || Array.isArray(value)) throw badRequest(`${where} must be a JSON object`);
  return value as Unknowns;
}

const own = (from: Unknowns, key: string): unknown => (Object.hasOwn(from, key) ? from[key] : undefined);

export function optionalText(from: Unknowns, key: string, max = 4096): string | undefined {
  const value = own(from, key);
  if (value === undefined || value === null) return undefined;
  if (typeof value !== "string") throw badRequest(`${key} must be a string${Array.isArray(value) ? ", given once" : ""}`);
  if (value.length > max) throw badRequest(`${key} is longer than ${max} characters`);
  return value;
}

export function text(from: Unknowns, key: string, max = 4096): string {
  const value = optionalText(from, key, max);
  if (value === undefined || value === "") throw badRequest(`${key} is needed`);
  return value;
}

export function flag(from: Unknowns, key: string, absent: boolean): boolean {
  const value = own(from, key);
  if (value === undefined || value === null) return absent;
  if (typeof value !== "boolean") throw badRequest(`${key} must be true or false`);
  return value;
}

export function wholeNumber(
  from: Unknowns,
  key: string,
  range: { readonly min: number; readonly max: number; readonly absent: number },
): number {
  const value = own(from, key);
  if (value === undefined || value === null) return range.absent;
  if (typeof value !== "number" || !Number.isInteger(value) || value < range.min || value > range.max)
    throw badRequest(`${key} must be a whole number from ${range.min} to ${range.max}`);
  return value;
}

export function texts(from: Unknowns, key: string, max: number): readonly string[] {
  const value = own(from, key) ?? [];
  if (!Array.isArray(value) || value.length > max || !value.every((item) => typeof item === "string"))
    throw badRequest(`${key} must be a list of at most ${max} strings`);
  return value;
}

/** A map of strings, without a prototype, so that no key means anything. */
export function textMap(from: Unknowns, key: string): Readonly<Record<string, string>> {
  const value = own(from, key);
  const out = Object.create(null) as Record<string, string>;
  if (value === undefined || value === null) return out;
  for (const [name, item] of Object.entries(record(value, key))) {
    if (typeof item !== "string") throw badRequest(`${key}[${JSON.stringify(name)}] must be a string`);
    out[name] = item;
  }
  return out;
}

/** A query switch, as Kubernetes clients write it. */
export function queryFlag(query: Unknowns, key: string): boolean {
  const value = optionalText(query, key, 10);
  if (value === undefined || value === "" || value === "0" || value === "false") return false;
  if (value === "1" || value === "true") return true;
  throw badRequest(`${key} must be true or false`);
}

export function queryNumber(
  query: Unknowns,
  key: string,
  range: { readonly min: number; readonly max: number; readonly absent: number },
): number {
  const value = optionalText(query, key, 12);
  if (value === undefined || value === "") return range.absent;
  if (!/^\d+$/.test(value)) throw badRequest(`${key} must be a whole number`);
  return Math.min(range.max, Math.max(range.min, Number(value)));
}
