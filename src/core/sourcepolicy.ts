// What the manifests of a Source may bring: host.yaml decides. Pure.
import type { HostPolicy } from "../../schemas/types.ts";
import type { Problem } from "./errors.ts";
import { branch, isObject, member, resolve, type Schema } from "./schema.ts";
import { pointer } from "./text.ts";

export interface SourceLimits {
  readonly kinds: readonly string[];
  /** Variables of the gateway's environment that {env: NAME} may name. */
  readonly variables: readonly string[];
}

/** Neither Provider, Plugin nor Source: they carry the gateway's own power. */
const BY_DEFAULT: SourceLimits = { kinds: ["Agent", "Schedule"], variables: [] };

export const sourceLimits = (host: HostPolicy): SourceLimits => host.sources ?? BY_DEFAULT;

interface Named {
  readonly path: readonly string[];
  readonly name: string;
}

/** References {env: NAME} in the places of secrets. */
function variablesOf(value: unknown, schema: Schema | undefined, path: readonly string[]): readonly Named[] {
  if (schema === undefined || path.length > 100) return [];
  const node = branch(schema, value);
  if (node["x-beige-secret"] === true) {
    const name = isObject(value) ? value["env"] : undefined;
    return typeof name === "string" ? [{ path: [...path, "env"], name }] : [];
  }
  if (Array.isArray(value)) {
    const { items } = node;
    return items === undefined ? [] : value.flatMap((item, i) => variablesOf(item, resolve(items), [...path, String(i)]));
  }
  if (!isObject(value)) return [];
  return Object.entries(value).flatMap(([key, item]) => variablesOf(item, member(node, key, value), [...path, key]));
}

/** Where an object names variables of the gateway. */
export const variablesIn = (value: unknown, schema: Schema | undefined): readonly { readonly path: string; readonly name: string }[] =>
  variablesOf(value, schema, []).map(({ path, name }) => ({ path: pointer(path), name }));

/** What host policy forbids of one object, each with the line of host.yaml that allows it. */
export function sourceProblems(
  kind: string,
  value: unknown,
  of: { readonly limits: SourceLimits; readonly schema: Schema | undefined },
): readonly Problem[] {
  const { limits, schema } = of;
  if (!limits.kinds.includes(kind)) {
    const kinds = [...limits.kinds, kind].join(", ");
    const hint = `the operator allows it in host.yaml: sources: {kinds: [${kinds}]}`;
    return [{ message: `a Source may not bring a ${kind}`, path: "/kind", hint }];
  }
  return variablesOf(value, schema, [])
    .filter(({ name }) => !limits.variables.includes(name))
    .map(({ path, name }) => ({
      message: `a Source may not use the gateway's variable ${name}`,
      path: pointer(path),
      hint: `the operator allows it in host.yaml: sources: {variables: [${[...limits.variables, name].join(", ")}]}; or bind a secret to its host and name that`,
    }));
}
