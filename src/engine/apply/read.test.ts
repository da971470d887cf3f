import { expect, test } from "vitest";
import type { ManifestFile } from "../../core/control.ts";
import { createLanguage } from "../language.ts";
import { manualClock } from "../fixture.ts";
import { createBoxKind, createToy } from "../toy.ts";
import { readSet } from "./read.ts";

const language = createLanguage([createBoxKind(createToy(manualClock()))]);
const box = (size: string, more = ""): ManifestFile => ({
  name: "s.yaml",
  folder: "/stack",
  text: `apiVersion: beige.dev/v1\nkind: Box\nmetadata: {name: a}\nspec: {size: ${size}, color: "\${COLOR}"}\n${more}`,
  vars: { COLOR: "red" },
  files: {},
});
const at = async () => undefined;
const read = (...files: readonly ManifestFile[]) => readSet(files, language, at);

test("the same files are read once, and anything else in them, in their names or in their variables is read anew", async () => {
  const first = await read(box("1"));
  expect(first.wanted.map(({ applied }) => applied.spec)).toEqual([{ size: 1, color: "red" }]);
  expect(await read(box("1"))).toBe(first);
  const others = [box("2"), { ...box("1"), vars: { COLOR: "blue" } }, { ...box("1"), folder: "/other" }, { ...box("1"), name: "t.yaml" }];
  for (const other of others) expect(await read(other)).not.toBe(first);
  const blue = await read({ ...box("1"), vars: { COLOR: "blue" } });
  expect(blue.wanted[0]?.applied.spec).toEqual({ size: 1, color: "blue" });
});

test("only the last few sets are kept, and neither large ones nor wrong ones", async () => {
  const first = await read(box("1"));
  for (const size of ["3", "4", "5", "6"]) await read(box(size));
  expect(await read(box("1"))).not.toBe(first);
  const large = box("1", `# ${"x".repeat(70_000)}\n`);
  expect(await read(large)).not.toBe(await read(large));
  const wrong = await read(box("many"));
  expect(wrong.problems.length).toBe(1);
  expect(await read(box("many"))).not.toBe(wrong);
});
