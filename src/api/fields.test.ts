import fc from "fast-check";
import { expect, test } from "vitest";
import { flag, only, optionalText, queryFlag, queryNumber, textMap, texts, wholeNumber } from "./fields.ts";

test("a field of an object's prototype is no field", () => {
  expect(optionalText({}, "constructor")).toBeUndefined();
  expect(flag({}, "hasOwnProperty", false)).toBe(false);
  expect(Object.getPrototypeOf(textMap({ vars: { toString: "x" } }, "vars"))).toBeNull();
});

test("nothing of the wrong type gets through, whatever it is", () => {
  fc.assert(
    fc.property(fc.jsonValue(), (value) => {
      const reads = [
        () => optionalText({ x: value }, "x"),
        () => flag({ x: value }, "x", false),
        () => texts({ x: value }, "x", 3),
        () => queryFlag({ x: value }, "x"),
      ];
      const ok = [
        (v: unknown) => v === undefined || typeof v === "string",
        (v: unknown) => typeof v === "boolean",
        (v: unknown) => Array.isArray(v) && v.length <= 3 && v.every((i) => typeof i === "string"),
        (v: unknown) => typeof v === "boolean",
      ];
      for (const [i, read] of reads.entries()) {
        let got: unknown;
        try {
          got = read();
        } catch (error) {
          expect(error).toMatchObject({ http: 400 });
          continue;
        }
        expect(ok[i]?.(got)).toBe(true);
      }
    }),
  );
});

test("numbers of a body must be whole and in range, numbers of a query are brought into it", () => {
  const range = { min: 1, max: 10, absent: 5 };
  expect([wholeNumber({}, "n", range), wholeNumber({ n: 10 }, "n", range)]).toEqual([5, 10]);
  for (const n of [0, 11, 1.5, "3", Number.NaN, {}, true]) expect(() => wholeNumber({ n }, "n", range)).toThrow("whole number");
  expect(["", "0", "7", "99"].map((n) => queryNumber({ n }, "n", range))).toEqual([5, 1, 7, 10]);
  for (const n of ["-1", "1e3", " 1", "0x1", ["1", "2"]]) expect(() => queryNumber({ n }, "n", range)).toThrow();
});

test("an unknown field is named, with those that are known", () => {
  expect(() => only({ dryrun: true }, ["dryRun"])).toThrow('unknown field "dryrun" in the request body');
  expect(() => only([], [])).toThrow("must be a JSON object");
});
