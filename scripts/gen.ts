// Writes what is derived from the schemas: schemas/types.ts, schemas/beige.json and the pages of docs/reference. `--check` compares instead.
import { existsSync, readFileSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { compile } from "json-schema-to-typescript";
import { reference } from "./reference.ts";

const root = join(dirname(fileURLToPath(import.meta.url)), "..");
const schemas = join(root, "schemas");
const kinds = ["provider", "plugin", "agent", "schedule", "source"];
type Json = Record<string, unknown>;

const load = (name: string): Json => JSON.parse(readFileSync(join(schemas, `${name}.json`), "utf8")) as Json;

/** A normalised object has every default filled in, so the type makes fields with a default required. */
function normalised(node: unknown): unknown {
  if (Array.isArray(node)) return node.map(normalised);
  if (typeof node !== "object" || node === null) return node;
  const copy = Object.fromEntries(Object.entries(node as Json).map(([key, value]) => [key, normalised(value)]));
  const properties = copy["properties"] as Record<string, Json> | undefined;
  if (properties) {
    const always = Object.keys(properties).filter((key) => properties[key]?.["default"] !== undefined);
    copy["required"] = [...new Set([...((copy["required"] as string[]) ?? []), ...always])];
  }
  delete copy["minItems"];
  return copy;
}

async function types(): Promise<string> {
  const common = load("common")["definitions"] as Json;
  const whole: Json = { title: "Schemas", type: "object", additionalProperties: false, definitions: common, properties: {} };
  const socket = load("socket")["definitions"] as Json;
  for (const name of kinds) {
    const spec = (load(name)["properties"] as Json)["spec"] as Json;
    (whole["properties"] as Json)[name] = spec;
  }
  (whole["properties"] as Json)["host"] = load("host");
  (whole["properties"] as Json)["metadata"] = common["Metadata"];
  for (const [name, schema] of Object.entries(socket)) (whole["properties"] as Json)[name] = schema;
  const text = JSON.stringify(normalised(whole)).replaceAll("common.json#/", "#/");
  return compile(JSON.parse(text) as Json, "Schemas", {
    additionalProperties: false,
    bannerComment: "// Generated from the schemas by `npm run gen`: do not edit. Every default is filled in.",
    ignoreMinAndMaxItems: true,
    style: { printWidth: 120 },
  });
}

/** As our own validation sees it: what is not in this version is not offered, and hovers say default and impact. */
function forEditors(node: unknown): unknown {
  if (Array.isArray(node)) return node.map(forEditors);
  if (typeof node !== "object" || node === null) return node;
  const { "x-beige-not-yet": later, ...own } = node as Json;
  const copy: Json = Object.fromEntries(Object.entries(own).map(([key, value]) => [key, DATA.has(key) ? value : forEditors(value)]));
  const properties = own["properties"] as Record<string, Json> | undefined;
  if (properties) {
    const offered = Object.entries(copy["properties"] as Json).filter(([key]) => properties[key]?.["x-beige-not-yet"] !== true);
    copy["properties"] = Object.fromEntries(offered);
  }
  if (Array.isArray(later) && Array.isArray(own["enum"])) copy["enum"] = own["enum"].filter((value) => !later.includes(value));
  if (typeof own["description"] === "string") copy["markdownDescription"] = hover(own);
  return copy;
}

/** Keywords that hold data, not schemas. */
const DATA = new Set(["default", "const", "enum", "examples", "required"]);

const IMPACT: Readonly<Record<string, string>> = {
  live: "A change acts at once.",
  update: "A change is made in place.",
  replace: "A change replaces the sandbox; sessions go on.",
};

function hover(node: Json): string {
  const impact = IMPACT[String(node["x-beige-impact"])];
  const fallback = node["default"] === undefined ? undefined : `Default: \`${JSON.stringify(node["default"])}\``;
  return [String(node["description"]), fallback, impact].filter((part) => part !== undefined).join("\n\n");
}

/** One schema for every document of a stack: if/then by kind gives better messages in editors than oneOf. */
function editor(): string {
  const definitions: Json = { ...(forEditors(load("common")["definitions"]) as Json) };
  const loaded = kinds.map((name) => ({ whole: load(name), title: load(name)["title"] as string }));
  for (const { whole, title } of loaded) {
    const { $schema: _schema, $id: _id, examples: _examples, ...rest } = whole;
    definitions[title] = forEditors(rest);
  }
  const names = loaded.map(({ title }) => title);
  const cluster = loaded.filter(({ whole }) => whole["x-beige-scope"] === "Cluster").map(({ title }) => title);
  const schema = {
    $schema: "http://json-schema.org/draft-07/schema#",
    $id: "https://beige.dev/schemas/beige.json",
    title: "beige",
    description: "Any document of a beige stack.",
    type: "object",
    required: ["apiVersion", "kind"],
    properties: {
      apiVersion: { const: "beige.dev/v1", description: "Always beige.dev/v1." },
      kind: { enum: names, description: "What the document describes." },
    },
    defaultSnippets: loaded.map(({ whole, title }) => ({
      label: title,
      description: String(whole["description"]),
      body: (whole["examples"] as Json[] | undefined)?.[0] ?? {},
    })),
    allOf: [
      ...names.map((name) => when([name], { $ref: `#/definitions/${name}` })),
      when(cluster, { properties: { metadata: { not: { required: ["namespace"] } } } }),
    ],
    definitions,
  };
  return `${JSON.stringify(schema, null, 2).replaceAll("common.json#/", "#/")}\n`;
}

const when = (names: readonly string[], then: Json): Json => ({
  if: { properties: { kind: { enum: names } }, required: ["kind"] },
  // oxlint-disable-next-line unicorn/no-thenable -- a keyword of JSON Schema; nobody awaits it
  then,
});

const pages = Object.entries(reference()).map(([name, text]) => [`docs/reference/${name}`, text] as const);
const outputs = [["schemas/types.ts", await types()], ["schemas/beige.json", editor()], ...pages] as const;
for (const [name, text] of outputs) {
  const path = join(root, name);
  if (process.argv.includes("--check")) {
    if (!existsSync(path) || readFileSync(path, "utf8") !== text) {
      console.error(`${name} is not what the schemas say; run: npm run gen`);
      process.exitCode = 1;
    }
  } else writeFileSync(path, text);
}
