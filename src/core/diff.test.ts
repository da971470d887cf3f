import fc from "fast-check";
import { expect, test } from "vitest";
import { applyJsonPatch, canonicalSpec, diffMetadata, diffSpecs, jsonPatch, mergePatch, sameSpec } from "./diff.ts";
import { fingerprint } from "./fingerprint.ts";

const base = { model: { provider: "p", id: "m" }, tools: ["a", "b", "c", "d"] };
const paths = (before: unknown, after: unknown, kind = "Agent"): readonly string[] =>
  diffSpecs(kind, before, after).map(
    (c) => `${c.before === undefined ? "+" : c.after === undefined ? "-" : "~"} ${c.path}${c.forces === true ? " forces" : ""}`,
  );

test("lists with identity are compared by it: the first of four tools gone is one removal", () => {
  expect(paths(base, { ...base, tools: ["b", "c", "d"] })).toEqual(["- tools[a]"]);
  expect(paths(base, { ...base, tools: ["d", "c", "b", "a"] })).toEqual([]);
  const provider = (...ids: string[]): object => ({ api: "echo", models: ids.map((id) => ({ id })) });
  expect(paths(provider("a", "b"), provider("b", "c"), "Provider")).toEqual(["- models[a]", "+ models[c]"]);
  const mounts = (readOnly: boolean): object => ({ ...base, sandbox: { mounts: [{ source: "/s", target: "/data", readOnly }] } });
  expect(paths(mounts(true), mounts(false))).toEqual(["~ sandbox.mounts[/data].readOnly forces"]);
  expect(paths(base, mounts(true))).toEqual(["+ sandbox.mounts[/data] forces"]);
});

test("defaults written out, other spellings and the order of keys are no change", () => {
  expect(paths(base, { ...base, suspend: false, sandbox: { backend: "docker", resources: { memory: "3072Mi", cpus: "2000m" } } })).toEqual(
    [],
  );
  expect(
    paths(
      { ...base, sandbox: { resources: { cpus: "1000m", memory: "1G" } } },
      { ...base, sandbox: { resources: { memory: 1_000_000_000, cpus: 1 } } },
    ),
  ).toEqual([]);
  expect(paths(base, { tools: base.tools, model: { id: "m", provider: "p" } })).toEqual([]);
  expect(fingerprint(canonicalSpec("Agent", base))).toBe(
    fingerprint(canonicalSpec("Agent", { ...base, tools: ["d", "c", "b", "a"], sandbox: { resources: { cpus: "2" } } })),
  );
});

test("changed fields say which of them force a replacement, in the schema's order", () => {
  const after = {
    ...base,
    model: { provider: "p", id: "n" },
    suspend: true,
    sandbox: { image: "x:2", env: { A: "1" }, resources: { memory: "1Gi" } },
  };
  expect(paths(base, after)).toEqual([
    "~ model.id",
    "~ sandbox.image forces",
    "~ sandbox.resources.memory",
    "+ sandbox.env.A forces",
    "~ suspend",
  ]);
});

test("references to secrets are shown as references, and renaming their key is one gone and one come", () => {
  const plugin = (secrets: object): object => ({ source: { builtin: "git" }, secrets });
  expect(paths(plugin({ token: { secret: "a" } }), plugin({ pat: { secret: "a" } }), "Plugin")).toEqual([
    "+ secrets.pat",
    "- secrets.token",
  ]);
  expect(diffSpecs("Provider", { api: "echo", apiKey: { env: "A" } }, { api: "echo", apiKey: { secret: "a" } })).toEqual([
    { path: "apiKey", before: { env: "A" }, after: { secret: "a" }, impact: "live" },
  ]);
});

test("a new object and a removed one list their fields", () => {
  expect(paths(undefined, base)).toContain("+ model");
  expect(paths(base, undefined).every((p) => p.startsWith("- "))).toBe(true);
  expect(diffMetadata({ labels: { a: "1" } }, { labels: { "b.c/d": "2" }, annotations: { x: "y" } })).toEqual([
    { path: "metadata.labels.a", before: "1", impact: "live" },
    { path: "metadata.labels[b.c/d]", after: "2", impact: "live" },
    { path: "metadata.annotations.x", after: "y", impact: "live" },
  ]);
});

test("a change says what it does to what runs: the heaviest field of what came as a whole, and a light one is live", () => {
  const impacts = (after: object, before: object = base): unknown => diffSpecs("Agent", before, after).map((c) => [c.path, c.impact]);
  expect(impacts({ ...base, model: { ...base.model, id: "other" } })).toEqual([["model.id", "live"]]);
  expect(impacts({ ...base, tools: [...base.tools, "git"] })).toEqual([["tools[git]", "live"]]);
  const resources = (memory: string): object => ({ ...base, sandbox: { resources: { memory } } });
  expect(impacts(resources("2Gi"), resources("1Gi"))).toEqual([["sandbox.resources.memory", "update"]]);
  expect(impacts({ ...base, sandbox: { mounts: [{ source: "/a", target: "/data" }] } })).toEqual([["sandbox.mounts[/data]", "replace"]]);
  const network = (mode: string): object => ({ ...base, sandbox: { network: { mode } } });
  expect(impacts(network("allowlist"), network("none"))).toEqual([["sandbox.network.mode", "live"]]);
});

const specs = fc.record(
  {
    model: fc.record({ provider: fc.constantFrom("p", "q"), id: fc.constantFrom("m", "n") }),
    tools: fc.uniqueArray(fc.constantFrom("a", "b", "c")),
    plugins: fc.dictionary(
      fc.constantFrom("x", "y.z"),
      fc.dictionary(fc.constantFrom("k", "l"), fc.jsonValue({ maxDepth: 2 }), { maxKeys: 2 }),
      { maxKeys: 2 },
    ),
    sandbox: fc.record({
      env: fc.dictionary(fc.constantFrom("A", "B"), fc.constantFrom("1", "2")),
      resources: fc.record({ cpus: fc.constantFrom(1, "1", "1000m", 2) }),
    }),
  },
  { requiredKeys: ["model"] },
);

test("a spec does not differ from itself, and an empty diff means the same", () => {
  fc.assert(fc.property(specs, (a) => diffSpecs("Agent", a, structuredClone(a)).length === 0));
  fc.assert(
    fc.property(specs, specs, (a, b) => (diffSpecs("Agent", a, b).length === 0) === sameSpec("Agent", a, b)),
    { numRuns: 500 },
  );
  fc.assert(fc.property(specs, specs, (a, b) => diffSpecs("Agent", a, b).length === diffSpecs("Agent", b, a).length));
});

test("a JSON patch leads from one value to the other", () => {
  fc.assert(
    fc.property(fc.jsonValue({ maxDepth: 3 }), fc.jsonValue({ maxDepth: 3 }), (a, b) => {
      const [before, after] = [JSON.parse(JSON.stringify({ v: a })), JSON.parse(JSON.stringify({ v: b }))] as [object, object];
      if (/__proto__|constructor|prototype/.test(JSON.stringify([before, after]))) return;
      expect(applyJsonPatch(before, jsonPatch(before, after))).toEqual(after);
    }),
  );
});

test("a patch that reaches for a prototype is refused, in its path, its source and its value (P23)", () => {
  const patches: unknown[] = [
    [{ op: "add", path: "/__proto__/x", value: 1 }],
    [{ op: "add", path: "/constructor/prototype/x", value: 1 }],
    [{ op: "move", from: "/__proto__/toString", path: "/a" }],
    [{ op: "copy", from: "/constructor", path: "/a" }],
    [{ op: "add", path: "/a", value: JSON.parse('{"__proto__":{"x":1}}') as unknown }],
    [{ op: "add", path: "/a/~0__proto__/../__proto__", value: 1 }],
  ];
  for (const patch of patches) expect(() => applyJsonPatch({ a: {} }, patch)).toThrow(/prototype|not allowed/);
  expect(() => mergePatch({}, JSON.parse('{"a":{"__proto__":{"x":1}}}'))).toThrow(/not allowed/);
  expect(({} as Record<string, unknown>)["x"]).toBeUndefined();
});

test("a patch that does not fit is refused and changes nothing", () => {
  const value = { a: [1] };
  for (const bad of [
    null,
    {},
    [null],
    [{}],
    [{ op: "remove", path: "/b" }],
    [{ op: "test", path: "/a/0", value: 2 }],
    [{ op: "nop", path: "/a" }],
    [{ op: "add", path: "a", value: 1 }],
    [{ op: "add", path: "/a/9", value: 1 }],
    [
      { op: "add", path: "/b", value: 1 },
      { op: "remove", path: "/c" },
    ],
  ])
    expect([
      bad,
      (() => {
        try {
          applyJsonPatch(value, bad);
          return "applied";
        } catch (e) {
          return (e as { code: string }).code;
        }
      })(),
    ]).toEqual([bad, "invalid"]);
  expect(value).toEqual({ a: [1] });
});

test("a merge patch merges mappings, replaces the rest and removes by null", () => {
  expect(mergePatch({ a: { b: 1, c: 2 }, d: [1] }, { a: { b: null, e: 3 }, d: [2], f: { g: null } })).toEqual({
    a: { c: 2, e: 3 },
    d: [2],
    f: {},
  });
  expect(mergePatch("x", { a: 1 })).toEqual({ a: 1 });
  expect(mergePatch({ a: 1 }, null)).toBeNull();
});

test("a network without a route becomes an allowlist live; an open one is another container", () => {
  const network = (mode: string): object => ({ ...base, sandbox: { network: { mode } } });
  expect(paths(network("none"), network("allowlist"))).toEqual(["~ sandbox.network.mode"]);
  expect(paths(network("allowlist"), network("open"))).toEqual(["~ sandbox.network.mode forces"]);
});
