// beige explain and api-resources: what the kinds are, and what each of their fields means, does and is by default.
import { BeigeError } from "../../core/errors.ts";
import type { Schema } from "../../core/schema.ts";
import { nearest } from "../../core/text.ts";
import { choicesText, factsOf, type Field, fieldsOf, kindSchema, typeText } from "../fields.ts";
import { type Context, on, type Run, word } from "../flags.ts";
import { KINDS, type KindName, kindWords } from "../names.ts";
import type { Output } from "../output.ts";
import { plainYaml } from "../render/plain.ts";
import { drawTable } from "../render/table.ts";

function kindOf(text: string): KindName {
  const lower = text.toLowerCase();
  const found = KINDS.find((kind) => kind.kind.toLowerCase() === lower || kind.plural === lower || kind.short.includes(lower));
  if (found) return found;
  const near = nearest(lower, kindWords(KINDS));
  throw new BeigeError("invalid", `unknown kind "${text}"`, {
    hint: near === undefined ? "beige api-resources" : `did you mean "${near}"?`,
  });
}

interface Place {
  readonly kind: KindName;
  readonly path: readonly string[];
  readonly schema: Schema;
  readonly required: boolean;
}

/** A path may leave out `spec`; indexes of lists are passed over. */
function find(text: string): Place {
  const [first = "", ...rest] = text.split(".").map((part) => part.replace(/\[[^\]]*\]$/, ""));
  const kind = kindOf(first);
  let place: Place = { kind, path: [], schema: kindSchema(kind.kind), required: false };
  for (const name of rest.filter(Boolean)) {
    const own = fieldsOf(place.schema);
    const spec = place.path.length === 0 && !own.some((each) => each.name === name) ? own.find((each) => each.name === "spec") : undefined;
    const among = spec === undefined ? own : fieldsOf(spec.schema);
    const field = among.find((each) => each.name === name);
    const before = [...place.path, ...(spec === undefined ? [] : ["spec"])];
    if (field === undefined) throw unknownField(kind, before, { name, among });
    place = { kind, path: [...before, name], schema: field.schema, required: field.required };
  }
  return place;
}

function unknownField(
  kind: KindName,
  path: readonly string[],
  of: { readonly name: string; readonly among: readonly Field[] },
): BeigeError {
  const names = of.among.map((each) => each.name);
  const near = nearest(of.name, names);
  const where = [kind.kind.toLowerCase(), ...path].join(".");
  const hint =
    near === undefined ? (names.length === 0 ? `${where} has no fields` : `${where} has ${names.join(", ")}`) : `did you mean "${near}"?`;
  return new BeigeError("invalid", `${where} has no field "${of.name}"`, { hint });
}

const wrap = (text: string, width: number): readonly string[] =>
  text.split("\n").flatMap((line) => [...line.matchAll(new RegExp(`.{1,${width}}(?:\\s|$)|\\S+`, "g"))].map((match) => match[0].trimEnd()));

/** Type, choices, default and impact on one line. */
function brief(field: Field): string {
  const { schema } = field;
  const usual = schema.default === undefined ? "" : `default ${JSON.stringify(schema.default)}`;
  const later = schema["x-beige-not-yet"] === true ? "not in this version" : "";
  const parts = [
    `<${typeText(schema)}>`,
    field.required ? "required" : "",
    choicesText(schema),
    usual,
    schema["x-beige-impact"] ?? "",
    later,
  ];
  return parts.filter(Boolean).join("   ");
}

function fieldLines(out: Output, fields: readonly Field[], how: { readonly deep: boolean; readonly indent: string }): readonly string[] {
  const width = Math.max(0, ...fields.map((each) => each.name.length));
  return fields.flatMap((field) => {
    const head = `${how.indent}${out.paint("bold", field.name)}${" ".repeat(width - field.name.length)}  ${brief(field)}`;
    const below = how.deep ? fieldLines(out, fieldsOf(field.schema), { deep: true, indent: `${how.indent}  ` }) : [];
    const text = how.deep
      ? []
      : wrap(field.schema.description ?? "", 90).map((line) => `${how.indent}${" ".repeat(width)}  ${out.paint("dim", line)}`);
    return [head, ...text, ...below];
  });
}

function page(out: Output, place: Place, deep: boolean): string {
  const { kind, path, schema } = place;
  const fields = fieldsOf(schema);
  const title = [kind.kind.toLowerCase(), ...path].join(".");
  const scope =
    path.length === 0
      ? `beige.dev/v1, ${kind.namespaced ? "in namespaces" : "for the whole gateway"}`
      : `<${typeText(schema)}>${place.required ? "   required" : ""}`;
  const facts = factsOf(schema).map(([name, text]) => `  ${name.padEnd(8)} ${text}`);
  const [example] = schema.examples ?? [];
  const own = path.at(-1);
  const shown = example === undefined ? [] : plainYaml(own === undefined ? example : { [own]: example });
  const parts = [
    [`${out.paint("bold", title)}   ${scope}`],
    wrap(schema.description ?? "", 100).map((line) => `  ${line}`),
    facts,
    fields.length === 0 ? [] : ["fields:", ...fieldLines(out, fields, { deep, indent: "  " })],
    shown.length === 0 ? [] : ["example:", ...shown.map((line) => `  ${line}`)],
  ];
  return `${parts
    .filter((lines) => lines.length > 0)
    .map((lines) => lines.join("\n"))
    .join("\n\n")}\n`;
}

export const run: Run = async (context, input) => {
  const place = find(input.args[0] ?? "");
  if (word(input, "output") === "json") {
    const { kind, path, schema, required } = place;
    await context.out.write(`${JSON.stringify({ kind: kind.kind, path: path.join("."), required, schema }, undefined, 2)}\n`);
  } else await context.out.write(page(context.out, place, on(input, "recursive")));
  return 0;
};

/** Kinds of the gateway where one answers, else of this program. */
async function allKinds(context: Context): Promise<readonly KindName[]> {
  const asked = await context.client.get<readonly KindName[]>({ path: "/api/kinds", idleMs: 5_000 }).catch(() => KINDS);
  return asked.map(({ kind, plural, short, namespaced }) => ({ kind, plural, short, namespaced }));
}

export const resources: Run = async (context, input) => {
  const kinds = await allKinds(context);
  const how = word(input, "output");
  if (how === "json") await context.out.write(`${JSON.stringify({ items: kinds }, undefined, 2)}\n`);
  else if (how === "name") await context.out.write(kinds.map((each) => `${each.plural}\n`).join(""));
  else {
    const rows = kinds.map((each) => [each.plural, each.short.join(","), "beige.dev/v1", String(each.namespaced), each.kind]);
    const drawn = drawTable(["NAME", "SHORTNAMES", "APIVERSION", "NAMESPACED", "KIND"], rows);
    await context.out.write(`${[context.out.paint("dim", drawn.header), ...drawn.rows].join("\n")}\n`);
  }
  return 0;
};
