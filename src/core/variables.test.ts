import fc from "fast-check";
import { expect, test } from "vitest";
import { scanFiles, scanVariables } from "./scan.ts";
import { escapeVariables, onlyVariable, substitute } from "./variables.ts";

/** Time of this process alone: the machine may be busy with others. */
const cpuMs = (): number => process.cpuUsage().user / 1000;

const put = (text: string, vars: Record<string, string> = {}): string => substitute(text, vars).text;

test("variables, defaults and dollars are told apart", () => {
  const vars = { A: "1", EMPTY: "", B: "${A} $$ $A" };
  expect(put("x${A}y", vars)).toBe("x1y");
  expect(put("${B}", vars)).toBe("${A} $$ $A");
  expect(put("${EMPTY}|${EMPTY:-d}|${NONE:-d}|${NONE:-}", vars)).toBe("|d|d|");
  expect(put("$$ $$A $${A} $A $ $5 $(id) 100$", vars)).toBe("$ $A ${A} $A $ $5 $(id) 100$");
  expect(put("${NONE:-a:b/c?d=$x}", vars)).toBe("a:b/c?d=$x");
});

test("what cannot be substituted is told with its place", () => {
  expect(substitute("a ${MISSING}", {}).faults).toEqual([{ kind: "missing", name: "MISSING", offset: 2, length: 10 }]);
  for (const bad of ["${", "${}", "${1A}", "${A", "${A-b}", "${A:?b}", "${A.b}", "${ A }", "${A:-${B}}", "${env:KEY}"])
    expect([bad, substitute(bad, { A: "1", B: "2" }).faults[0]?.kind]).toEqual([bad, "malformed"]);
  expect(substitute("${__proto__}${constructor}", {}).faults.map((f) => f.kind)).toEqual(["missing", "missing"]);
});

test("escaped text comes back as it was", () => {
  fc.assert(
    fc.property(fc.stringMatching(/^[$${}A:\- ]{0,12}$/), (text) => {
      const result = substitute(escapeVariables(text), {});
      expect([text, result.text, result.faults]).toEqual([text, text, []]);
    }),
    { numRuns: 1000 },
  );
});

test("only a whole plain variable names a secret", () => {
  expect(onlyVariable("${KEY}")).toBe("KEY");
  for (const no of ["x${KEY}", "${KEY} ", "${KEY:-x}", "$KEY", "$${KEY}"]) expect(onlyVariable(no)).toBeUndefined();
});

test("a scan names each variable of the text once, and none that is escaped", () => {
  expect(scanVariables("a: ${A}\nb: ${B:-x}${A}\nc: $${C} $D ${9} $$${E}")).toEqual(["A", "B", "E"]);
});

test("a scan finds the text files of instructions in all their forms", () => {
  const text = `
  instructions: {file: ./a.md}
  instructions: { "file": "b c.md" }
  instructions:
    file: 'd.md' # why
  "instructions": {file: e.md, x: 1}
  other: {file: no.md}
  instructions: file the report
`;
  expect(scanFiles(text)).toEqual(["./a.md", "b c.md", "d.md", "e.md"]);
});

test("scans take linear time on hostile text", () => {
  const started = cpuMs();
  for (const text of [
    "${A:-".repeat(200_000),
    "$".repeat(1_000_000),
    "instructions:".repeat(100_000),
    `instructions:${" ".repeat(1_000_000)}`,
    "${".repeat(500_000),
  ]) {
    scanVariables(text);
    scanFiles(text);
    substitute(text, {});
  }
  expect(cpuMs() - started).toBeLessThan(5000);
});
