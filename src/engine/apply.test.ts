import { afterEach, expect, test } from "vitest";
import { BeigeError } from "../core/errors.ts";
import { condition } from "../core/resource.ts";
import { applied, box, createRig, file, ref, settle, type Rig } from "./rig.ts";

let rig: Rig;
afterEach(async () => rig.close());

const summary = (a: { plan: { summary: object } | undefined }) => a.plan?.summary;
const ready = (name: string) => condition(rig.engine.get(ref(name)), "Ready")?.status;

test("an apply creates what is missing, needed objects first, and waits until all is Ready", async () => {
  rig = await createRig();
  const a = await applied(rig, [file("a.yaml", box("second", { size: 2, on: "first" }), box("first"))]);
  expect(a.end).toMatchObject({ exit: 0, applied: 2, unchanged: 0, failed: 0 });
  expect(a.plan?.objects.map((o) => [o.ref.name, o.verb, o.actions])).toEqual([
    ["first", "create", ["create box first", "start box first"]],
    ["second", "create", ["create box second", "start box second"]],
  ]);
  expect([...rig.toy.things.values()].map((t) => [t.ref.name, t.size, t.started])).toEqual([
    ["first", 1, true],
    ["second", 2, true],
  ]);
  expect([ready("first"), ready("second")]).toEqual(["True", "True"]);
  expect(rig.engine.get(ref("first"))).toMatchObject({
    spec: { size: 1, color: "beige", tags: [] },
    metadata: { generation: 1, finalizers: ["beige.dev/box"] },
    status: { observed: { size: 1 }, observedGeneration: 1 },
  });
});

test("a second apply of the same writes nothing, does nothing and says so", async () => {
  rig = await createRig();
  const files = [file("a.yaml", box("a"), box("b", { size: 3, tags: ["x", "y"] }))];
  await applied(rig, files);
  const before = { version: rig.engine.version(), effects: rig.toy.effects, rows: rig.toy.rows.length };
  const again = await applied(rig, files);
  expect(again.end).toMatchObject({ exit: 0, applied: 0, unchanged: 2, message: "applied 0, unchanged 2" });
  expect({ version: rig.engine.version(), effects: rig.toy.effects, rows: rig.toy.rows.length }).toEqual(before);
});

test("the same files are planned anew when somebody changed an object, its labels or its owners meanwhile", async () => {
  rig = await createRig();
  const files = [file("a.yaml", box("a", { size: 1 }))];
  const plan = async (more: object = {}) => (await applied(rig, files, more)).end;
  await plan();
  expect(await plan()).toMatchObject({ exit: 0, unchanged: 1 });
  const merge = { op: "merge", ref: ref("a"), manager: "me", force: true, dryRun: false } as const;
  await rig.engine.write({ ...merge, body: { spec: { size: 5 } } });
  expect(await plan({ dryRun: true })).toMatchObject({ exit: 3, message: expect.stringContaining("spec.size is owned by me") });
  expect(await plan({ forceConflicts: true })).toMatchObject({ exit: 0, applied: 1 });
  expect(rig.engine.get(ref("a")).spec).toMatchObject({ size: 1 });
  expect(await plan()).toMatchObject({ exit: 0, unchanged: 1 });
  // Another set begins to own what it wants as well.
  expect(await plan({ set: "other" })).toMatchObject({ exit: 0 });
  expect(rig.engine.get(ref("a")).metadata.managedFields?.map(({ manager }) => manager)).toContain("apply/other");
});

test.each([
  ["a default written out", { size: 1, color: "beige" }],
  ["an empty list written out", { size: 1, tags: [] }],
  ["both", { size: 1, color: "beige", tags: [] }],
])("%s has no effect on any object", async (_name, spec) => {
  rig = await createRig();
  await applied(rig, [file("a.yaml", box("a"), box("b", { size: 1, on: "a" }))]);
  const effects = rig.toy.effects;
  const generation = rig.engine.get(ref("a")).metadata.generation;
  const again = await applied(rig, [file("a.yaml", box("a", spec), box("b", { size: 1, on: "a" }))]);
  expect(summary(again)).toMatchObject({ unchanged: 2 });
  expect({ effects: rig.toy.effects, generation: rig.engine.get(ref("a")).metadata.generation }).toEqual({ effects, generation });
});

test("tags in another order are the same tags", async () => {
  rig = await createRig();
  await applied(rig, [file("a.yaml", box("a", { size: 1, tags: ["x", "y", "z"] }))]);
  const version = rig.engine.version();
  const again = await applied(rig, [file("a.yaml", box("a", { size: 1, tags: ["z", "x", "y"] }))]);
  expect(again.end).toMatchObject({ applied: 0, unchanged: 1 });
  expect(rig.engine.version()).toBe(version);
});

test("a dry run shows the same plan and touches nothing", async () => {
  rig = await createRig();
  const dry = await applied(rig, [file("a.yaml", box("a"))], { dryRun: true });
  expect(dry.plan?.objects).toMatchObject([
    {
      verb: "create",
      actions: ["create box a", "start box a"],
      fields: expect.arrayContaining([{ path: "size", after: 1, impact: "update" }]),
    },
  ]);
  expect(rig.toy.things.size).toBe(0);
  expect(rig.engine.list("Box", {}).items).toEqual([]);
  expect(rig.engine.version()).toBe("0");
});

test("changed fields are updated in place, or replaced where they force it", async () => {
  rig = await createRig();
  await applied(rig, [file("a.yaml", box("a"), box("b"))]);
  const a = await applied(rig, [file("a.yaml", box("a", { size: 2 }), box("b", { size: 1, color: "red" }))]);
  expect(a.plan?.objects.map((o) => [o.verb, o.fields])).toEqual([
    ["update", [{ path: "size", before: 1, after: 2, impact: "update" }]],
    ["replace", [{ path: "color", before: "beige", after: "red", forces: true, impact: "replace" }]],
  ]);
  expect([...rig.toy.things.values()].map((t) => [t.size, t.color])).toEqual(
    expect.arrayContaining([
      [2, "beige"],
      [1, "red"],
    ]),
  );
  const told = await rig.engine.describe(ref("a"));
  expect(told.revisions.map((r) => [r.revision, r.manager, r.fields])).toEqual([
    [2, "apply/default", ["size"]],
    [1, "apply/default", ["color", "size", "tags"]],
  ]);
});

test("an error in the last file touches nothing, and every problem of every file is told", async () => {
  rig = await createRig();
  const a = await applied(rig, [
    file("a.yaml", box("a"), box("b", { size: "big" })),
    file("b.yaml", box("c", { size: 1, colour: "red" })),
    file("c.yaml", "apiVersion: beige.dev/v1\nkind: Bax\nmetadata: {name: x}\nspec: {}"),
  ]);
  expect(a.end.exit).toBe(2);
  const problems = a.events.flatMap((e) => (e.type === "problems" ? e.problems : []));
  expect(problems.map((p) => p.at?.file)).toEqual(expect.arrayContaining(["a.yaml", "b.yaml", "c.yaml"]));
  expect(problems.every((p) => (p.at?.line ?? 0) > 0)).toBe(true);
  expect(rig.toy.things.size).toBe(0);
  expect(rig.engine.version()).toBe("0");
});

test.each([
  ["an unknown reference", [box("a", { size: 1, on: "nobody" })], /nobody/],
  ["what only the kind sees", [box("a", { size: 101 })], /larger than 100/],
  ["a cycle", [box("a", { size: 1, on: "b" }), box("b", { size: 1, on: "a" })], /need each other/],
  ["no objects at all", ["# nothing"], /no objects/],
])("%s refuses the whole set", async (_name, documents, message) => {
  rig = await createRig();
  const fine = documents[0] === "# nothing" ? [] : [box("fine")];
  const a = await applied(rig, [file("a.yaml", ...fine, ...documents)]);
  expect(a.end.exit).toBe(2);
  expect(JSON.stringify(a.events)).toMatch(message);
  expect(rig.engine.version()).toBe("0");
});

test("an object that two files hold is told with both places", async () => {
  rig = await createRig();
  const a = await applied(rig, [
    file("a.yaml", box("x"), box("a")),
    file("b.yaml", box("a")),
    file("c.yaml", box("a", { size: 1 }, { namespace: "team" })),
  ]);
  expect(a.end.exit).toBe(2);
  const problems = a.events.flatMap((e) => (e.type === "problems" ? e.problems : []));
  expect(problems).toMatchObject([{ message: "Box/a is here twice", at: { file: "b.yaml" }, hint: expect.stringContaining("a.yaml:3") }]);
});

test("a field that another manager owns is a conflict that names both, and force takes it", async () => {
  rig = await createRig();
  await applied(rig, [file("a.yaml", box("a", { size: 1 }))]);
  const refused = await applied(rig, [file("a.yaml", box("a", { size: 2 }))], { set: "other" });
  expect(refused.end).toMatchObject({ exit: 3, message: "box/a spec.size is owned by apply/default" });
  expect(refused.end.hint).toContain("--force-conflicts");
  expect(rig.toy.things.values().next().value?.size).toBe(1);
  const forced = await applied(rig, [file("a.yaml", box("a", { size: 2 }))], { set: "other", forceConflicts: true });
  expect(forced.end.exit).toBe(0);
  expect(forced.plan?.objects[0]?.verb).toBe("handover");
  expect(rig.toy.things.values().next().value?.size).toBe(2);
});

test("what left the set is told and stays, and goes with a prune", async () => {
  rig = await createRig();
  await applied(rig, [file("a.yaml", box("a"), box("b"), box("c"), box("d"))]);
  const rest = [file("a.yaml", box("a"), box("b"), box("c"))];
  const left = await applied(rig, rest);
  expect(left.plan?.left.map((r) => r.name)).toEqual(["d"]);
  expect(rig.toy.things.size).toBe(4);
  const gone = await applied(rig, rest, { prune: true });
  expect(gone.plan?.objects.find((o) => o.verb === "delete")).toMatchObject({ ref: { name: "d" }, actions: ["remove box d"] });
  expect(gone.end).toMatchObject({ exit: 0, applied: 1, unchanged: 3 });
  expect([...rig.toy.things.values()].map((t) => t.ref.name)).toEqual(["a", "b", "c"]);
  expect(() => rig.engine.get(ref("d"))).toThrow(/does not exist/);
});

test.each([
  ["an empty set", []],
  ["more than its share", [box("a")]],
])("a prune of %s is refused and touches nothing", async (_name, rest) => {
  rig = await createRig();
  await applied(rig, [file("a.yaml", box("a"), box("b"), box("c"), box("d"))]);
  const a = await applied(rig, [file("a.yaml", ...rest)], { prune: true });
  expect(a.end.exit).toBe(3);
  expect(a.end.hint).toContain("beige delete");
  expect(rig.toy.things.size).toBe(4);
});

test("a prune of what the rest still refers to is refused", async () => {
  rig = await createRig();
  await applied(rig, [file("a.yaml", box("a"), box("b", { size: 1, on: "a" }), box("c"), box("d"))]);
  const rest = [file("a.yaml", box("b", { size: 1, on: "a" }), box("c"), box("d"))];
  expect((await applied(rig, rest, { prune: true })).end.exit).toBe(2);
  expect((await applied(rig, rest)).end.exit).toBe(0);
  expect(rig.toy.things.size).toBe(4);
});

test.each(["", "../x", "A", "x".repeat(80), "a b"])("%o is no name of a set", async (set) => {
  rig = await createRig();
  expect((await applied(rig, [file("a.yaml", box("a"))], { set })).end.exit).toBe(2);
});

test("an object that changes while it is planned is planned again, and what was changed is not lost", async () => {
  rig = await createRig();
  await applied(rig, [file("a.yaml", box("a"))]);
  const request = {
    files: [file("a.yaml", box("a", { size: 2 }))],
    set: "default",
    dryRun: false,
    forceConflicts: false,
    prune: false,
    wait: false,
    timeoutMs: 1_000,
  };
  const plans: unknown[] = [];
  for await (const event of rig.engine.apply(request, new AbortController().signal)) {
    if (event.type !== "plan") continue;
    plans.push(event.plan.summary);
    if (plans.length === 1) {
      await rig.engine.write({
        op: "merge",
        ref: ref("a"),
        body: { spec: { tags: ["kept"] } },
        manager: "me",
        force: false,
        dryRun: false,
      });
    }
  }
  expect(plans).toHaveLength(2);
  expect(rig.engine.get(ref("a"))).toMatchObject({ spec: { size: 2, tags: ["kept"] }, metadata: { generation: 3 } });
});

test("a set never prunes what another set holds too", async () => {
  rig = await createRig();
  await applied(rig, [file("a.yaml", box("a"), box("b"))]);
  await applied(rig, [file("b.yaml", box("b"))], { set: "other" });
  const a = await applied(rig, [file("a.yaml", box("a"))], { prune: true });
  expect(a.end.exit).toBe(0);
  expect(rig.toy.things.size).toBe(2);
  expect((await applied(rig, [file("a.yaml", box("a"))])).plan?.left).toEqual([]);
});

test("one that fails and one that works end in part, with the reason and the command that shows more", async () => {
  rig = await createRig();
  rig.toy.fault = { n: 1, when: "before", error: new BeigeError("denied", "not here") };
  const a = await applied(rig, [file("a.yaml", box("a"), box("b"))]);
  expect(a.end).toMatchObject({ exit: 7, failed: 1, hint: expect.stringMatching(/^beige describe box\//) });
  expect(a.end.message).toContain("not here");
});

test("whoever waits for one that failed has failed too, without the whole timeout", async () => {
  rig = await createRig();
  rig.toy.fault = { n: 1, when: "before", error: new BeigeError("denied", "not here") };
  const a = await applied(rig, [file("a.yaml", box("a"), box("b", { size: 1, on: "a" }))]);
  expect(a.end).toMatchObject({ exit: 1, failed: 2 });
});

test("the engine being down ends an apply at its deadline with 6, and the objects converge when it is back", async () => {
  rig = await createRig();
  rig.toy.down = true;
  const a = await applied(rig, [file("a.yaml", box("a"))], { timeoutMs: 5_000 });
  expect(a.end).toMatchObject({ exit: 6 });
  expect(condition(rig.engine.get(ref("a")), "Ready")).toMatchObject({ status: "Unknown", reason: "EngineUnreachable" });
  rig.toy.down = false;
  rig.toy.hints?.relist();
  await settle(rig, rig.clock.advance(1_000));
  expect(ready("a")).toBe("True");
});

test("without waiting it ends when the objects are stored", async () => {
  rig = await createRig();
  rig.toy.down = true;
  const a = await applied(rig, [file("a.yaml", box("a"))], { wait: false });
  expect(a.end).toMatchObject({ exit: 0, applied: 1 });
});

test("a client that leaves does not stop the work", async () => {
  rig = await createRig();
  const gone = new AbortController();
  const request = {
    files: [file("a.yaml", box("a"))],
    set: "default",
    dryRun: false,
    forceConflicts: false,
    prune: false,
    wait: true,
    timeoutMs: 60_000,
  };
  for await (const event of rig.engine.apply(request, gone.signal)) {
    if (event.type === "progress") break;
  }
  gone.abort();
  await rig.clock.advance(1_000);
  expect(ready("a")).toBe("True");
});

test("an object on its way out is not applied again", async () => {
  rig = await createRig();
  await applied(rig, [file("a.yaml", box("a"))]);
  rig.toy.down = true;
  await rig.engine.delete(ref("a"), { dryRun: false, force: false });
  const a = await applied(rig, [file("a.yaml", box("a"))]);
  expect(a.end).toMatchObject({ exit: 3, message: "box/a is being deleted" });
});

test("a thousand objects are stored by one apply and do not block the loop", async () => {
  rig = await createRig();
  const documents = Array.from({ length: 1_000 }, (_, i) => box(`b${i}`, { size: 1 + (i % 50) }));
  const a = await applied(
    rig,
    Array.from({ length: 10 }, (_, i) => file(`f${i}.yaml`, ...documents.slice(i * 100, i * 100 + 100))),
    { timeoutMs: 600_000 },
  );
  expect(a.end).toMatchObject({ exit: 0, applied: 1_000 });
  expect(rig.toy.things.size).toBe(1_000);
  const version = rig.engine.version();
  expect((await applied(rig, [file("a.yaml", ...documents)])).end).toMatchObject({ applied: 0, unchanged: 1_000 });
  expect(rig.engine.version()).toBe(version);
});
