// An object as the author would have written it: what the gateway added is left out, and `${` survives being applied again.
import type { Resource } from "../core/resource.ts";
import { escapeVariables } from "../core/variables.ts";

export interface NeatOptions {
  readonly managed?: boolean;
  /** Only what a manifest holds. */
  readonly brief?: boolean;
  /** Doubles `$` where a manifest would read a variable. */
  readonly escape?: boolean;
}

/** Doubles `$` in every text where a manifest would read a variable. */
export function escaped(value: unknown): unknown {
  if (typeof value === "string") return escapeVariables(value);
  if (Array.isArray(value)) return value.map(escaped);
  if (typeof value !== "object" || value === null) return value;
  return Object.fromEntries(Object.entries(value).map(([key, child]) => [key, escaped(child)]));
}

export function neat(object: Resource, options: NeatOptions = {}): Record<string, unknown> {
  const { managedFields, ...meta } = object.metadata;
  const brief = {
    name: meta.name,
    ...(meta.namespace && { namespace: meta.namespace }),
    ...(meta.labels && { labels: meta.labels }),
    ...(meta.annotations && { annotations: meta.annotations }),
  };
  const metadata = options.brief === true ? brief : { ...meta, ...(options.managed === true && managedFields && { managedFields }) };
  const escape = options.escape === false ? (value: unknown) => value : escaped;
  return {
    apiVersion: object.apiVersion,
    kind: object.kind,
    metadata: escape(metadata),
    spec: escape(object.spec),
    ...(options.brief !== true && object.status && { status: object.status }),
  };
}
