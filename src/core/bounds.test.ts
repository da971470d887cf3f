import { expect, test } from "vitest";
import { SCHEMAS } from "./schema.ts";

type Node = Readonly<Record<string, unknown>>;
const isNode = (value: unknown): value is Node => value !== null && typeof value === "object";

/** Paths of lists that a manifest may make as long as it likes. */
function endless(node: unknown, path: string): readonly string[] {
  if (!isNode(node)) return [];
  const words = isNode(node["items"]) && node["items"]["enum"] !== undefined;
  const own = node["type"] === "array" && node["maxItems"] === undefined && node["x-beige-not-yet"] !== true && !words ? [path] : [];
  return [...own, ...Object.entries(node).flatMap(([key, value]) => endless(value, `${path}/${key}`))];
}

test("every list of a manifest has an end: what compares lists is square in their length", () => {
  for (const kind of ["Agent", "Provider", "Plugin", "Schedule"]) {
    expect(endless(SCHEMAS.get(kind), kind)).toStrictEqual([]);
  }
});
