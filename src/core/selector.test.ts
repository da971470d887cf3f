import { expect, test } from "vitest";
import type { Resource } from "./resource.ts";
import { matchesLabels, parseLabels, selector } from "./selector.ts";

const labels = { app: "web", tier: "front", "beige.dev/x": "" };
const picks = (text: string): boolean => matchesLabels(parseLabels(text), labels);

test("label selectors select as kubectl's do", () => {
  for (const yes of [
    "",
    "app=web",
    "app==web",
    "app = web",
    "app!=db",
    "none!=x",
    "app in (web,db)",
    "tier notin (back), app",
    "!gone",
    "beige.dev/x",
    "beige.dev/x=",
  ])
    expect([yes, picks(yes)]).toEqual([yes, true]);
  for (const no of ["app=db", "app!=web", "app in (db)", "app notin (web)", "gone", "!app", "app=web,tier=back"])
    expect([no, picks(no)]).toEqual([no, false]);
});

test("inherited names are no labels", () => {
  expect(matchesLabels(parseLabels("constructor"), {})).toBe(false);
  expect(matchesLabels(parseLabels("!toString"), undefined)).toBe(true);
});

test("a selector that is not understood is refused by its part", () => {
  for (const bad of ["a=b=c", "a in b", "a in (b", "=x", ",", "a,,b", "a in ((b))", "a\nb", "é=1"])
    expect(() => parseLabels(bad)).toThrow(/not understood/);
  expect(() => parseLabels("a".repeat(5000))).toThrow(/longer than/);
  expect(() => selector({ fieldSelector: "status.phase=x" })).toThrow(/not understood/);
  expect(() => selector({ fieldSelector: "__proto__=x" })).toThrow(/not understood/);
});

test("namespace, labels and fields must all fit", () => {
  const object = { metadata: { name: "travel", namespace: "team", labels } } as unknown as Resource;
  expect(
    selector({ namespace: "team", labelSelector: "app=web", fieldSelector: "metadata.name=travel,metadata.namespace!=x" })(object),
  ).toBe(true);
  expect(selector({ namespace: "other" })(object)).toBe(false);
  expect(selector({ namespace: "" })(object)).toBe(true);
  expect(selector({ fieldSelector: "metadata.name=trave" })(object)).toBe(false);
});
