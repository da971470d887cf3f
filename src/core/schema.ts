// The schemas as a tree to walk: every reader of x-beige-* words and defaults goes through here.
import agent from "../../schemas/agent.json" with { type: "json" };
import common from "../../schemas/common.json" with { type: "json" };
import plugin from "../../schemas/plugin.json" with { type: "json" };
import provider from "../../schemas/provider.json" with { type: "json" };
import schedule from "../../schemas/schedule.json" with { type: "json" };
import source from "../../schemas/source.json" with { type: "json" };

/** The part of JSON Schema that our schemas use, and our own words. */
export interface Schema {
  readonly $id?: string;
  readonly $ref?: string;
  readonly title?: string;
  readonly description?: string;
  readonly type?: string;
  readonly const?: unknown;
  readonly enum?: readonly unknown[];
  readonly default?: unknown;
  readonly properties?: Readonly<Record<string, Schema>>;
  readonly required?: readonly string[];
  readonly additionalProperties?: boolean | Schema;
  readonly propertyNames?: Schema;
  readonly items?: Schema;
  readonly anyOf?: readonly Schema[];
  readonly pattern?: string;
  readonly format?: string;
  readonly minimum?: number;
  readonly maximum?: number;
  readonly minLength?: number;
  readonly maxLength?: number;
  readonly minItems?: number;
  readonly examples?: readonly unknown[];
  /** What a change does to the running thing. */
  readonly "x-beige-impact"?: "live" | "update" | "replace";
  /** A change from one of these values to another is live, whatever the impact says. */
  readonly "x-beige-alike"?: readonly unknown[];
  /** The field, or these values of it, are refused: not in this version. */
  readonly "x-beige-not-yet"?: true | readonly unknown[];
  /** Identity of a list's items: the name of their key, or "set". Other lists are atomic. */
  readonly "x-beige-list"?: string;
  readonly "x-beige-quantity"?: "bytes" | "cores";
  /** Owned and replaced as a whole, such as a reference. */
  readonly "x-beige-atomic"?: true;
  /** A write that does not name the field leaves it as it is stored, whatever the default is now. */
  readonly "x-beige-keeps"?: true;
  /** A reference to a secret: literals are refused. */
  readonly "x-beige-secret"?: true;
  /** {file: PATH} stands for the file's text. */
  readonly "x-beige-file"?: true;
  /** Scope of a kind, at the root of its schema. */
  readonly "x-beige-scope"?: "Cluster" | "Namespaced";
}

/** Schemas by kind, in apply order where references do not say otherwise. */
export type Schemas = ReadonlyMap<string, Schema>;

/** The kinds of this version, or of whoever passes its own. */
export function schemaSet(schemas: readonly object[]): Schemas {
  return new Map(
    schemas.map((s) => {
      const schema = s as Schema;
      const kind = resolve(schema).properties?.["kind"]?.const;
      return [typeof kind === "string" ? kind : (schema.title ?? ""), schema];
    }),
  );
}

export const SCHEMAS: Schemas = schemaSet([provider, plugin, agent, schedule, source]);
export const COMMON = common as Schema & { readonly definitions: Readonly<Record<string, Schema>> };

/** What a $ref points to; the keys beside it win. */
export function resolve(schema: Schema): Schema {
  if (schema.$ref === undefined) return schema;
  const name = /^common\.json#\/definitions\/(\w+)$/.exec(schema.$ref)?.[1];
  const target = name === undefined ? undefined : COMMON.definitions[name];
  if (target === undefined) throw new Error(`schema reference ${schema.$ref} leads nowhere`);
  const { $ref: _ref, ...beside } = schema;
  return { ...target, ...beside };
}

const isObject = (value: unknown): value is Readonly<Record<string, unknown>> =>
  typeof value === "object" && value !== null && !Array.isArray(value);

/** The branch of an anyOf that a value is meant for. */
export function branch(schema: Schema, value: unknown): Schema {
  const whole = resolve(schema);
  if (whole.anyOf === undefined) return whole;
  const wanted = Array.isArray(value) ? "array" : isObject(value) ? "object" : typeof value;
  const found = whole.anyOf.find((b) => resolve(b).type === wanted || (wanted === "number" && resolve(b).type === "integer"));
  return found === undefined ? whole : { ...whole, ...resolve(found) };
}

/** Schema of one member of a value; undefined when it is unknown or free-form. */
export function member(schema: Schema, key: string, value?: unknown): Schema | undefined {
  const whole = branch(schema, value ?? {});
  if (whole.properties && Object.hasOwn(whole.properties, key)) {
    const found = whole.properties[key];
    return found === undefined ? undefined : resolve(found);
  }
  if (isObject(whole.additionalProperties)) return resolve(whole.additionalProperties);
  return whole.items && /^[0-9]+$/.test(key) ? resolve(whole.items) : undefined;
}

/** Schema at the end of a path of keys and indexes. */
export function schemaAt(schema: Schema, parts: readonly string[]): Schema | undefined {
  let at: Schema | undefined = resolve(schema);
  for (const part of parts) at = at && (at.type === "array" || at.items ? at.items && resolve(at.items) : member(at, part));
  return at;
}

export const scopeOf = (schemas: Schemas, kind: string): "Cluster" | "Namespaced" | undefined => {
  const schema = schemas.get(kind);
  return schema === undefined ? undefined : (schema["x-beige-scope"] ?? "Namespaced");
};

export { isObject };
