import { expect, test } from "vitest";
import { renderProblem, renderProblems } from "./problems.ts";

const at = { file: "stacks/travel.yaml", line: 14, column: 3, document: 2 };

test("a problem shows message, place, line, caret and what mends it", () => {
  expect(
    renderProblem({
      message: 'unknown field "tool" in spec',
      path: "/spec/tool",
      at,
      object: "Agent/travel",
      line: "  tool: [git]",
      hint: 'did you mean "tools"?',
    }),
  ).toBe(
    [
      'error: unknown field "tool" in spec',
      "  --> stacks/travel.yaml:14:3   Agent/travel, spec.tool   (document 2)",
      "   |",
      "14 |   tool: [git]",
      '   |   ^^^^ did you mean "tools"?',
    ].join("\n"),
  );
});

test("a problem without a line keeps its hint, and one without a place its object", () => {
  expect(renderProblem({ message: "m", at: { ...at, document: 1 }, hint: "h" })).toBe("error: m\n  --> stacks/travel.yaml:14:3\n  fix: h");
  expect(renderProblem({ message: "m", object: "Agent/a" })).toBe("error: m\n  --> Agent/a");
  expect(renderProblem({ message: "m", at, line: "", hint: "h" })).toContain("^ h");
});

test("what a manifest holds cannot write on the terminal", () => {
  const text = renderProblem({
    message: "a\u001b[2Jb\nc",
    path: "/spec/\u001b]0;x",
    at: { ...at, file: "\u001b[31m.yaml" },
    line: "\u001b[1m\tx\u202e",
    hint: "\u0007",
  });
  // oxlint-disable-next-line no-control-regex -- looks for exactly these
  expect(/[\u0000-\u0009\u000b-\u001f\u202e]/.test(text)).toBe(false);
});

test("the caret stands under its column, also behind tabs, wide text and far to the right", () => {
  const column = (text: string): number => text.split("\n").at(-1)?.indexOf("^") ?? -1;
  const shown = (line: string, c: number): number => column(renderProblem({ message: "m", at: { ...at, column: c }, line }));
  expect(shown("abc", 3)).toBe("   | ".length + 2);
  expect(shown("\tabc", 2)).toBe("   | ".length + 1);
  const far = renderProblem({ message: "m", at: { ...at, column: 3001 }, line: `${"x".repeat(3000)}HERE${"y".repeat(1000)}` }).split("\n");
  expect(far[3]?.slice(far[4]?.indexOf("^")).startsWith("HERE")).toBe(true);
  expect(far.every((l) => l.length < 200)).toBe(true);
});

test("the last line counts problems and files", () => {
  const p = { message: "m", at };
  expect(renderProblems([p]).split("\n").at(-1)).toBe("1 problem. Nothing was changed.");
  expect(
    renderProblems([p, { ...p, at: { ...at, file: "b" } }])
      .split("\n")
      .at(-1),
  ).toBe("2 problems in 2 files. Nothing was changed.");
});
