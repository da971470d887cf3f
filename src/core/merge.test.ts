import fc from "fast-check";
import { expect, test } from "vitest";
import { mergeConfig } from "./merge.ts";

test("objects merge, lists and scalars replace", () => {
  const base = { a: { x: 1, y: [1, 2] }, b: "old", c: true };
  expect(mergeConfig(base, { a: { y: [3], z: null }, b: { deep: 1 } })).toEqual({ a: { x: 1, y: [3], z: null }, b: { deep: 1 }, c: true });
});

test("keys that reach a prototype are dropped at every depth", () => {
  const hostile = JSON.parse('{"__proto__":{"evil":1},"a":{"constructor":{"prototype":{"evil":1}},"__proto__":{"evil":1}}}') as Record<
    string,
    unknown
  >;
  const merged = mergeConfig({ a: {} }, hostile);
  expect(merged).toEqual({ a: {} });
  expect(({} as { evil?: number }).evil).toBeUndefined();
  expect((merged["a"] as { evil?: number }).evil).toBeUndefined();
});

test("merging nothing changes nothing, and the result shares nothing with its input", () => {
  const plain = fc.dictionary(
    fc.string().filter((key) => !["__proto__", "constructor", "prototype"].includes(key)),
    fc.oneof(fc.integer(), fc.string(), fc.array(fc.integer()), fc.dictionary(fc.stringMatching(/^[a-z]{1,4}$/), fc.integer())),
  );
  fc.assert(
    fc.property(plain, (base) => {
      const before = JSON.stringify(base);
      const merged = mergeConfig(base, undefined) as Record<string, unknown>;
      expect(JSON.parse(JSON.stringify(merged))).toEqual(JSON.parse(before));
      for (const value of Object.values(merged))
        if (typeof value === "object" && value !== null) (value as Record<string, unknown>)["added"] = 1;
      expect(JSON.stringify(base)).toBe(before);
    }),
  );
});
