import { expect, test } from "vitest";
import type { Resource } from "../core/resource.ts";
import { ownersOf } from "./owners.ts";

const managed = (...managers: string[]): Resource =>
  ({ metadata: { managedFields: managers.map((manager) => ({ manager })) } }) as unknown as Resource;

test("sources and sets own an object, people who edited it do not, and each is named once", () => {
  expect(ownersOf(managed("edit", "source/stacks", "apply/default", "kubectl", "apply/team/x", "source/stacks"))).toEqual([
    { name: "set default" },
    { name: "set team/x" },
    { name: "source/stacks", source: "stacks" },
  ]);
  expect(ownersOf({ metadata: {} } as unknown as Resource)).toEqual([]);
});
