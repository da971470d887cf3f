// The reference pages, written from the schemas and the table of verbs: one page a kind, and one for the command line.
import { type Field, factsOf, fieldsOf, kindSchema, typeText } from "../src/cli/fields.ts";
import { GLOBAL, type Flag, type Verb } from "../src/cli/flags.ts";
import { EXIT_CODES } from "../src/cli/help.ts";
import { KINDS, type KindName } from "../src/cli/names.ts";
import { plainYaml } from "../src/cli/render/plain.ts";
import { verbs } from "../src/cli/verbs.ts";
import { protocolPage } from "./protocol.ts";

const NOTE = "<!-- Written by `npm run gen` from the sources: do not edit. -->";
const cell = (text: string): string => text.replaceAll("|", "\\|").replaceAll("<", "&lt;").replaceAll("\n", " ");

function row(path: string, { schema, required }: Field): string {
  const later = schema["x-beige-not-yet"] === true;
  const facts = factsOf(schema)
    .filter(([name]) => !["default", "impact", "not yet"].includes(name))
    .map(([name, text]) => `${name}: ${text}`);
  const text = [schema.description ?? "", ...facts.map((fact) => `${fact}.`), later ? "**Not in this version.**" : ""]
    .filter(Boolean)
    .join(" ");
  const usual = required ? "required" : schema.default === undefined ? "" : `\`${JSON.stringify(schema.default)}\``;
  return `| \`${path}\` | ${cell(typeText(schema))} | ${cell(usual)} | ${schema["x-beige-impact"] ?? ""} | ${cell(text)} |`;
}

const rows = (fields: readonly Field[], path: string): readonly string[] =>
  fields.flatMap((field) => {
    const name = path === "" ? field.name : `${path}.${field.name}`;
    const list = field.schema.type === "array" ? "[]" : "";
    return [row(name, field), ...rows(fieldsOf(field.schema), `${name}${list}`)];
  });

function kindPage(kind: KindName): string {
  const schema = kindSchema(kind.kind);
  const spec = fieldsOf(schema).find((field) => field.name === "spec");
  const [example] = schema.examples ?? [];
  return [
    NOTE,
    "",
    `# ${kind.kind}`,
    "",
    schema.description ?? "",
    "",
    `\`apiVersion: beige.dev/v1\`, ${kind.namespaced ? "in namespaces" : "for the whole gateway"}. On the command line: ${[kind.plural, ...kind.short].map((word) => `\`${word}\``).join(", ")}.`,
    ...(example === undefined ? [] : ["", "```yaml", ...plainYaml(example), "```"]),
    "",
    "## Fields of `spec`",
    "",
    "Impact is what a change does: `live` acts at once, `update` is made in place, `replace` makes a new sandbox while sessions go on.",
    "",
    "| field | type | default | impact | meaning |",
    "|---|---|---|---|---|",
    ...rows(fieldsOf(spec?.schema ?? {}), ""),
    "",
    `\`beige explain ${kind.kind.toLowerCase()}.FIELD\` says the same.`,
    "",
  ].join("\n");
}

const flagText = (flag: Flag): string =>
  `${flag.short === undefined ? "" : `-${flag.short}, `}--${flag.name}${flag.value === undefined ? "" : ` ${flag.value}`}`;
const flagRow = (flag: Flag): string => `| \`${cell(flagText(flag))}\` | ${cell(flag.summary)}${flag.many === true ? " (several)" : ""} |`;

function verbPart(verb: Verb): string {
  const examples = verb.examples.map(([command, says]) => (says === "" ? command : `${command}   # ${says}`));
  return [
    `## ${verb.name}`,
    "",
    `${verb.summary.slice(0, 1).toUpperCase()}${verb.summary.slice(1)}.`,
    "",
    "```sh",
    ...examples,
    "```",
    ...(verb.args === "" ? [] : ["", `Takes \`${verb.args}\`.`]),
    ...(verb.flags.length === 0 ? [] : ["", "| flag | |", "|---|---|", ...verb.flags.map(flagRow)]),
    ...(verb.exits === undefined ? [] : ["", `Exit: ${verb.exits.replaceAll(/ {2,}/g, ", ")}.`]),
    "",
  ].join("\n");
}

function cliPage(): string {
  const shown = verbs.filter((verb) => !verb.name.startsWith("__"));
  return [
    NOTE,
    "",
    "# The command line",
    "",
    shown.map((verb) => `[${verb.name}](#${verb.name.replaceAll(" ", "-")})`).join(" · "),
    "",
    "Every verb takes these too:",
    "",
    "| flag | |",
    "|---|---|",
    ...GLOBAL.map(flagRow),
    "",
    ...shown.map(verbPart),
    "## Exit codes",
    "",
    "```text",
    EXIT_CODES.trimEnd(),
    "```",
    "",
  ].join("\n");
}

/** Page by file name below docs/reference. */
export const reference = (): Readonly<Record<string, string>> => ({
  ...Object.fromEntries(KINDS.map((kind) => [`${kind.kind.toLowerCase()}.md`, kindPage(kind)])),
  "cli.md": cliPage(),
  "protocol.md": protocolPage(NOTE),
});
