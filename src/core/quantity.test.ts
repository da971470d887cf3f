import fc from "fast-check";
import { expect, test } from "vitest";
import { canonicalQuantity, parseBytes, parseCores, sameQuantity, showBytes } from "./quantity.ts";

test("all spellings of a quantity are one value", () => {
  expect([parseCores("1000m"), parseCores("1"), parseCores(1), parseCores("1.0")]).toEqual([1, 1, 1, 1]);
  expect([parseBytes("1G"), parseBytes("1000M"), parseBytes(1_000_000_000), parseBytes("1000000000")]).toEqual(Array(4).fill(1e9));
  expect([parseBytes("3Gi"), parseBytes("3072Mi"), parseBytes("1.5Gi")]).toEqual([3221225472, 3221225472, 1610612736]);
  expect(sameQuantity("500m", 0.5)).toBe(true);
  expect(sameQuantity("500m", "501m")).toBe(false);
  expect(sameQuantity("many", "many")).toBe(false);
});

test("fractions round up, never down to nothing", () => {
  expect(parseBytes("1m")).toBe(1);
  expect(parseBytes("1500m")).toBe(2);
  expect(parseCores("0.0001")).toBe(0.001);
  expect(parseCores(0.1 + 0.2)).toBe(0.3);
});

test("what is no quantity is undefined, not zero", () => {
  for (const bad of ["", " 1", "1 ", "-1", "+1", "1GB", "1gi", ".5", "1.", "0x10", "1e3", "Infinity", "9".repeat(30)])
    expect(parseBytes(bad)).toBeUndefined();
  for (const bad of [Number.NaN, Number.POSITIVE_INFINITY, -1]) expect(parseCores(bad)).toBeUndefined();
  expect(canonicalQuantity("bytes", "lots")).toBe("lots");
});

test("bytes are shown in a unit that keeps them exact", () => {
  expect([showBytes(3221225472), showBytes(1536), showBytes(1000), showBytes(0)]).toEqual(["3Gi", "1536", "1000", "0"]);
  fc.assert(fc.property(fc.nat(), (n) => parseBytes(showBytes(n)) === n));
});
