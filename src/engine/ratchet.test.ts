import fc from "fast-check";
import { afterEach, beforeEach, expect, test } from "vitest";
import type { WriteRequest } from "../core/control.ts";
import { applied, box, createRig, file, ref, type Rig } from "./rig.ts";

let rig: Rig;
beforeEach(async () => {
  rig = await createRig();
});
afterEach(async () => rig.close());

const write = (op: WriteRequest["op"], name: string, body: unknown, more: Partial<WriteRequest> = {}) =>
  rig.engine.write({ op, ref: ref(name), body, manager: "me", force: false, dryRun: false, ...more });
const spec = (): unknown => rig.engine.get(ref("a")).spec;
const whole = (given: object): unknown => JSON.parse(box("a", given as Record<string, unknown>));

/** An object as an older, more tolerant beige has stored it. */
async function old(more: object): Promise<void> {
  await write("create", "a", whole({ size: 1 }), { manager: "before" });
  const object = rig.engine.get(ref("a"));
  rig.store.objects.write([{ type: "put", object: { ...object, spec: { ...(object.spec as object), ...more } } }], "full");
}

test("an unknown field that is stored locks nothing else of the object, and every write says that it is there", async () => {
  await old({ colour: { deep: 1 } });
  const told = ['unknown field "colour" in spec (as it was before; not changed)'];
  expect(await write("merge", "a", { metadata: { labels: { x: "1" } } })).toMatchObject({ warnings: told });
  expect(await write("merge", "a", { spec: { size: 2 } })).toMatchObject({ warnings: told });
  expect(await write("json", "a", [{ op: "replace", path: "/spec/size", value: 3 }])).toMatchObject({ warnings: told });
  expect(await write("update", "a", whole({ size: 4, colour: { deep: 1 } }))).toMatchObject({ warnings: told });
  expect(await write("apply", "a", whole({ size: 5 }), { manager: "two", force: true })).toMatchObject({ warnings: told });
  expect(spec()).toMatchObject({ size: 5, colour: { deep: 1 } });
  await expect(write("merge", "a", { spec: { colour: { deep: 2 } } })).rejects.toMatchObject({ code: "invalid" });
  await expect(write("merge", "a", { spec: { colour: { deep: 1, more: 1 } } })).rejects.toMatchObject({ code: "invalid" });
  await expect(write("merge", "a", { spec: { shape: 1 } })).rejects.toMatchObject({
    message: 'box/a is not valid: unknown field "shape" in spec',
    problems: [{ path: "/spec/shape" }],
  });
  expect(await write("merge", "a", { spec: { colour: null } })).toMatchObject({ warnings: [] });
  await expect(write("merge", "a", { spec: { colour: { deep: 1 } } })).rejects.toMatchObject({ code: "invalid" });
});

test.each([
  ["a value of the wrong type", { color: 7 }, { color: 8 }],
  ["a list with a wrong item", { tags: ["a", 7] }, { tags: ["a", 8] }],
  ["a mapping where text belongs", { color: { a: 1 } }, { color: { a: 2 } }],
])("%s stays while it is not touched", async (_what, stored, touched) => {
  await old(stored);
  const { warnings } = await write("merge", "a", { spec: { size: 9 } });
  expect(warnings).toHaveLength(1);
  expect(spec()).toMatchObject({ size: 9, ...stored });
  await expect(write("merge", "a", { spec: touched })).rejects.toMatchObject({ code: "invalid" });
  expect(await write("merge", "a", { spec: { color: "red", tags: [] } })).toMatchObject({ warnings: [] });
});

test("a field that is missing by now may go on missing, and cannot be taken away", async () => {
  await old({});
  const object = rig.engine.get(ref("a"));
  const { size: _size, ...rest } = object.spec as { size: number };
  rig.store.objects.write([{ type: "put", object: { ...object, spec: rest } }], "full");
  expect((await write("merge", "a", { spec: { color: "red" } })).warnings).toEqual(["spec has no size (as it was before; not changed)"]);
  await write("merge", "a", { spec: { size: 2 } });
  await expect(write("merge", "a", { spec: { size: null } })).rejects.toMatchObject({ code: "invalid" });
});

test("what fields are together is judged by what changes too", async () => {
  await old({ size: 200 });
  expect((await write("merge", "a", { spec: { color: "red" } })).warnings).toEqual([
    "box is larger than 100 (as it was before; not changed)",
  ]);
  await expect(write("merge", "a", { spec: { size: 201 } })).rejects.toMatchObject({ code: "invalid" });
  await write("merge", "a", { spec: { size: 2 } });
  await expect(write("merge", "a", { spec: { size: 200 } })).rejects.toMatchObject({ code: "invalid" });
});

test("nothing is old in an object that is not there", async () => {
  await expect(write("create", "a", whole({ size: 1, colour: 1 }))).rejects.toMatchObject({ code: "invalid" });
  await expect(write("apply", "a", whole({ size: 200 }))).rejects.toMatchObject({ code: "invalid" });
});

test("an apply goes on with a manifest whose wrong field is stored just so, warns with its line, and refuses any other", async () => {
  await old({ colour: "old" });
  const manifest = (given: object): ReturnType<typeof file> => file("m.yaml", box("a", given as Record<string, unknown>));
  const done = await applied(rig, [manifest({ size: 1, color: "red", colour: "old" })], { forceConflicts: true });
  expect(done.end).toMatchObject({ exit: 0, applied: 1 });
  expect(done.events.find((event) => event.type === "warnings")).toMatchObject({
    problems: [{ message: 'unknown field "colour" in spec', path: "/spec/colour", at: { file: "m.yaml", line: 1 } }],
  });
  expect(spec()).toMatchObject({ color: "red", colour: "old" });
  // Not kept as a good set: what is stored may have changed since.
  expect((await applied(rig, [manifest({ size: 1, color: "red", colour: "new" })])).end.exit).toBe(2);
  expect((await applied(rig, [manifest({ size: 1, color: "red", colour: "old" })])).end).toMatchObject({ exit: 0, unchanged: 1 });
  expect((await applied(rig, [manifest({ size: 1, color: "red" })])).end.exit).toBe(0);
  expect(spec()).not.toHaveProperty("colour");
  expect((await applied(rig, [manifest({ size: 1, color: "red", colour: "old" })])).end.exit).toBe(2);
});

test("an apply of a manifest that a check refuses by now goes on while that part stays", async () => {
  await old({ size: 200 });
  const manifest = (given: object): ReturnType<typeof file> => file("m.yaml", box("a", given as Record<string, unknown>));
  const done = await applied(rig, [manifest({ size: 200, color: "red" })], { forceConflicts: true });
  expect(done.end.exit).toBe(0);
  expect(done.events.find((event) => event.type === "warnings")).toMatchObject({ problems: [{ message: "box is larger than 100" }] });
  expect((await applied(rig, [manifest({ size: 300 })], { forceConflicts: true })).end.exit).toBe(2);
});

const FIELDS = {
  size: { good: [1, 2], bad: ["many", null, 1.5] },
  color: { good: ["red", "blue"], bad: [7, ["red"], { a: 1 }] },
  tags: { good: [["a"], ["a", "b"], []], bad: [["a", 7], "a", [["a"]]] },
  colour: { good: [], bad: [1, { deep: 1 }] },
  on: { good: ["b"], bad: [8, { a: {} }] },
} as const;
const specs = fc.record(
  Object.fromEntries(Object.entries(FIELDS).map(([name, { good, bad }]) => [name, fc.constantFrom<unknown>(...good, ...bad)])),
  { requiredKeys: ["size"] },
) as fc.Arbitrary<Record<string, unknown>>;
const isBad = (name: string, value: unknown): boolean =>
  value !== undefined && FIELDS[name as keyof typeof FIELDS].bad.some((each: unknown) => JSON.stringify(each) === JSON.stringify(value));

test("a write is refused exactly when it brings something wrong, and warns exactly of what stays wrong", async () => {
  await old({});
  const object = rig.engine.get(ref("a"));
  await fc.assert(
    fc.asyncProperty(specs, specs, async (stored, wanted) => {
      rig.store.objects.write([{ type: "put", object: { ...object, spec: stored } }], "full");
      const names = Object.keys(FIELDS);
      const stays = (name: string): boolean => JSON.stringify(stored[name]) === JSON.stringify(wanted[name]);
      const brings = names.filter((name) => isBad(name, wanted[name]) && !stays(name));
      const keeps = names.filter((name) => isBad(name, wanted[name]) && stays(name));
      const answer = await write("update", "a", whole(wanted)).catch((error: { code: string; problems: { path: string }[] }) => error);
      if (brings.length === 0) {
        const { warnings } = answer as { warnings: readonly string[] };
        expect(warnings.filter((text) => text.endsWith("(as it was before; not changed)"))).toHaveLength(keeps.length);
        expect(spec()).toMatchObject(wanted);
        return;
      }
      expect(answer).toMatchObject({ code: "invalid" });
      const paths = new Set((answer as { problems: { path: string }[] }).problems.map(({ path }) => path.split("/")[2] ?? ""));
      expect([...paths].toSorted()).toEqual(brings.toSorted());
    }),
    { numRuns: 300 },
  );
});
