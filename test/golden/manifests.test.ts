// Every manifest that ships, and every bad one, against the text that people see. UPDATE_GOLDEN=1 writes the files anew.
import { existsSync, readFileSync, readdirSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { expect, test } from "vitest";
import { diffSpecs } from "../../src/core/diff.ts";
import { readManifests, toYaml } from "../../src/core/manifest.ts";
import type { ManifestDocument } from "../../src/core/manifest.ts";
import { normalise } from "../../src/core/normalise.ts";
import { renderProblems } from "../../src/core/problems.ts";
import { validateDocument } from "../../src/core/validate.ts";
import type { Problem } from "../../src/core/errors.ts";

const here = dirname(fileURLToPath(import.meta.url));
const shipped = join(here, "../../manifests");
const yamls = (folder: string): readonly string[] =>
  readdirSync(folder)
    .filter((name) => name.endsWith(".yaml"))
    .toSorted();

function read(folder: string, name: string): { readonly documents: readonly ManifestDocument[]; readonly problems: readonly Problem[] } {
  const file = { name, folder, text: readFileSync(join(folder, name), "utf8"), vars: {}, files: {} };
  const needs = readManifests([file]).needFiles.map((n) => n.path);
  const files = Object.fromEntries(needs.map((path) => [path, readFileSync(join(folder, path), "utf8")]));
  const { documents, problems, needFiles } = readManifests([{ ...file, files }]);
  expect(needFiles).toEqual([]);
  return { documents, problems: [...problems, ...documents.flatMap((d) => validateDocument(d))] };
}

function golden(path: string, text: string): void {
  if (process.env["UPDATE_GOLDEN"] === "1") writeFileSync(path, text);
  expect(existsSync(path)).toBe(true);
  expect(text).toBe(readFileSync(path, "utf8"));
}

const normalised = (documents: readonly ManifestDocument[]): readonly Record<string, unknown>[] =>
  documents.map((d) => normalise(d.ref?.kind ?? "", d.value));

for (const name of yamls(shipped)) {
  test(`${name} is valid without a key, and means what its golden file says`, () => {
    const { documents, problems } = read(shipped, name);
    expect(problems.length === 0 ? "" : renderProblems(problems)).toBe("");
    golden(
      join(here, "good", name),
      normalised(documents)
        .map((value) => toYaml(value, { escape: true }))
        .join("---\n"),
    );
  });

  test(`${name} as it is printed is the same stack`, () => {
    const { documents } = read(shipped, name);
    const again = read(join(here, "good"), name);
    expect(again.problems).toEqual([]);
    expect(normalised(again.documents)).toEqual(normalised(documents));
    for (const [i, d] of documents.entries()) {
      const [before, after] = [d.value, again.documents[i]?.value].map((value) => (value as { spec: unknown }).spec);
      expect(diffSpecs(d.ref?.kind ?? "", before, after)).toEqual([]);
    }
  });
}

for (const name of yamls(join(here, "bad"))) {
  test(`bad/${name} is told as its golden file says, and no secret with it`, () => {
    const text = `${renderProblems(read(join(here, "bad"), name).problems)}\n`;
    golden(join(here, "bad", name.replace(".yaml", ".txt")), text);
    expect(/hunter2|sk-this/.test(text)).toBe(false);
  });
}
