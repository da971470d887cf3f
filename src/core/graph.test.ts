import fc from "fast-check";
import { expect, test } from "vitest";
import { cycleProblems, order, unknownReferences } from "./graph.ts";
import type { Need } from "./kind.ts";

/** Time of this process alone: the machine may be busy with others. */
const cpuMs = (): number => process.cpuUsage().user / 1000;

interface Item {
  readonly kind: string;
  readonly metadata: { readonly name: string; readonly namespace: string };
  readonly wants: readonly string[];
}
const item = (kind: string, name: string, ...wants: string[]): Item => ({ kind, metadata: { name, namespace: "" }, wants });
const needs = (i: Item): readonly Need[] =>
  i.wants.map((w) => ({ ref: { kind: w.split("/")[0] ?? "", namespace: "", name: w.split("/")[1] ?? "" }, path: `/spec/${w}` }));
const key = (i: Item): string => `${i.kind}/${i.metadata.name}`;

test("what is needed comes first, and the rest keeps kinds together in their order", () => {
  const items = [
    item("Schedule", "s", "Agent/a"),
    item("Agent", "b", "Agent/a", "Provider/p"),
    item("Agent", "a", "Provider/p"),
    item("Plugin", "x"),
    item("Provider", "p"),
  ];
  expect(order(items, needs).ordered.map(key)).toEqual(["Provider/p", "Plugin/x", "Agent/a", "Agent/b", "Schedule/s"]);
});

test("the order does not depend on the order of the files, but for equals of one kind", () => {
  const items = [item("Provider", "p"), item("Agent", "a", "Provider/p"), item("Schedule", "s", "Agent/a")];
  expect(order(items.toReversed(), needs).ordered.map(key)).toEqual(order(items, needs).ordered.map(key));
});

test("cycles are told and lose no object", () => {
  const items = [
    item("Agent", "c", "Agent/a"),
    item("Agent", "a", "Agent/b"),
    item("Agent", "b", "Agent/a"),
    item("Provider", "p"),
    item("Agent", "self", "Agent/self"),
  ];
  const { ordered, cycles } = order(items, needs);
  expect(ordered).toHaveLength(5);
  expect(cycleProblems(cycles).map((p) => p.message)).toEqual([
    "objects need each other: Agent/a -> Agent/b -> Agent/a",
    "objects need each other: Agent/self -> Agent/self",
  ]);
});

test("every order respects every need that can be respected", () => {
  const names = ["a", "b", "c", "d", "e"];
  const graphs = fc.array(fc.record({ name: fc.constantFrom(...names), wants: fc.uniqueArray(fc.constantFrom(...names)) }), {
    maxLength: 8,
  });
  fc.assert(
    fc.property(graphs, (raw) => {
      const items = [
        ...new Map(raw.map((r) => [r.name, item("Agent", r.name, ...r.wants.filter((w) => w < r.name).map((w) => `Agent/${w}`))])).values(),
      ];
      const { ordered, cycles } = order(items, needs);
      expect(cycles).toEqual([]);
      const place = new Map(ordered.map((o, i) => [key(o), i]));
      for (const o of ordered) for (const w of o.wants) if (place.has(w)) expect(place.get(w)).toBeLessThan(place.get(key(o)) ?? -1);
    }),
  );
});

test("a thousand objects in one chain are ordered in time", () => {
  const items = Array.from({ length: 1000 }, (_, i) => item("Agent", `a${String(i)}`, `Agent/a${String(i + 1)}`));
  const started = cpuMs();
  expect(order(items, needs).ordered[0]?.metadata.name).toBe("a999");
  expect(cpuMs() - started).toBeLessThan(2000);
});

test("references that lead nowhere are told with the nearest name", () => {
  const items = [item("Agent", "a", "Provider/antropic", "Provider/live", "Plugin/git"), item("Provider", "anthropic")];
  const problems = unknownReferences(items, needs, (ref) => ref.name === "live");
  expect(problems).toEqual([
    {
      message: 'Provider "antropic" does not exist',
      path: "/spec/Provider/antropic",
      object: "Agent/a",
      hint: 'did you mean "anthropic"?',
    },
    { message: 'Plugin "git" does not exist', path: "/spec/Plugin/git", object: "Agent/a", hint: "there are no Plugins" },
  ]);
});
