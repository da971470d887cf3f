import fc from "fast-check";
import { expect, test } from "vitest";
import { ARGS_BYTES_MAX, capArgs, capText, sha256 } from "./cap.ts";

const size = (args: readonly string[]): number => args.reduce((sum, arg) => sum + Buffer.byteLength(arg), 0);

test("short arguments stay as they are", () => {
  expect(capArgs(["ls", "-l"])).toEqual(["ls", "-l"]);
});

test("a long argument keeps its head and the hash of the rest", () => {
  const long = "x".repeat(10_000);
  const [capped] = capArgs([long]);
  expect(capped).toMatch(/^x{3900,}\[cut: \d+ bytes, sha256 [0-9a-f]{64}\]$/);
  expect(capArgs([`${long}y`])[0]).not.toBe(capped);
});

test("capping is bounded and happens once, for any arguments", () => {
  const argument = fc.oneof(fc.string({ unit: "binary", maxLength: 3_000 }), fc.string({ unit: "grapheme", maxLength: 100 }));
  fc.assert(
    fc.property(fc.array(argument, { maxLength: 200 }), (args) => {
      const once = capArgs(args);
      expect(size(once)).toBeLessThanOrEqual(ARGS_BYTES_MAX);
      expect(capArgs(once)).toEqual(once);
    }),
    { numRuns: 300 },
  );
});

test("text is cut at whole characters and says what was cut", () => {
  const capped = capText("é".repeat(1_000), 200);
  expect(Buffer.byteLength(capped)).toBeLessThanOrEqual(200);
  expect(capped).not.toContain("\uFFFD");
  const kept = /^é*/.exec(capped)?.[0] ?? "";
  expect(capped).toContain(sha256("é".repeat(1_000 - kept.length)));
});
