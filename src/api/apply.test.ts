import { expect, test } from "vitest";
import { applyRequest } from "./apply.ts";
import { rig } from "./rig.ts";

const files = [{ name: "a.yaml", folder: "/s", text: "x" }];
const ref = { kind: "Agent", namespace: "default", name: "a" };
const basis = { store: "s-1", resourceVersion: "7", objects: [{ ref, uid: "u", stored: "a", wanted: "b", world: "c" }] };

test("an apply has quiet defaults: guarded pruning, no detail, nothing expected", () => {
  expect(applyRequest({ files })).toMatchObject({ set: "default", prune: false, allowEmpty: false, detail: false });
  expect(Object.keys(applyRequest({ files }))).not.toContain("maxDeletes");
  expect(Object.keys(applyRequest({ files, expect: null }))).not.toContain("expect");
});

test.each([0, 14, "30%", "100%"])("maxDeletes %j is taken as it is", (maxDeletes) => {
  expect(applyRequest({ files, maxDeletes }).maxDeletes).toBe(maxDeletes);
});

test.each([-1, 1.5, "14", "x%", "1000%", "", true, {}, []])("maxDeletes %j is refused", (maxDeletes) => {
  expect(() => applyRequest({ files, maxDeletes })).toThrow(/maxDeletes must be/);
});

test("the basis of a plan comes back as it was given", () => {
  const { uid: _uid, ...object } = basis.objects[0] ?? {};
  expect(applyRequest({ files, expect: basis }).expect).toEqual({ ...basis, objects: [object] });
});

test.each<[string, object]>([
  ["no list", { ...basis, objects: {} }],
  ["no store", { ...basis, store: "" }],
  ["an unknown field", { ...basis, more: 1 }],
  ["an object without a name", { ...basis, objects: [{ ref: { kind: "Agent" }, stored: "", wanted: "", world: "" }] }],
  ["a hash that is none", { ...basis, objects: [{ ref, stored: 1, wanted: "", world: "" }] }],
  ["a hash that is too long", { ...basis, objects: [{ ref, stored: "a".repeat(65), wanted: "", world: "" }] }],
  ["a list", []],
])("a basis with %s is refused", (_name, given) => {
  expect(() => applyRequest({ files, expect: given })).toThrow();
});

test("revisions of an object are answered by any word for its kind, and of nobody is not found", async () => {
  const r = await rig();
  r.control.put("Agent", "travel", { tools: [] });
  try {
    expect((await r.ask("GET /api/revisions?kind=ag&name=travel")).json.items).toMatchObject([{ revision: 1, spec: expect.any(Object) }]);
    expect((await r.ask("GET /api/revisions?kind=agent&name=nobody")).status).toBe(404);
    expect((await r.ask("GET /api/revisions?kind=agent&name=..%2Fx")).status).toBe(400);
    expect((await r.ask("GET /api/revisions")).status).toBe(400);
  } finally {
    await r.end();
  }
});
