import { expect, test } from "vitest";
import { takenFromSources } from "./guard.ts";
import type { ManagedFields } from "./resource.ts";

const entry = (manager: string, fieldsV1: object, operation: "Apply" | "Update" = "Apply"): ManagedFields => ({
  manager,
  operation,
  apiVersion: "beige.dev/v1",
  time: "2026-01-01T00:00:00Z",
  fieldsType: "FieldsV1",
  fieldsV1,
});
const TWO = { "f:spec": { "f:a": {}, "f:b": { "f:c": {} } } };

test("fields that a source loses are told with its name, those of others are not", () => {
  const before = [entry("source/stacks", TWO), entry("apply/default", TWO), entry("source/x", TWO, "Update")];
  expect(takenFromSources(before, before)).toEqual([]);
  expect(takenFromSources(before, [entry("source/stacks", { "f:spec": { "f:a": {} } })])).toEqual([
    { manager: "source/stacks", path: "spec.b.c" },
  ]);
  expect(takenFromSources(before, []).map(({ path }) => path)).toEqual(["spec.a", "spec.b.c"]);
});
