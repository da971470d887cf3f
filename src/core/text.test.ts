import { expect, test } from "vitest";
import { age, took } from "./age.ts";
import { canonicalJson, fingerprint } from "./fingerprint.ts";
import { clip, distance, dotted, listed, nearest, pointer, pointerParts, suggest } from "./text.ts";

test("the nearest name is found, and none where nothing is near", () => {
  const known = ["model", "tools", "instructions", "sandbox"];
  expect([nearest("modle", known), nearest("tool", known), nearest("instrctions", known), nearest("SANDBOX", known)]).toEqual([
    "model",
    "tools",
    "instructions",
    "sandbox",
  ]);
  expect([nearest("xyz", known), nearest("", known), nearest("a".repeat(10_000), known)]).toEqual([undefined, undefined, undefined]);
  expect(distance("ab", "ba", 5)).toBe(1);
});

test("a suggestion lists what is known when nothing is near", () => {
  expect(suggest("zzz", ["a1", "b1"], "Providers")).toBe("known Providers: a1, b1");
  expect(suggest("zzz", [], "Providers")).toBe("there are no Providers");
  expect(listed(["a", "b", "c"], 2)).toBe("a, b, and 1 more");
});

test("clipped text is one line and safe on a terminal", () => {
  expect(clip("a\nb\u001b[31mred\u202e")).toBe("a⏎b\ufffd[31mred\ufffd");
  expect(clip("x".repeat(100), 10)).toBe(`${"x".repeat(9)}…`);
  expect(clip(`${"x".repeat(8)}😀😀`, 10).isWellFormed()).toBe(true);
});

test("pointers survive slashes, tildes and empty keys", () => {
  for (const parts of [[], ["a/b", "c~d", "~1"], [""], ["0"]]) expect(pointerParts(pointer(parts))).toEqual(parts);
  expect(dotted(["spec", "models", "0", "id"])).toBe("spec.models[0].id");
  expect(dotted(["metadata", "labels", "beige.dev/x"])).toBe("metadata.labels[beige.dev/x]");
});

test("ages read as kubectl's", () => {
  const s = 1000;
  expect([0, 42 * s, 119 * s, 120 * s, 330 * s, 3600 * s, 12_000 * s, 86_400 * s * 12, 86_400 * s * 800].map(age)).toEqual([
    "0s",
    "42s",
    "119s",
    "2m",
    "5m30s",
    "1h",
    "3h20m",
    "12d",
    "2y70d",
  ]);
  expect([age(-5), age(Number.NaN), took(84), took(8400), took(130_000)]).toEqual(["0s", "<unknown>", "0.1s", "8.4s", "2m10s"]);
});

test("a fingerprint does not depend on the order of keys, and tells values apart", () => {
  expect(fingerprint({ a: 1, b: { c: 2, d: undefined } })).toBe(fingerprint({ b: { c: 2 }, a: 1 }));
  expect(fingerprint({ a: "1" })).not.toBe(fingerprint({ a: 1 }));
  expect(fingerprint([1, 2])).not.toBe(fingerprint([2, 1]));
  expect(canonicalJson([undefined, null, { "\u00e9": "\n" }])).toBe('[null,null,{"é":"\\n"}]');
});
