import { afterEach, expect, test } from "vitest";
import type { WriteRequest } from "../core/control.ts";
import { box, createRig, ref, type Rig } from "./rig.ts";

let rig: Rig;
afterEach(async () => rig.close());

const body = (name: string, spec: Record<string, unknown> = { size: 1 }): unknown => JSON.parse(box(name, spec));
const write = (op: WriteRequest["op"], name: string, given: unknown, more: Partial<WriteRequest> = {}) =>
  rig.engine.write({ op, ref: ref(name), body: given, manager: "me", force: false, dryRun: false, ...more });
const read = (name: string) => rig.engine.get(ref(name));
const owners = (name: string) => read(name).metadata.managedFields?.map((m) => `${m.manager} ${m.operation}`);
const replace = (path: string, value: unknown): object => ({ op: "replace", path, value });

test("a JSON patch changes what it names, and its tests hold or nothing changes", async () => {
  rig = await createRig();
  await write("create", "a", body("a"));
  const { object, created } = await write("json", "a", [{ op: "test", path: "/spec/size", value: 1 }, replace("/spec/size", 2)]);
  expect([created, object.metadata.generation, object.spec]).toEqual([false, 2, expect.objectContaining({ size: 2 })]);
  await expect(write("json", "a", [{ op: "test", path: "/spec/size", value: 1 }, replace("/spec/size", 3)])).rejects.toMatchObject({
    code: "invalid",
  });
  expect(read("a").spec).toMatchObject({ size: 2 });
  await expect(write("json", "none", [])).rejects.toMatchObject({ code: "not_found" });
});

test("a patch that changes nothing is not seen, and a dry run shows the next generation with the version that is", async () => {
  rig = await createRig();
  await write("create", "a", body("a"));
  await rig.clock.advance(100);
  const before = read("a");
  expect((await write("json", "a", [replace("/spec/size", 1)])).object).toEqual(before);
  const dry = await write("json", "a", [replace("/spec/size", 5)], { dryRun: true });
  expect(dry.object.metadata).toMatchObject({ generation: 2, resourceVersion: before.metadata.resourceVersion });
  expect(read("a")).toEqual(before);
});

test("status, uid and names are out of reach, and a version that was is a conflict", async () => {
  rig = await createRig();
  await write("create", "a", body("a"));
  await rig.clock.advance(100);
  const before = read("a");
  await write("json", "a", [{ op: "add", path: "/status/observedGeneration", value: 99 }]);
  expect(read("a").status).toEqual(before.status);
  await expect(write("json", "a", [replace("/metadata/name", "b")])).rejects.toMatchObject({ code: "invalid" });
  await expect(write("json", "a", [replace("/metadata/uid", "other")])).rejects.toMatchObject({ code: "conflict" });
  await expect(write("json", "a", [replace("/metadata/resourceVersion", "1")])).rejects.toMatchObject({ code: "conflict" });
  await expect(write("json", "a", [{ op: "test", path: "/metadata/resourceVersion", value: "1" }])).rejects.toMatchObject({
    code: "invalid",
  });
});

test.each([
  [{ op: "replace" }],
  "text",
  [null],
  [{ op: "add", path: "/__proto__/x", value: 1 }],
  [replace("/spec", null)],
  [replace("", 3)],
])("the patch %j is refused and changes nothing", async (patch) => {
  rig = await createRig();
  await write("create", "a", body("a"));
  await rig.clock.advance(100);
  const before = read("a");
  await expect(write("json", "a", patch)).rejects.toMatchObject({ code: "invalid" });
  expect(read("a")).toEqual(before);
  expect(({} as { x?: number }).x).toBeUndefined();
});

test("kubectl's move from client-side to server-side apply is honoured: its owner is renamed, at the version that it read", async () => {
  rig = await createRig();
  await write("create", "a", body("a"), { manager: "kubectl-client-side-apply" });
  await write("apply", "a", body("a"), { manager: "kubectl" });
  expect(owners("a")).toEqual(["kubectl-client-side-apply Update", "kubectl Apply"]);
  const { resourceVersion, managedFields = [] } = read("a").metadata;
  const kept = managedFields.filter((each) => each.manager === "kubectl");
  const patch = [replace("/metadata/managedFields", kept), replace("/metadata/resourceVersion", resourceVersion)];
  const { object } = await write("json", "a", patch, { manager: "kubectl" });
  expect(owners("a")).toEqual(["kubectl Apply"]);
  expect(object.metadata.generation).toBe(1);
  // The same again comes from an old read.
  await write("merge", "a", { metadata: { labels: { x: "1" } } });
  await expect(write("json", "a", patch, { manager: "kubectl" })).rejects.toMatchObject({ code: "conflict" });
});

test.each([
  {},
  [1],
  [{ manager: "m" }],
  [{ manager: "", operation: "Apply" }],
  [{ manager: "m", operation: "Own" }],
  Array.from({ length: 101 }, () => ({ manager: "m" })),
])("owners %j are refused", async (managedFields) => {
  rig = await createRig();
  await write("create", "a", body("a"));
  await expect(write("json", "a", [replace("/metadata/managedFields", managedFields)])).rejects.toMatchObject({ code: "invalid" });
});

test("one empty entry takes all owners away", async () => {
  rig = await createRig();
  await write("create", "a", body("a"));
  await write("json", "a", [replace("/metadata/managedFields", [{}])]);
  expect(owners("a")).toBeUndefined();
});

test("an apply that names less than a whole object keeps the rest, of a new one it is refused", async () => {
  rig = await createRig();
  await write("create", "a", body("a", { size: 3 }));
  const some = { apiVersion: "beige.dev/v1", kind: "Box", metadata: { name: "a", annotations: { note: "x" } } };
  await write("apply", "a", some, { manager: "notes" });
  expect(read("a")).toMatchObject({ metadata: { annotations: { note: "x" } }, spec: { size: 3 } });
  await expect(write("apply", "b", { ...some, metadata: { name: "b" } }, { manager: "notes" })).rejects.toMatchObject({ code: "invalid" });
  await expect(write("apply", "a", { ...some, spec: { size: null } }, { force: true })).rejects.toMatchObject({ code: "invalid" });
  expect(read("a").spec).toMatchObject({ size: 3 });
});
