import { expect, test } from "vitest";
import { verbs } from "./verbs.ts";
import { helpOn } from "./verbs/help.ts";

const golden = (name: string): string => `../../test/golden/cli/${name.replaceAll(" ", "-")}.txt`;
const names = verbs.map((verb) => verb.name).filter((name) => !name.startsWith("__"));

test.each(["", "exit-codes", "audit", "gateway", "rollout", "secret", ...names])("help %s is as it was agreed", async (name) => {
  const text = helpOn(name === "" ? [] : name.split(" "));
  await expect(text).toMatchFileSnapshot(golden(name || "overview"));
  expect(text.split("\n").length, "at most 40 lines").toBeLessThanOrEqual(41);
  expect(Math.max(...text.split("\n").map((line) => line.length)), "at most 120 columns").toBeLessThanOrEqual(120);
});

test("help on what there is not names the nearest", () => {
  expect(() => helpOn(["exitcodes"])).toThrow(/no help on/);
});
