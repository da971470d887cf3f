import fc from "fast-check";
import { expect, test } from "vitest";
import { jsonPieces } from "./pieces.ts";

test("the pieces are the JSON of the value, whatever it is", () => {
  const long = fc.array(fc.jsonValue({ maxDepth: 1 }), { minLength: 251, maxLength: 1000 });
  const value = fc.oneof(fc.jsonValue(), long, fc.record({ type: fc.string(), plan: fc.record({ objects: long, left: fc.jsonValue() }) }));
  fc.assert(
    fc.property(value, (one) => [...jsonPieces(one)].join("") === JSON.stringify(one)),
    { numRuns: 200 },
  );
});

test("a long list comes in several pieces, none of them long", () => {
  const plan = { type: "plan", left: undefined, plan: { objects: Array.from({ length: 10_000 }, (_, i) => ({ i })), summary: {} } };
  const pieces = [...jsonPieces(plan)];
  expect(pieces.join("")).toBe(JSON.stringify(plan));
  expect(Math.max(...pieces.map((piece) => piece.length))).toBeLessThan(5000);
});
