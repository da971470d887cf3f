import { afterEach, beforeEach, expect, test } from "vitest";
import type { WriteRequest } from "../core/control.ts";
import { LAST_APPLIED } from "./lastapplied.ts";
import { box, createRig, ref, type Rig } from "./rig.ts";

let rig: Rig;
beforeEach(async () => {
  rig = await createRig();
});
afterEach(async () => rig.close());

const write = (op: WriteRequest["op"], body: unknown, manager: string) =>
  rig.engine.write({ op, ref: ref("a"), body, manager, force: false, dryRun: false });
const whole = (spec: object, metadata: object = {}): object =>
  JSON.parse(box("a", spec as Record<string, unknown>, metadata as Record<string, unknown>)) as object;
const clientSide = (spec: object, note: string = JSON.stringify(whole(spec))) =>
  write("create", whole(spec, { annotations: { [LAST_APPLIED]: note } }), "kubectl-client-side-apply");

test("kubectl takes over what its annotation holds as it is, in one write, and keeps the annotation true", async () => {
  await clientSide({ size: 1, color: "red" });
  const { object } = await write("apply", whole({ size: 2, color: "red" }), "kubectl");
  expect(object.spec).toMatchObject({ size: 2, color: "red" });
  expect(JSON.parse(object.metadata.annotations?.[LAST_APPLIED] ?? "")).toMatchObject({ spec: { size: 2, color: "red" } });
  await rig.clock.advance(100);
  const version = rig.engine.version();
  await write("apply", whole({ size: 2, color: "red" }), "kubectl");
  expect(rig.engine.version()).toBe(version);
});

test.each([
  "",
  "{",
  "[]",
  "7",
  "null",
  '{"spec":7}',
  '{"metadata":{"labels":[]},"spec":{"size":[1]}}',
  `{"spec":{"size":${"[".repeat(5_000)}`,
])("annotation %#, which holds nothing that was applied, gives nothing away", async (note) => {
  await clientSide({ size: 1 }, note);
  await expect(write("apply", whole({ size: 2 }), "kubectl")).rejects.toMatchObject({ code: "conflict" });
});

test("neither another manager's change nor another manager's name passes", async () => {
  await clientSide({ size: 1, color: "red" });
  await expect(write("apply", whole({ size: 2 }), "other")).rejects.toMatchObject({ code: "conflict" });
  await write("merge", { spec: { size: 5 } }, "somebody");
  await expect(write("apply", whole({ size: 2, color: "blue" }), "kubectl")).rejects.toMatchObject({
    message: expect.stringContaining("spec.size is owned by somebody"),
  });
  expect((await write("apply", whole({ size: 5, color: "blue" }), "kubectl")).object.spec).toMatchObject({ size: 5, color: "blue" });
});

test("what a Source decides stays with the Source", async () => {
  await write("apply", whole({ size: 1 }), "source/stacks");
  await write("merge", { metadata: { annotations: { [LAST_APPLIED]: JSON.stringify(whole({ size: 1 })) } } }, "somebody");
  await expect(write("apply", whole({ size: 2 }), "kubectl")).rejects.toMatchObject({
    code: "conflict",
    message: expect.stringContaining("source/stacks"),
  });
});
