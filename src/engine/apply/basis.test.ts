import { afterEach, expect, test } from "vitest";
import type { PlanBasis, StackPlan } from "../../core/control.ts";
import { applyJsonPatch } from "../../core/diff.ts";
import { applied, box, createRig, file, ref, settle, type Rig } from "../rig.ts";

let rig: Rig;
afterEach(async () => rig.close());

const STACK = file("a.yaml", box("a"), box("b", { size: 2 }));
const NEXT = file("a.yaml", box("a", { size: 5 }), box("c"));

async function saved(files = [NEXT], more = {}): Promise<StackPlan & { basis: PlanBasis }> {
  const { plan } = await applied(rig, files, { dryRun: true, detail: true, prune: true, maxDeletes: "100%", ...more });
  if (plan?.basis === undefined) throw new Error("a plan without a basis");
  return { ...plan, basis: plan.basis };
}
const carryOut = async (expected: PlanBasis, files = [NEXT]) => applied(rig, files, { prune: true, maxDeletes: "100%", expect: expected });
const names = () => rig.engine.list("Box", {}).items.map((o) => [o.metadata.name, (o.spec as { size: number }).size]);

async function started(): Promise<void> {
  rig = await createRig();
  await applied(rig, [STACK]);
}

test("a recorded plan is carried out as it was", async () => {
  await started();
  const plan = await saved();
  expect(plan.objects.map((o) => [o.ref.name, o.verb])).toEqual([
    ["a", "update"],
    ["c", "create"],
    ["b", "delete"],
  ]);
  const done = await carryOut(plan.basis);
  expect(done.end).toMatchObject({ exit: 0, applied: 3 });
  expect(names()).toEqual([
    ["a", 5],
    ["c", 1],
  ]);
});

const update = (name: string, spec: object) =>
  rig.engine.write({ op: "merge", ref: ref(name), body: { spec }, manager: "hand", force: false, dryRun: false });

test.each<[string, () => Promise<unknown>, RegExp]>([
  ["an object that was changed", () => update("a", { tags: ["x"] }), /box\/a was changed meanwhile/],
  [
    "a label that was set",
    () =>
      rig.engine.write({
        op: "merge",
        ref: ref("a"),
        body: { metadata: { labels: { x: "y" } } },
        manager: "hand",
        force: false,
        dryRun: false,
      }),
    /box\/a was changed/,
  ],
  ["an object that is about to go and was changed", () => update("b", { size: 9 }), /box\/b was changed meanwhile/],
  ["an object that came meanwhile", () => applied(rig, [file("x.yaml", box("c"))], { set: "other" }), /box\/c was changed meanwhile/],
  [
    "an object that went meanwhile",
    async () => settle(rig, rig.engine.delete(ref("b"), { dryRun: false, force: true })),
    /box\/b is no part/,
  ],
  ["what runs being another", async () => rig.toy.things.clear(), /what runs of box\/a has changed/],
])("a plan is stale after %s: nothing of it is done", async (_name, meanwhile, why) => {
  await started();
  const plan = await saved();
  await meanwhile();
  const before = names();
  const done = await carryOut(plan.basis);
  expect(done.end).toMatchObject({ exit: 3, message: expect.stringMatching(/^the plan is stale: /) });
  expect(done.end.message).toMatch(why);
  expect(names()).toEqual(before);
});

test("a plan is stale when the manifests say something else", async () => {
  await started();
  const plan = await saved();
  const done = await carryOut(plan.basis, [file("a.yaml", box("a", { size: 6 }), box("c"))]);
  expect(done.end).toMatchObject({ exit: 3, message: "the plan is stale: the manifests want something else of box/a now" });
  expect((await carryOut(plan.basis, [file("a.yaml", box("a", { size: 5 }), box("c"), box("d"))])).end.message).toMatch(
    /box\/d is not in it/,
  );
});

test("a plan of another gateway is refused", async () => {
  await started();
  const plan = await saved();
  const done = await carryOut({ ...plan.basis, store: "11111111-2222-3333-4444-555555555555" });
  expect(done.end).toMatchObject({ exit: 3, message: "the plan is stale: it was made for another gateway" });
});

test("a status that moves, and a second recording, leave a plan fresh", async () => {
  await started();
  const plan = await saved();
  await rig.clock.advance(120_000);
  expect((await saved()).basis.objects).toEqual(plan.basis.objects);
  expect((await carryOut(plan.basis)).end.exit).toBe(0);
});

test("patches lead from the stored object to the wanted one", async () => {
  await started();
  const plan = await saved([file("a.yaml", box("a", { size: 5, tags: ["x"] }, { labels: { team: "ops" } }))]);
  const [a, b] = plan.objects;
  const stored = { metadata: {}, spec: rig.engine.get(ref("a")).spec };
  expect(applyJsonPatch(stored, a?.patch)).toEqual({
    metadata: { labels: { team: "ops" } },
    spec: { size: 5, color: "beige", tags: ["x"] },
  });
  expect(b?.patch).toEqual([{ op: "remove", path: "" }]);
});

test.each<[string, object, number, string[]]>([
  ["one of three is the limit by default", {}, 3, ["a", "b", "c"]],
  ["a number allows more", { maxDeletes: 2 }, 0, ["a"]],
  ["a number allows no more than it says", { maxDeletes: 1 }, 3, ["a", "b", "c"]],
  ["percent allow more", { maxDeletes: "70%" }, 0, ["a"]],
  ["none at all may be said", { maxDeletes: 0 }, 3, ["a", "b", "c"]],
  ["percent are percent", { maxDeletes: "lots" }, 2, ["a", "b", "c"]],
])("pruning two of three: %s", async (_name, more, exit, left) => {
  rig = await createRig();
  await applied(rig, [file("a.yaml", box("a"), box("b"), box("c"))]);
  const done = await applied(rig, [file("a.yaml", box("a"))], { prune: true, ...more });
  expect([done.end.exit, names().map(([name]) => name)]).toEqual([exit, left]);
  if (exit === 3) expect(done.end.hint).toMatch(/--max-deletes 2, or delete them by name: beige delete box\/b box\/c/);
});

test("a set goes as a whole only where that is allowed", async () => {
  await started();
  const refused = await applied(rig, [], { prune: true, maxDeletes: "100%" });
  expect(refused.end).toMatchObject({ exit: 3, hint: expect.stringContaining("--allow-empty") });
  expect(names()).toHaveLength(2);
  const done = await applied(rig, [], { prune: true, allowEmpty: true });
  expect([done.end.exit, names()]).toEqual([0, []]);
});
