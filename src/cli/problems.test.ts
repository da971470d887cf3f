import { expect, test } from "vitest";
import { BeigeError } from "../core/errors.ts";
import type { Output } from "./output.ts";
import { sayError } from "./problems.ts";

function said(error: BeigeError): string {
  const lines: string[] = [];
  const out = { note: (text: string) => void lines.push(text), paint: (_: string, text: string) => text } as unknown as Output;
  sayError(out, error, false);
  return lines.join("\n");
}

test("a conflict is one sentence and what mends it, though it names each field for programs", () => {
  const problems = ["model", "tools"].map((path) => ({
    message: 'conflict with "source/s" using beige.dev/v1',
    path: `/spec/${path}`,
    object: "Agent/travel",
  }));
  const message = "agent/travel: spec.model is owned by source/s; spec.tools is owned by source/s";
  expect(said(new BeigeError("conflict", message, { problems, hint: "suspend the source" }))).toBe(
    `error: ${message}\nfix:  suspend the source`,
  );
});

test("an object that is not valid is told by its problems, each once", () => {
  const problems = ["a", "b"].map((name) => ({ message: `unknown field "${name}"`, path: `/spec/${name}`, object: "Agent/travel" }));
  const error = (count: number): BeigeError =>
    new BeigeError("invalid", 'agent/travel is not valid: unknown field "a"', {
      problems: problems.slice(0, count),
      hint: "beige explain agent",
    });
  expect(said(error(1))).toBe(
    'error: unknown field "a"\n  --> Agent/travel, spec.a\n1 problem. Nothing was changed.\nfix:  beige explain agent',
  );
  expect(said(error(2)).match(/error:/g)).toHaveLength(2);
});

test("what neither the sentence nor a place says is added to the sentence", () => {
  const error = new BeigeError("invalid", "it is wrong", { problems: [{ message: "too long", path: "/spec/x" }, { message: "is wrong" }] });
  expect(said(error)).toBe("error: it is wrong\n  --> /spec/x: too long");
});
