import fc from "fast-check";
import { expect, test } from "vitest";
import schema from "../../schemas/agent.json" with { type: "json" };
import { buildName, derivedRef, packageProblem, packagesOf, packagesText, pauseMs, readDerived, readFailure } from "./packages.ts";
import type { Agent } from "./resource.ts";

const items = schema.properties.spec.properties.sandbox.properties.packages.items.pattern;
const allowed = (entry: string): boolean => new RegExp(items, "u").test(entry) && packageProblem(entry, []) === undefined;
const of = (packages: readonly string[]): readonly string[] => packagesOf({ spec: { sandbox: { packages } } } as unknown as Agent);

test.each(["jq", "ripgrep", "g++", "libstdc++6", "python3.11", "python3=3.11.*", "a", "0ad", "x=1:2.3~rc1-4+b1", "r-base_core"])(
  "%s is a package",
  (entry) => expect(allowed(entry)).toBe(true),
);

const NONE = [
  ["", "-y", "--force", "jq-", "jq;reboot", "$(id)", "`id`", "a b", "a\nb", "jq/sid", "../x", "jq=", "jq=$v", "jq=-1", "J", "*", "lib.*"],
  ["~nlib", "jq:amd64", "jq^", "jq=1=2", "é", "jq=1'", 'jq="1"', "jq|x", "jq&", "jq>f", "x".repeat(101)],
  // What apt-get would remove, or install in any version.
  ["jq=1.6-", "jq=*-", "jq=1.6+", "jq=1.6-+"],
].flat();

test.each(NONE)("%j is none", (entry) => {
  expect(new RegExp(items, "u").test(entry)).toBe(false);
  expect(packageProblem(entry, [])).toBeDefined();
});

test("whatever is a package has no character that a shell or an option parser would read", () => {
  fc.assert(fc.property(fc.stringMatching(new RegExp(items)), (entry) => /^[a-z0-9][A-Za-z0-9.+:~_*=-]*$/.test(entry)));
});

test("one package is not asked for in two versions", () => {
  expect(packageProblem("jq=1.6", ["tree", "jq"])?.message).toBe("packages 'jq' and 'jq=1.6' are one");
  expect(packageProblem("jq-dev", ["jq"])).toBeUndefined();
});

test("the image's name is the same for the same set, and another for another base or set", () => {
  const ref = derivedRef({ base: "sha256:1", packages: of(["b", "a", "b"]) });
  expect(ref).toMatch(/^beige-derived:[0-9a-f]{24}$/);
  expect(derivedRef({ base: "sha256:1", packages: of(["a", "b"]) })).toBe(ref);
  for (const other of [
    { base: "sha256:2", packages: ["a", "b"] },
    { base: "sha256:1", packages: ["a"] },
    { base: "sha256:1", packages: ["a b"] },
  ])
    expect(derivedRef(other)).not.toBe(ref);
  expect(buildName(ref)).toBe(`beige-build-${ref.slice("beige-derived:".length)}`);
});

test("a name that changed without a new recipe would build every image again", () => {
  expect(derivedRef({ base: "sha256:1", packages: ["jq"] })).toBe("beige-derived:e06859d234aa23dc4b6b9d37");
});

test("labels and notes of a build are read back, and anything else is nothing", () => {
  const derived = { base: "sha256:1", packages: ["jq"] };
  expect(readDerived(JSON.stringify(derived))).toEqual(derived);
  for (const junk of [undefined, "", "{", "null", "[]", '{"base":1,"packages":[]}', '{"base":"a","packages":[1]}'])
    expect(readDerived(junk)).toBeUndefined();
  const failure = { ref: "r", atMs: 1, tries: 2, message: "m" };
  expect(readFailure(failure, "r")).toEqual(failure);
  for (const junk of [undefined, null, "x", {}, { ...failure, ref: "other" }, { ...failure, tries: "2" }])
    expect(readFailure(junk, "r")).toBeUndefined();
  expect(packagesText([])).toBeUndefined();
});

test("pauses grow up to half an hour", () => {
  const minutes = [1, 2, 3, 4, 5, 6, 7, 1000].map((tries) => pauseMs({ ref: "r", atMs: 0, tries, message: "" }) / 60_000);
  expect(minutes).toEqual([1, 2, 4, 8, 16, 30, 30, 30]);
});
