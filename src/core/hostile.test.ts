// Whatever a manifest holds: an answer in time, problems with places, and nothing thrown.
import fc from "fast-check";
import { expect, test } from "vitest";
import { diffSpecs } from "./diff.ts";
import { readManifests, toYaml } from "./manifest.ts";
import { normalise, normaliseSpec } from "./normalise.ts";
import { applyOwned } from "./ownership.ts";
import { renderProblems } from "./problems.ts";
import { validateDocument } from "./validate.ts";

/** Time of this process alone: the machine may be busy with others. */
const cpuMs = (): number => process.cpuUsage().user / 1000;

const good = `apiVersion: beige.dev/v1
kind: Agent
metadata: {name: travel, labels: {team: ops}}
spec:
  model: {provider: p, id: m, thinking: low}
  instructions: |
    You plan \${WHAT:-trips}.
  tools: [git, memory]
  sandbox: {image: "x:1", env: {A: &a "1"}, mounts: [{source: ./d, target: /d}]}
---
apiVersion: beige.dev/v1
kind: Provider
metadata: {name: p}
spec: {api: echo, apiKey: {env: KEY}, models: [{id: m, cost: {input: 1}}]}
`;
const fragments = [
  "a: ",
  "- ",
  "? ",
  "[",
  "]",
  "{",
  "}",
  ",",
  ":",
  "\n",
  "\n  ",
  "\n\t",
  "|\n",
  ">\n",
  "'",
  '"',
  "#",
  "&a ",
  "*a",
  "!t ",
  "!!int ",
  "<<: ",
  "---\n",
  "...\n",
  "%YAML 1.1\n",
  "~",
  "null",
  "true",
  "0x1f",
  ".inf",
  "1e999",
  "${",
  "${A}",
  "${A:-",
  "$$",
  "}",
  "\\x41",
  "\\u0000",
  "\0",
  "\ufeff",
  "\u2028",
  "\ud800",
  "😀",
  "__proto__",
  "constructor",
  "kind: Agent\n",
  "apiVersion: beige.dev/v1\n",
  "metadata: {name: x}\n",
  "spec:\n",
  "  model: ",
  "apiKey: ",
  "sk-secret-secret",
  "{file: x}",
  "-".repeat(50),
  "\r\n",
  "\r",
];

/** Everything that a manifest goes through. */
function through(text: string): void {
  const started = cpuMs();
  const { documents, problems } = readManifests([
    { name: "h.yaml", folder: "/f", text, vars: { A: "${A}$$", KEY: "v" }, files: { x: "text" } },
  ]);
  const all = [...problems, ...documents.flatMap((d) => validateDocument(d))];
  renderProblems(all);
  for (const p of all) if (p.at) expect([p.message, p.at.line >= 1, p.at.column >= 1]).toEqual([p.message, true, true]);
  for (const d of documents) {
    const kind = d.ref?.kind ?? "Agent";
    const { spec } = normalise(kind, d.value);
    expect(normaliseSpec(kind, spec)).toEqual(spec);
    expect(diffSpecs(kind, spec, spec)).toEqual([]);
    diffSpecs(kind, undefined, spec);
    toYaml(d.value, { escape: true });
    applyOwned({ kind, managedFields: [], manager: "m", applied: { spec }, force: false, time: "t" });
  }
  expect(cpuMs() - started).toBeLessThan(2000);
  expect(({} as Record<string, unknown>)["polluted"]).toBeUndefined();
}

test("2,000 made-up manifests never throw and never take long", () => {
  fc.assert(
    fc.property(
      fc.array(fc.constantFrom(...fragments), { maxLength: 60 }).map((parts) => parts.join("")),
      through,
    ),
    { numRuns: 2000 },
  );
}, 60_000);

test("2,000 damaged manifests never throw and never take long", () => {
  const cut = fc.record({ at: fc.nat(good.length), drop: fc.nat(12), put: fc.constantFrom("", ...fragments) });
  const damaged = fc
    .array(cut, { minLength: 1, maxLength: 4 })
    .map((cuts) => cuts.reduce((text, { at, drop, put }) => text.slice(0, at) + put + text.slice(at + drop), good));
  fc.assert(fc.property(damaged, through), { numRuns: 2000 });
}, 60_000);

test("1,000 manifests of any bytes never throw and never take long", () => {
  fc.assert(fc.property(fc.string({ unit: "binary", maxLength: 200 }), through), { numRuns: 1000 });
});

test("1,000 manifests of any JSON in place of a field never throw, and are refused or kept as they are", () => {
  const json = fc.jsonValue({ maxDepth: 3 });
  const value = fc.record({
    apiVersion: fc.constantFrom("beige.dev/v1", 5),
    kind: fc.constantFrom("Agent", "Provider", "Plugin", "Schedule"),
    metadata: fc.oneof(fc.constant({ name: "x" }), json),
    spec: json,
  });
  fc.assert(
    fc.property(value, (v) => through(JSON.stringify(v))),
    { numRuns: 1000 },
  );
});
