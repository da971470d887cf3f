import fc from "fast-check";
import { expect, test } from "vitest";
import { decodeFields, encodeFields, leaves, showPath } from "./fieldset.ts";
import { normaliseSpec } from "./normalise.ts";
import { applyOwned, updateOwned } from "./ownership.ts";
import type { ApplyOutput, Owned } from "./ownership.ts";
import type { ManagedFields } from "./resource.ts";

/** A store of one object. */
class One {
  live: Owned | undefined;
  managedFields: readonly ManagedFields[] = [];
  readonly kind: string;
  constructor(kind = "Agent") {
    this.kind = kind;
  }
  apply(manager: string, applied: Owned, more: { force?: boolean; time?: string } = {}): ApplyOutput {
    const input = {
      kind: this.kind,
      managedFields: this.managedFields,
      manager,
      applied,
      force: more.force ?? false,
      time: more.time ?? "t1",
    };
    const out = applyOwned(this.live === undefined ? input : { ...input, live: this.live });
    if (out.conflicts.length === 0 || more.force === true) {
      this.live = { metadata: out.merged.metadata, spec: normaliseSpec(this.kind, out.merged.spec) };
      this.managedFields = out.managedFields;
    }
    return out;
  }
  update(manager: string, change: (spec: Record<string, unknown>) => void): void {
    const after = structuredClone(this.live) as { spec: Record<string, unknown> };
    change(after.spec);
    const spec = normaliseSpec(this.kind, after.spec);
    this.managedFields = updateOwned({
      kind: this.kind,
      ...(this.live ? { before: this.live } : {}),
      after: { ...after, spec },
      managedFields: this.managedFields,
      manager,
      time: "t2",
    });
    this.live = { ...after, spec };
  }
  at(...path: readonly string[]): unknown {
    return path.reduce<unknown>((node, key) => (node as Record<string, unknown>)[key], this.live?.spec);
  }
  owns(manager: string): readonly string[] {
    return this.managedFields
      .filter((m) => m.manager === manager)
      .flatMap((m) => [...decodeFields(m.fieldsV1).values()].map(showPath))
      .toSorted();
  }
}
const model = { provider: "p", id: "m" };

test("applying the same again changes nothing, not even the time", () => {
  const one = new One();
  const applied = {
    metadata: { labels: { a: "1" } },
    spec: { model, tools: ["x", "y"], sandbox: { env: { A: "1" }, mounts: [{ source: "/s", target: "/t" }] } },
  };
  one.apply("a", applied);
  const [live, fields] = [one.live, one.managedFields];
  const again = one.apply("a", applied, { time: "t9" });
  expect([one.live, one.managedFields, again.conflicts, again.removed]).toEqual([live, fields, [], []]);
});

test("fields that leave the manifest go back to their default, with whatever of their parents nobody owns", () => {
  const one = new One("Provider");
  const models = [{ id: "m", cost: { input: 3 }, maxTokens: 5 }, { id: "n" }];
  one.apply("a", { spec: { api: "echo", concurrency: 4, models } });
  const out = one.apply("a", { spec: { api: "echo", models: [{ id: "m" }] } });
  expect(out.removed.toSorted()).toEqual([
    "spec.concurrency",
    "spec.models[m].cost.input",
    "spec.models[m].maxTokens",
    "spec.models[n]",
    "spec.models[n].id",
  ]);
  expect(one.at()).toEqual(normaliseSpec("Provider", { api: "echo", models: [{ id: "m" }] }));
});

test("two managers share lists word by word, and each takes only its own away", () => {
  const one = new One();
  one.apply("a", { spec: { model, tools: ["x", "both"] } });
  one.apply("b", { spec: { tools: ["y", "both"], sandbox: { env: { B: "1" } } } });
  expect(one.at("tools")).toEqual(["x", "both", "y"]);
  one.apply("b", { spec: { tools: [] } });
  expect(one.at("tools")).toEqual(["x", "both"]);
  expect(one.at("sandbox", "env")).toEqual({});
  one.apply("a", { spec: { model } });
  expect(one.at("tools")).toEqual([]);
});

test("a field of somebody else is a conflict that names manager and field, and force takes it", () => {
  const one = new One();
  one.apply("a", { spec: { model, sandbox: { image: "x:1", mounts: [{ source: "/s", target: "/t" }] } } });
  const before = structuredClone([one.live, one.managedFields]);
  const out = one.apply("b", { spec: { sandbox: { image: "x:2", mounts: [{ target: "/t", source: "/other" }] } } });
  expect(out.conflicts).toEqual([
    { manager: "a", operation: "Apply", path: "spec.sandbox.image" },
    { manager: "a", operation: "Apply", path: "spec.sandbox.mounts[/t].source" },
  ]);
  expect([one.live, one.managedFields]).toEqual(before);
  one.apply("b", { spec: { sandbox: { image: "x:2" } } }, { force: true });
  expect([one.owns("a").includes("spec.sandbox.image"), one.owns("b")]).toEqual([false, ["spec.sandbox.image"]]);
  expect(one.apply("a", { spec: { model } }).removed).not.toContain("spec.sandbox.image");
  expect(one.at("sandbox", "image")).toBe("x:2");
});

test("the same value, in any spelling, is shared and no conflict", () => {
  const one = new One();
  one.apply("a", { spec: { model, sandbox: { resources: { cpus: "1000m" } } } });
  expect(one.apply("b", { spec: { sandbox: { resources: { cpus: 1 } } } }).conflicts).toEqual([]);
  expect(one.at("sandbox", "resources", "cpus")).toBe("1000m");
  expect(one.apply("a", { spec: { model } }).removed).toEqual([]);
  expect(one.at("sandbox", "resources", "cpus")).toBe("1000m");
});

test("references are owned as a whole: env and secret never stand side by side", () => {
  const one = new One("Provider");
  one.apply("a", { spec: { api: "echo", apiKey: { env: "X" } } });
  one.apply("a", { spec: { api: "echo", apiKey: { secret: "x" } } });
  expect(one.at("apiKey")).toEqual({ secret: "x" });
  expect(one.owns("a")).toEqual(["spec.api", "spec.apiKey"]);
});

test("a plain write owns what it changed, and the next apply says so", () => {
  const one = new One();
  one.apply("a", { spec: { model, suspend: false, tools: ["x"] } });
  one.update("edit", (spec) => Object.assign(spec, { suspend: true, tools: ["x", "y"] }));
  expect(one.owns("edit")).toEqual(["spec.suspend", "spec.tools[y]"]);
  expect(one.apply("a", { spec: { model, suspend: false } }).conflicts).toEqual([
    { manager: "edit", operation: "Update", path: "spec.suspend" },
  ]);
  one.update("edit", (spec) => Object.assign(spec, { tools: [] }));
  expect([one.owns("a").includes("spec.tools[x]"), one.owns("edit")]).toEqual([false, ["spec.suspend", "spec.tools"]]);
});

test("an empty mapping takes nothing from others, and a value of another shape does", () => {
  const one = new One("Plugin");
  one.apply("a", { spec: { source: { builtin: "x" }, config: { deep: { k: 1 }, flat: 1 } } });
  expect(one.apply("b", { spec: { config: { deep: {} } } }).conflicts).toEqual([]);
  expect(one.at("config")).toEqual({ deep: { k: 1 }, flat: 1 });
  expect(one.apply("c", { spec: { config: { deep: 5 } } }).conflicts.map((c) => c.path)).toContain("spec.config.deep.k");
  expect(one.apply("c", { spec: { config: { flat: { x: 1 } } } }).conflicts.map((c) => c.path)).toEqual(["spec.config.flat"]);
  one.apply("c", { spec: { config: { deep: 5, flat: { x: 1 } } } }, { force: true });
  expect(one.at("config")).toEqual({ deep: 5, flat: { x: 1 } });
});

test("labels and annotations have owners too, and names have none", () => {
  const one = new One();
  one.apply("a", { metadata: { labels: { x: "1" }, name: "n" } as object, spec: { model } });
  expect(one.owns("a")).toEqual(["metadata.labels.x", "spec.model.id", "spec.model.provider"]);
  expect(one.apply("b", { metadata: { labels: { x: "2" } } }).conflicts.map((c) => c.path)).toEqual(["metadata.labels.x"]);
  one.apply("a", { spec: { model } });
  expect(one.live?.metadata).toEqual({});
});

test("the wire form is that of Kubernetes, and comes back the same", () => {
  const one = new One();
  one.apply("a", { spec: { model: { id: "m" }, tools: ["git"], sandbox: { mounts: [{ target: "/d", source: "/s" }] } } });
  expect(one.managedFields[0]?.fieldsV1).toEqual({
    "f:spec": {
      "f:model": { "f:id": {} },
      "f:tools": { 'v:"git"': {} },
      "f:sandbox": { "f:mounts": { 'k:{"target":"/d"}': { ".": {}, "f:target": {}, "f:source": {} } } },
    },
  });
  for (const odd of [null, 5, [], { x: {} }, { "f:a": 5 }, { "f:a": { zz: {} } }]) expect(() => decodeFields(odd)).not.toThrow();
});

const json = fc.jsonValue({ maxDepth: 3 });
test("any set of leaves survives the wire", () => {
  fc.assert(
    fc.property(fc.dictionary(fc.string(), json, { maxKeys: 4 }), (value) => {
      const paths = new Map(leaves({ spec: value }, undefined).map((p) => [JSON.stringify(p), p]));
      expect(new Set(decodeFields(encodeFields(paths)).keys())).toEqual(new Set(paths.keys()));
    }),
  );
});

/** The model: config of a Plugin with scalar fields only. Each field has a value and owners. */
const fields = fc.dictionary(fc.constantFrom("a", "b", "c"), fc.constantFrom(1, 2), { maxKeys: 3 });
const steps = fc.array(fc.record({ manager: fc.constantFrom("x", "y", "z"), config: fields, force: fc.boolean() }), { maxLength: 10 });

test("any history of applies agrees with a simple model of owned fields", () => {
  fc.assert(
    fc.property(steps, (history) => {
      const one = new One("Plugin");
      one.apply("base", { spec: { source: { builtin: "b" } } });
      const state = new Map<string, { value: unknown; owners: Set<string> }>();
      for (const { manager, config, force } of history) {
        const clash = Object.entries(config).some(
          ([k, v]) => state.get(k)?.value !== v && [...(state.get(k)?.owners ?? [])].some((o) => o !== manager),
        );
        const out = one.apply(manager, { spec: { config } }, { force });
        expect(out.conflicts.length > 0).toBe(clash);
        if (clash && !force) continue;
        for (const [k, v] of Object.entries(config)) {
          const had = state.get(k);
          state.set(k, { value: v, owners: had?.value === v ? had.owners.add(manager) : new Set([manager]) });
        }
        for (const [k, field] of state) {
          if (Object.hasOwn(config, k) || !field.owners.delete(manager)) continue;
          if (field.owners.size === 0) state.delete(k);
        }
        expect(one.at("config")).toEqual(Object.fromEntries([...state].map(([k, f]) => [k, f.value])));
      }
      for (const m of ["x", "y", "z"]) {
        const owned = [...state].filter(([, f]) => f.owners.has(m)).map(([k]) => `spec.config.${k}`);
        expect(one.owns(m).filter((p) => p !== "spec.config")).toEqual(owned.toSorted());
      }
    }),
    { numRuns: 1000 },
  );
});
