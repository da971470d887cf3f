// Manifests out of a schema: every leaf that this version has, with any value that it takes, so far as the world of the sims has what it names.
import fc from "fast-check";
import { isObject, resolve, SCHEMAS, type Schema } from "../../src/core/schema.ts";

/** Values for what names something: by dotted path, `*` for any member or item. */
export type Named = Readonly<Record<string, fc.Arbitrary<unknown>>>;

const words = fc.string({ maxLength: 12 }).filter((text) => text.isWellFormed() && !text.includes("\0"));

const config = fc.oneof(
  words,
  fc.integer(),
  fc.boolean(),
  fc.array(words, { maxLength: 2 }),
  fc.dictionary(fc.constantFrom("a", "b"), words),
);

/** What the sims' machine has, and what a pattern alone does not say. */
const NAMED: Named = {
  "model.provider": fc.constant("echo"),
  "fallbacks.*.provider": fc.constant("echo"),
  "instructions.file": fc.constant("./x.md"),
  tools: fc.constantFrom<(readonly string[])[]>([], ["memory"], ["memory/memory"]),
  plugins: fc.dictionary(fc.constant("memory"), fc.dictionary(fc.constantFrom("size", "deep"), config)),
  "sandbox.backend": fc.constant("docker"),
  "sandbox.image": fc.constantFrom("beige-base:1", "beige-base:2"),
  "sandbox.packages.*": fc.constantFrom("jq", "tree", "curl=8.*"),
  "sandbox.env": fc.dictionary(fc.constantFrom("A", "_b", "NODE_ENV"), words),
  "sandbox.path": fc.constantFrom("/bin", "/opt/bin:/bin"),
  "sandbox.mounts.*.source": fc.constantFrom("/data/a", "/data/b"),
  "sandbox.mounts.*.target": fc.constantFrom("/data", "/m/1", "/tmp/x"),
  "sandbox.resources.memory": fc.constantFrom("1Gi", "512Mi", "1024Mi", 67_108_864, "0.5G"),
  "sandbox.resources.cpus": fc.constantFrom("500m", 0.5, 2, "2", "1.5"),
  "sandbox.resources.tmp": fc.constantFrom("64Mi", 67_108_864, "1G"),
  "sandbox.resources.disk": fc.constantFrom("10Gi", 10_737_418_240),
  "sandbox.network.allow.*": fc.oneof(
    fc.constantFrom("api.example.com", "api.example.com:443", "*.github.com"),
    fc.record(
      {
        host: fc.constant("api.example.com"),
        ports: fc.constantFrom([443], [443, 8443]),
        private: fc.constant(false),
      },
      { requiredKeys: ["host"] },
    ),
    fc.record(
      {
        host: fc.constant("api.example.com"),
        secret: fc.constant("example"),
        header: fc.constantFrom("x-key", "Authorization"),
        prefix: fc.constantFrom("", "Bearer "),
      },
      { requiredKeys: ["host", "secret"] },
    ),
  ),
  "workspace.path": fc.constantFrom("/srv/a", "/srv/b"),
};

const named = (path: readonly string[], all: Named): fc.Arbitrary<unknown> | undefined => all[path.join(".")];

/** What is optional is there this often, of ten. */
const OFTEN = 6;

/** Whether this version refuses the field whatever is in it. */
const absent = (schema: Schema): boolean => schema["x-beige-not-yet"] === true;

function object(schema: Schema, path: readonly string[], all: Named): fc.Arbitrary<unknown> {
  const { properties = {}, required = [], additionalProperties } = schema;
  const fields = Object.entries(properties).filter(([, own]) => !absent(resolve(own)));
  if (fields.length === 0 && isObject(additionalProperties))
    return fc.dictionary(fc.stringMatching(/^[a-z][a-z0-9-]{0,6}$/), arbitrary(additionalProperties, [...path, "*"], all), { maxKeys: 3 });
  const members = fields.map(([key, own]) => {
    const value = arbitrary(own, [...path, key], all).map((it): readonly [string, unknown] => [key, it]);
    return required.includes(key) ? value : fc.option(value, { freq: OFTEN, nil: undefined });
  });
  return fc.tuple(...members).map((made) => Object.fromEntries(made.filter((member) => member !== undefined)));
}

function list(schema: Schema, path: readonly string[], all: Named): fc.Arbitrary<unknown> {
  const item = schema.items === undefined ? fc.string() : arbitrary(schema.items, [...path, "*"], all);
  const bounds = { minLength: schema.minItems ?? 0, maxLength: 3 };
  const identity = schema["x-beige-list"];
  if (identity !== undefined && identity !== "set")
    return fc.uniqueArray(item, { ...bounds, selector: (one) => (one as Record<string, unknown>)[identity] });
  return identity === "set" ? fc.uniqueArray(item, bounds) : fc.array(item, bounds);
}

const number = ({ minimum = 0, maximum = 1_000_000 }: Schema): fc.Arbitrary<number> =>
  fc.oneof(fc.constantFrom(minimum, maximum), fc.integer({ min: minimum, max: maximum }));

/** Any value that a schema takes. */
export function arbitrary(given: Schema, path: readonly string[] = [], all: Named = NAMED): fc.Arbitrary<unknown> {
  const schema = resolve(given);
  const own = named(path, all);
  if (own !== undefined) return own;
  if (schema.anyOf !== undefined) return fc.oneof(...schema.anyOf.map((one) => arbitrary(one, path, all)));
  if (schema.enum !== undefined) {
    const later = schema["x-beige-not-yet"];
    return fc.constantFrom(...schema.enum.filter((word) => !Array.isArray(later) || !later.includes(word)));
  }
  if (schema.type === "object") return object(schema, path, all);
  if (schema.type === "array") return list(schema, path, all);
  if (schema.type === "boolean") return fc.boolean();
  if (schema.type === "integer" || schema.type === "number") return number(schema);
  return schema.pattern === undefined
    ? words.filter((text) => text.length >= (schema.minLength ?? 0))
    : fc.stringMatching(new RegExp(schema.pattern, "u"), { maxLength: schema.maxLength ?? 20 });
}

const specOf = (kind: string): Schema => resolve(SCHEMAS.get(kind)?.properties?.["spec"] ?? {});

/** A spec of a kind. */
export const specs = (kind: string): fc.Arbitrary<Readonly<Record<string, unknown>>> =>
  arbitrary(specOf(kind)) as fc.Arbitrary<Readonly<Record<string, unknown>>>;

/** Dotted paths of every leaf that this version has, lists and mappings by `*`. */
export function leafPaths(kind: string): readonly string[] {
  const visit = (given: Schema, path: readonly string[]): readonly string[] => {
    const schema = resolve(given);
    if (absent(schema)) return [];
    const inner = schema.anyOf?.map(resolve).find((one) => one.properties) ?? schema;
    const here = schema.anyOf?.some((one) => resolve(one).properties === undefined) === true ? [path.join(".")] : [];
    if (inner.properties) return [...here, ...Object.entries(inner.properties).flatMap(([key, own]) => visit(own, [...path, key]))];
    if (inner.items) return visit(inner.items, [...path, "*"]);
    return [path.join(".")];
  };
  return visit(specOf(kind), []);
}

/** Those of them that a spec has. */
export function leavesIn(spec: unknown, known: ReadonlySet<string>): readonly string[] {
  const found = new Set<string>();
  const visit = (value: unknown, path: readonly string[]): void => {
    const at = path.join(".");
    if (known.has(at)) found.add(at);
    if (Array.isArray(value)) for (const item of value) visit(item, [...path, "*"]);
    else if (isObject(value)) for (const [key, item] of Object.entries(value)) visit(item, [...path, key]);
  };
  visit(spec, []);
  return [...found];
}
