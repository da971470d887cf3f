import { expect, test } from "vitest";
import { BeigeError, ERRORS, type ErrorCode } from "../core/errors.ts";
import { failure, isInternal, Refusal } from "./status.ts";

test("every error code has the HTTP status and reason of the one table", () => {
  for (const [code, entry] of Object.entries(ERRORS)) {
    const status = failure(new BeigeError(code as ErrorCode, "what failed", { problems: [{ message: "m" }] }));
    expect([status.code, status.reason, status.error?.code]).toEqual([entry.http, entry.reason, code]);
  }
});

test("an invalid request without a field to show is a bad request, since kubectl shows fields alone", () => {
  const status = failure(new BeigeError("invalid", "the patch does not apply", { hint: "read it again" }));
  expect([status.code, status.reason, status.message]).toEqual([400, "BadRequest", "the patch does not apply; read it again"]);
});

test("fields are written as Kubernetes writes them", () => {
  const field = (path: string) => failure(new BeigeError("invalid", "x", { problems: [{ message: "m", path }] })).details?.causes;
  for (const [pointer, written] of [
    ["/spec/tools/0", "spec.tools[0]"],
    ["/metadata/labels/a.b~1c", "metadata.labels[a.b/c]"],
    ["/spec/odd~0key", "spec[odd~key]"],
    ["", ""],
  ])
    expect(field(pointer ?? "")).toEqual([{ reason: "FieldValueInvalid", message: "m", field: written }]);
});

test("times to wait are rounded up to whole seconds", () => {
  for (const [ms, seconds] of [
    [1, 1],
    [1000, 1],
    [1001, 2],
  ])
    expect(failure(new BeigeError("exhausted", "x", { retryAfterMs: ms ?? 0 })).details?.retryAfterSeconds).toBe(seconds);
});

test("only our own bugs are logged, and their text stays inside", () => {
  const bug = new TypeError("secret text");
  expect([isInternal(bug), isInternal(new BeigeError("invalid", "x")), isInternal(new Refusal(404, "NotFound", "x"))]).toEqual([
    true,
    false,
    false,
  ]);
  expect(JSON.stringify(failure(bug))).not.toContain("secret text");
  expect(JSON.stringify(failure("secret text"))).not.toContain("secret text");
  const framework = Object.assign(new Error("x"), { code: "FST_ERR_CTP_BODY_TOO_LARGE", statusCode: 413 });
  expect([isInternal(framework), failure(framework).code]).toEqual([false, 413]);
});
