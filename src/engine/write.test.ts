import { afterEach, expect, test } from "vitest";
import type { WriteRequest } from "../core/control.ts";
import { applied, box, createRig, file, ref, type Rig } from "./rig.ts";

let rig: Rig;
afterEach(async () => rig.close());

const body = (name: string, spec: Record<string, unknown> = { size: 1 }, metadata: Record<string, unknown> = {}): unknown =>
  JSON.parse(box(name, spec, metadata));
const write = (op: WriteRequest["op"], name: string, given: unknown, more: Partial<WriteRequest> = {}) =>
  rig.engine.write({ op, ref: ref(name), body: given, manager: "me", force: false, dryRun: false, ...more });
const owners = (name: string) => rig.engine.get(ref(name)).metadata.managedFields?.map((m) => `${m.manager} ${m.operation}`);

test("create stores an object with its defaults, and the loop makes it so", async () => {
  rig = await createRig();
  const { object, created } = await write("create", "a", body("a"));
  expect(created).toBe(true);
  expect(object).toMatchObject({ spec: { size: 1, color: "beige", tags: [] }, metadata: { generation: 1, namespace: "default" } });
  expect(owners("a")).toEqual(["me Update"]);
  await rig.clock.advance(100);
  expect(rig.toy.things.size).toBe(1);
  await expect(write("create", "a", body("a"))).rejects.toMatchObject({ code: "conflict", message: "box/a already exists" });
});

test("update replaces the spec, keeps what only beige writes and ignores status", async () => {
  rig = await createRig();
  await write("create", "a", body("a", { size: 1 }, { labels: { x: "1" } }));
  await rig.clock.advance(100);
  const before = rig.engine.get(ref("a"));
  const sent = { ...(body("a", { size: 2 }) as object), status: { conditions: [], observedGeneration: 99 } };
  const { object } = await write("update", "a", sent);
  expect(object.metadata).toMatchObject({
    uid: before.metadata.uid,
    creationTimestamp: before.metadata.creationTimestamp,
    generation: 2,
    finalizers: before.metadata.finalizers,
  });
  expect(object.metadata.labels).toBeUndefined();
  expect(object.status).toEqual(before.status);
});

test("an update of what was changed meanwhile is a conflict; of what was read it is not", async () => {
  rig = await createRig();
  await write("create", "a", body("a"));
  const read = rig.engine.get(ref("a"));
  await write("merge", "a", { metadata: { labels: { x: "1" } } });
  const stale = {
    ...(body("a", { size: 2 }) as { metadata: object }),
    metadata: { name: "a", resourceVersion: read.metadata.resourceVersion },
  };
  await expect(write("update", "a", stale)).rejects.toMatchObject({ code: "conflict" });
  const fresh = { ...stale, metadata: { name: "a", resourceVersion: rig.engine.get(ref("a")).metadata.resourceVersion } };
  expect((await write("update", "a", fresh)).object.spec).toMatchObject({ size: 2 });
});

test("a conditional write of another uid, or of an absent object, is refused", async () => {
  rig = await createRig();
  await write("create", "a", body("a"));
  await expect(write("update", "a", body("a", { size: 1 }, { uid: "other" }))).rejects.toMatchObject({ code: "conflict" });
  await expect(write("update", "b", body("b"))).rejects.toMatchObject({ code: "not_found" });
  await expect(write("merge", "b", {})).rejects.toMatchObject({ code: "not_found" });
  await expect(write("apply", "b", body("b", { size: 1 }, { resourceVersion: "7" }))).rejects.toMatchObject({ code: "conflict" });
});

test("a write that changes nothing does not move the version", async () => {
  rig = await createRig();
  await write("create", "a", body("a"));
  await rig.clock.advance(100);
  const version = rig.engine.version();
  await write("update", "a", body("a"));
  await write("update", "a", body("a", { size: 1, color: "beige" }));
  await write("merge", "a", {});
  await write("merge", "a", { spec: { size: 1 } });
  await write("merge", "a", { status: { x: 1 }, metadata: { generation: 77, finalizers: [], deletionTimestamp: "now" } });
  expect(rig.engine.version()).toBe(version);
});

test("a dry run answers the object with its next generation and its old version, and stores nothing", async () => {
  rig = await createRig();
  await write("create", "a", body("a"));
  await rig.clock.advance(100);
  const before = rig.engine.get(ref("a")).metadata;
  const version = rig.engine.version();
  const { object } = await write("merge", "a", { spec: { size: 7 } }, { dryRun: true });
  expect(object).toMatchObject({ spec: { size: 7 }, metadata: { generation: 2, resourceVersion: before.resourceVersion } });
  expect(rig.engine.version()).toBe(version);
  expect((await write("create", "b", body("b"), { dryRun: true })).created).toBe(true);
  expect(rig.engine.list("Box", {}).items).toHaveLength(1);
});

test("a merge patch sets, removes and keeps", async () => {
  rig = await createRig();
  await write("create", "a", body("a", { size: 1, color: "red" }, { labels: { x: "1", y: "2" } }));
  await write("merge", "a", { spec: { color: null, size: 3 }, metadata: { labels: { x: null, z: "3" }, annotations: { note: "n" } } });
  expect(rig.engine.get(ref("a"))).toMatchObject({
    spec: { size: 3, color: "beige" },
    metadata: { labels: { y: "2", z: "3" }, annotations: { note: "n" } },
  });
  await write("merge", "a", { metadata: { labels: null } });
  expect(rig.engine.get(ref("a")).metadata.labels).toBeUndefined();
});

test("server-side apply keeps what others own, removes what its manager no longer names, and names who is in the way", async () => {
  rig = await createRig();
  await write("apply", "a", body("a", { size: 1, color: "red" }), { manager: "one" });
  await write("apply", "a", body("a", { size: 1, tags: ["t"] }), { manager: "two" });
  expect(rig.engine.get(ref("a")).spec).toEqual({ size: 1, color: "red", tags: ["t"] });
  await write("apply", "a", body("a", { size: 1 }), { manager: "one" });
  expect(rig.engine.get(ref("a")).spec).toEqual({ size: 1, color: "beige", tags: ["t"] });
  const refused = write("apply", "a", body("a", { size: 2 }), { manager: "three" });
  await expect(refused).rejects.toMatchObject({ code: "conflict", message: "box/a: spec.size is owned by one; spec.size is owned by two" });
  await expect(refused.catch((e: { problems: unknown }) => e.problems)).resolves.toMatchObject([
    { path: "/spec/size" },
    { path: "/spec/size" },
  ]);
  await write("apply", "a", body("a", { size: 2 }), { manager: "three", force: true });
  expect(rig.engine.get(ref("a")).spec).toMatchObject({ size: 2 });
});

test.each([
  ["an unknown field", { size: 1, colour: "red" }],
  ["a wrong type", { size: "1" }],
  ["null", { size: null }],
  ["a missing field", {}],
  ["what only the kind sees", { size: 1_000 }],
  ["a prototype key", JSON.parse('{"size":1,"__proto__":{"x":1}}')],
])("%s is refused with its problems, and nothing is stored", async (_name, spec) => {
  rig = await createRig();
  await expect(write("create", "a", { ...(body("a") as object), spec })).rejects.toMatchObject({ code: "invalid" });
  expect(rig.engine.version()).toBe("0");
});

test.each([
  ["no object", "text"],
  ["nothing", undefined],
  ["a list", [1]],
  ["another name", { ...(JSON.parse(box("b")) as object) }],
  ["another kind", { apiVersion: "beige.dev/v1", kind: "Agent", metadata: { name: "a" }, spec: { size: 1 } }],
  ["another version", { apiVersion: "v1", kind: "Box", metadata: { name: "a" }, spec: { size: 1 } }],
  ["another namespace", JSON.parse(box("a", { size: 1 }, { namespace: "team" }))],
])("a body that is %s is refused", async (_name, given) => {
  rig = await createRig();
  await expect(write("create", "a", given)).rejects.toMatchObject({ code: "invalid" });
  expect(rig.engine.version()).toBe("0");
});

test("a reference to what is not there yet is accepted with a warning, and comes to life later", async () => {
  rig = await createRig();
  const { warnings } = await write("create", "b", body("b", { size: 1, on: "a" }));
  expect(warnings).toEqual([expect.stringContaining('"a" does not exist')]);
  await rig.clock.advance(100);
  await write("create", "a", body("a"));
  await rig.clock.advance(100);
  expect(rig.engine.get(ref("b")).status?.conditions[0]).toMatchObject({ type: "Ready", status: "True" });
});

test("an unknown kind is not found, with the known ones", async () => {
  rig = await createRig();
  const request = {
    op: "create",
    ref: { kind: "Bax", namespace: "", name: "x" },
    body: {},
    manager: "m",
    force: false,
    dryRun: false,
  } as const;
  await expect(rig.engine.write(request)).rejects.toMatchObject({ code: "not_found", hint: 'did you mean "Box"?' });
  expect(() => rig.engine.list("Bax", {})).toThrow(/no kind/);
  expect(() => rig.engine.get({ kind: "Bax", namespace: "", name: "x" })).toThrow(/no kind/);
});

test("an object on its way out takes labels but no new spec", async () => {
  rig = await createRig();
  await write("create", "a", body("a"));
  await rig.clock.advance(100);
  rig.toy.down = true;
  await rig.engine.delete(ref("a"), { dryRun: false, force: false });
  await expect(write("merge", "a", { spec: { size: 2 } })).rejects.toMatchObject({ code: "conflict" });
  expect((await write("merge", "a", { metadata: { labels: { x: "1" } } })).object.metadata.labels).toEqual({ x: "1" });
});

test("lists are selected by labels, fields and namespace", async () => {
  rig = await createRig();
  await applied(rig, [
    file("a.yaml", box("a", { size: 1 }, { labels: { t: "x" } }), box("b"), box("c", { size: 1 }, { namespace: "team" })),
  ]);
  const names = (options: object) => rig.engine.list("Box", options).items.map((o) => o.metadata.name);
  expect([names({}), names({ labelSelector: "t=x" }), names({ fieldSelector: "metadata.name=b" }), names({ namespace: "team" })]).toEqual([
    ["a", "b", "c"],
    ["a"],
    ["b"],
    ["c"],
  ]);
  expect(rig.engine.list("Box", {}).resourceVersion).toBe(rig.engine.version());
});
