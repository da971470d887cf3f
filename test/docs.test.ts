// The documents say what is true: their manifests validate, their links lead somewhere, their verbs and errors exist.
import { existsSync, readdirSync, readFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { expect, test } from "vitest";
import { verbs } from "../src/cli/verbs.ts";
import { ERRORS } from "../src/core/errors.ts";
import { readManifests } from "../src/core/manifest.ts";
import { validateDocument } from "../src/core/validate.ts";

const root = join(dirname(fileURLToPath(import.meta.url)), "..");
const pages = [
  "README.md",
  "CHANGELOG.md",
  ...["docs", "docs/ci", "docs/reference"].flatMap((folder) =>
    readdirSync(join(root, folder))
      .filter((name) => name.endsWith(".md"))
      .map((name) => `${folder}/${name}`),
  ),
];
const read = (page: string): string => readFileSync(join(root, page), "utf8");
const blocks = (page: string, language: string): readonly string[] =>
  [...read(page).matchAll(new RegExp(`\`\`\`${language}\\n([\\s\\S]*?)\`\`\``, "g"))].map((match) => match[1] ?? "");

test.each(pages)("every manifest in %s is valid", (page) => {
  for (const text of blocks(page, "yaml").filter((block) => block.includes("apiVersion:"))) {
    const files = { "./writer.md": "You write.", "./travel.md": "You plan." };
    const { documents, problems } = readManifests([{ name: page, folder: "/", text, vars: {}, files }]);
    expect([...problems, ...documents.flatMap((document) => validateDocument(document))]).toEqual([]);
  }
});

test.each(pages)("every link in %s leads to a file", (page) => {
  const links = [...read(page).matchAll(/\]\(([^)#]+)[^)]*\)/g)].map((match) => match[1] ?? "").filter((link) => !/^[a-z]+:/.test(link));
  expect(links.filter((link) => !existsSync(join(root, dirname(page), link)))).toEqual([]);
});

test.each(pages)("every verb that %s tells to type exists", (page) => {
  const known = new Set(verbs.map((verb) => verb.name.split(" ")[0] ?? ""));
  const code = [...read(page).matchAll(/```[a-z]*\n([\s\S]*?)```/g)].map((match) => match[1] ?? "").join("\n");
  const typed = [...code.matchAll(/^(?:\$ )?(?:npx )?beige ([a-z][a-z-]*)/gm)].map((match) => match[1] ?? "");
  expect(typed.filter((verb) => !known.has(verb))).toEqual([]);
});

test("the error reference has every code with its exit code and HTTP status, and no other", () => {
  const rows = [...read("docs/reference/errors.md").matchAll(/^\| `(\w+)` \|[^|]*\| (\d+) \| (\d+) \|/gm)].map((match) => [
    match[1],
    Number(match[2]),
    Number(match[3]),
  ]);
  expect(rows).toEqual(Object.entries(ERRORS).map(([code, { exit, http }]) => [code, exit, http]));
});

/** Paths of fields, and values of them, that the schemas have and this version refuses. */
function later(schema: unknown, path: string): readonly string[] {
  if (typeof schema !== "object" || schema === null) return [];
  const { properties, "x-beige-not-yet": word } = schema as { readonly properties?: object; readonly "x-beige-not-yet"?: unknown };
  const own = word === true ? [path] : Array.isArray(word) ? word.map((value) => `${path}: ${String(value)}`) : [];
  return [...own, ...Object.entries(properties ?? {}).flatMap(([name, child]) => later(child, path === "" ? name : `${path}.${name}`))];
}

test("the README names every field that is not in this version, and no other", () => {
  const section = /^## Not in this version\n([\s\S]*?)\nMIT/m.exec(read("README.md"))?.[1] ?? "";
  const schemas = ["agent", "plugin", "provider", "schedule", "source"].map((kind) => JSON.parse(read(`schemas/${kind}.json`)) as unknown);
  expect(new Set([...section.matchAll(/`(spec\.[^`]+)`/g)].map((match) => match[1] ?? ""))).toEqual(
    new Set(schemas.flatMap((schema) => later(schema, ""))),
  );
});
