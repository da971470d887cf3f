import fc from "fast-check";
import { expect, test } from "vitest";
import { RETRY_AFTER_MAX_MS, retryAfterMs } from "./retry.ts";

const NOW = Date.parse("2026-10-21T07:28:00Z");
const of = (headers: Record<string, string>, body = ""): number | undefined => retryAfterMs(new Headers(headers), body, NOW);

test.each([
  ["seconds", { "retry-after": "7" }, "", 7000],
  ["fractions of seconds", { "retry-after": "0.5" }, "", 500],
  ["milliseconds in their own header, which wins", { "retry-after-ms": "1500", "retry-after": "9" }, "", 1500],
  ["an HTTP date", { "retry-after": "Wed, 21 Oct 2026 07:28:30 GMT" }, "", 30_000],
  ["an HTTP date that has passed", { "retry-after": "Wed, 21 Oct 2015 07:28:00 GMT" }, "", 0],
  ["a time of RFC 3339", { "retry-after": "2026-10-21T07:29:00Z" }, "", 60_000],
  ["a header that was sent twice: the longer one", { "retry-after": "120, 60" }, "", 120_000],
  ["retry_after_seconds in the body", {}, '{"retry_after_seconds": 59}', 59_000],
  ["a nested field", {}, '{"error":{"metadata":{"retry_after_ms":2500}}}', 2500],
  ["Google's retryDelay", {}, '{"error":{"details":[{"@type":"x"},{"retryDelay":"17s"}]}}', 17_000],
  ["a duration in words", {}, '{"error":{"retry_after":"6m0s"}}', 360_000],
  ["the longest of several fields", {}, '{"retry_after":1,"error":{"retry_after_seconds":4}}', 4000],
  ["a sentence", {}, "Rate limit reached. Please try again in 20s.", 20_000],
  ["a sentence in JSON", {}, '{"error":{"message":"please retry after 250 ms"}}', 250],
  ["a week: capped at a day", { "retry-after": "604800" }, "", RETRY_AFTER_MAX_MS],
  ["more than a timer takes: capped", { "retry-after": "999999999999" }, "", RETRY_AFTER_MAX_MS],
])("%s", (_, headers, body, ms) => {
  expect(of(headers as Record<string, string>, body)).toBe(ms);
});

test.each([
  ["nothing", {}, ""],
  ["a negative number", { "retry-after": "-5" }, ""],
  ["a word", { "retry-after": "soon" }, ""],
  ["a broken date", { "retry-after": "Wed, 99 Foo 2026" }, ""],
  ["an empty header", { "retry-after": "" }, ""],
  ["fields of other types", {}, '{"retry_after": null, "retryAfter": {"x": true}, "retry_after_ms": "NaN"}'],
  ["a field of the prototype", {}, '{"constructor": 5, "__proto__": {"x": 1}}'],
  ["HTML", {}, "<html><body>502 Bad Gateway</body></html>"],
])("says nothing for %s", (_, headers, body) => {
  expect(of(headers as Record<string, string>, body)).toBeUndefined();
});

test("whatever a provider sends, the wait is none, or between 0 and a day", () => {
  fc.assert(
    fc.property(fc.string(), fc.oneof(fc.string(), fc.json()), (header, body) => {
      const ms = retryAfterMs({ get: (name) => (name === "retry-after" ? header : null) }, body, NOW);
      return ms === undefined || (ms >= 0 && ms <= RETRY_AFTER_MAX_MS);
    }),
  );
});

test("a body that is nested 50,000 deep is an answer like any other", () => {
  expect(of({}, "[".repeat(50_000))).toBeUndefined();
});
