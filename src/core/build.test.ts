import { expect, test } from "vitest";
import { readManifests } from "./manifest.ts";

const agent = (instructions: string): string =>
  `apiVersion: beige.dev/v1\nkind: Agent\nmetadata: {name: x}\nspec:\n  instructions: "${instructions}"\n`;
const read = (text: string) => readManifests([{ name: "a.yaml", folder: "/", text, vars: {}, files: {} }]);

test.each([
  ["unset variables", "${NOPE} "],
  ["names without an end", "${"],
  ["what is no name", "${1} "],
  ["defaults without an end", "${A:-"],
])("20,000 %s in one text are told in well under a second each", (_name, piece) => {
  const began = process.cpuUsage();
  const { problems } = read(agent(piece.repeat(20_000)));
  expect(problems.length).toBeGreaterThan(1);
  expect(process.cpuUsage(began).user / 1000).toBeLessThan(1500);
});

test("each fault in a text points to its own place, also behind escapes and in folded lines", () => {
  const { problems } = read(`apiVersion: beige.dev/v1
kind: Agent
metadata: {name: x}
spec:
  instructions: "$$ \\" \${ONE}
    and \${TWO}"
`);
  expect(problems.map(({ at, message }) => `${at?.line}:${at?.column} ${message}`)).toStrictEqual([
    "5:24 ${ONE} is not set",
    "6:9 ${TWO} is not set",
  ]);
});
