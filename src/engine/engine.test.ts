import { afterEach, expect, test } from "vitest";
import { BeigeError } from "../core/errors.ts";
import { condition, type ConditionType } from "../core/resource.ts";
import { LABEL } from "../core/sandbox.ts";
import { ACT_GRACE_MS, ACT_MS } from "./act.ts";
import { OBSERVE_MS, ROUNDS } from "./controller.ts";
import { turns } from "./fixture.ts";
import { STOP_MS } from "./loop.ts";
import { applied, box, createRig, file, ref, settle, type Rig } from "./rig.ts";

let rig: Rig;
afterEach(async () => rig.close());

const cond = (name: string, type: ConditionType = "Ready") => condition(rig.engine.get(ref(name)), type);
const thing = (name: string) => [...rig.toy.things.values()].find((t) => t.ref.name === name);
const reasons = (name: string) => rig.engine.events({ ref: ref(name) }).map((e) => `${e.reason} x${e.count}`);

test("an empty store is settled at once", async () => {
  rig = await createRig();
  expect(rig.engine.settled()).toBe(true);
});

test("it is not settled before every object has been looked at", async () => {
  rig = await createRig();
  await applied(rig, [file("a.yaml", box("a"), box("b"))]);
  rig = await rig.restart({ start: false });
  expect(rig.engine.settled()).toBe(false);
  const started = rig.engine.start();
  expect(rig.engine.settled()).toBe(false);
  await settle(rig, started);
  expect(rig.engine.settled()).toBe(true);
});

test("after a restart a converged world is adopted without an action", async () => {
  rig = await createRig();
  await applied(rig, [file("a.yaml", box("a"), box("b", { size: 2, on: "a" }))]);
  const before = { effects: rig.toy.effects, rows: rig.toy.rows.length, version: rig.engine.version() };
  rig = await rig.restart();
  await rig.clock.advance(70_000);
  expect({ effects: rig.toy.effects, rows: rig.toy.rows.length, version: rig.engine.version() }).toEqual(before);
  expect(cond("b")?.status).toBe("True");
});

test("what is removed by hand is back at the next hint, with one event that says so", async () => {
  rig = await createRig();
  await applied(rig, [file("a.yaml", box("a"))]);
  const { uid } = rig.engine.get(ref("a")).metadata;
  rig.toy.things.clear();
  rig.toy.hints?.hint({ id: "1", action: "die", labels: { [LABEL.store]: rig.store.id, [LABEL.uid]: uid, [LABEL.kind]: "Box" } });
  await rig.clock.advance(10);
  expect(thing("a")).toMatchObject({ started: true });
  const events = rig.engine.events({ ref: ref("a") });
  expect(events.filter((e) => e.message === "create box a (missing)")).toHaveLength(1);
});

test("what no hint told is found by the resync", async () => {
  rig = await createRig();
  await applied(rig, [file("a.yaml", box("a", { size: 3 }))]);
  const mine = thing("a");
  if (mine !== undefined) mine.size = 9;
  await rig.clock.advance(61_000);
  expect(thing("a")?.size).toBe(3);
  expect(cond("a", "Drifted")).toMatchObject({ status: "False" });
  expect(reasons("a")).toContain("Repaired x1");
});

test("drift is told by field before it is mended", async () => {
  rig = await createRig();
  await applied(rig, [file("a.yaml", box("a", { size: 3 }))]);
  const resourceVersion = rig.engine.version();
  const mine = thing("a");
  if (mine !== undefined) mine.size = 9;
  const { plan } = await rig.engine.describe(ref("a"));
  expect(plan).toMatchObject({ verb: "update", why: ["drift"], drift: [{ path: "size", before: 9, after: 3 }], fields: [] });
  await rig.clock.advance(61_000);
  const told: (string | undefined)[] = [];
  for await (const events of rig.engine.watch("Box", { resourceVersion }, AbortSignal.timeout(50)))
    for (const event of events) if ("object" in event) told.push(condition(event.object, "Drifted")?.status);
  expect(told).toEqual(["True", "False"]);
  expect(
    rig.engine
      .events({ ref: ref("a") })
      .filter((e) => e.reason === "Repaired")
      .map((e) => [e.message, e.count]),
  ).toEqual([
    ["create box a (missing)", 1],
    ["start box a (missing)", 1],
    ["resize box a (drift)", 1],
  ]);
});

test("a hint of another store's container is not ours to look at", async () => {
  rig = await createRig();
  await applied(rig, [file("a.yaml", box("a"))]);
  const { uid } = rig.engine.get(ref("a")).metadata;
  const looks = rig.toy.looks;
  rig.toy.hints?.hint({ id: "1", action: "die", labels: { [LABEL.store]: "another", [LABEL.uid]: uid } });
  rig.toy.hints?.hint({ id: "1", action: "die", labels: {} });
  await turns(20);
  expect(rig.toy.looks).toBe(looks);
});

test("a slow look that is ready later makes the object ready within one interval", async () => {
  rig = await createRig();
  rig.toy.down = true;
  await applied(rig, [file("a.yaml", box("a"))], { wait: false });
  await rig.clock.advance(5_000);
  expect(cond("a")?.status).toBe("Unknown");
  rig.toy.down = false;
  await rig.clock.advance(31_000);
  expect(cond("a")).toMatchObject({ status: "True", reason: "Ready", message: "" });
});

test("an engine that dies makes Ready Unknown and keeps serving reads; back again it recovers by itself", async () => {
  rig = await createRig();
  await applied(rig, [file("a.yaml", box("a"))]);
  rig.toy.down = true;
  rig.toy.hints?.down(new Error("gone"));
  await rig.clock.advance(1_000);
  expect(cond("a")).toMatchObject({ status: "Unknown", reason: "EngineUnreachable", message: "the engine does not answer" });
  expect(rig.engine.list("Box", {}).items).toHaveLength(1);
  expect(rig.engine.get(ref("a")).status?.observed).toEqual({ size: 1 });
  rig.toy.down = false;
  rig.toy.hints?.relist();
  await rig.clock.advance(100);
  expect(cond("a")?.status).toBe("True");
});

test("status writes bump the resourceVersion and never the generation", async () => {
  rig = await createRig();
  await applied(rig, [file("a.yaml", box("a"))]);
  const before = rig.engine.get(ref("a")).metadata;
  rig.toy.down = true;
  rig.toy.hints?.down(new Error("gone"));
  await rig.clock.advance(1_000);
  const after = rig.engine.get(ref("a")).metadata;
  expect(Number(after.resourceVersion)).toBeGreaterThan(Number(before.resourceVersion));
  expect(after.generation).toBe(before.generation);
});

test("lastTransitionTime moves with the status of a condition only", async () => {
  rig = await createRig();
  await applied(rig, [file("a.yaml", box("a"))]);
  const at = cond("a")?.lastTransitionTime;
  await rig.clock.advance(5_000);
  await applied(rig, [file("a.yaml", box("a", { size: 2 }))]);
  expect(cond("a")).toMatchObject({ lastTransitionTime: at, observedGeneration: 2 });
});

test.each(["invalid", "denied", "conflict", "not_found"] as const)(
  "an act that throws %s settles: not ready, with its message, and no retry before the resync",
  async (code) => {
    rig = await createRig();
    rig.toy.fault = { n: 1, when: "before", error: new BeigeError(code, "no such luck") };
    await applied(rig, [file("a.yaml", box("a"))], { wait: false });
    await rig.clock.advance(30_000);
    expect(cond("a")).toMatchObject({ status: "False", reason: "Refused", message: "no such luck" });
    expect(rig.toy.effects).toBe(0);
    await rig.clock.advance(40_000);
    expect(cond("a")?.status).toBe("True");
  },
);

test.each(["unavailable", "timeout", "internal", "exhausted"] as const)("an act that throws %s is tried again", async (code) => {
  rig = await createRig();
  rig.toy.fault = { n: 1, when: "before", error: new BeigeError(code, "later") };
  await applied(rig, [file("a.yaml", box("a"))], { wait: false });
  await rig.clock.advance(6_000);
  expect(cond("a")?.status).toBe("True");
});

test("every effect has an audit row before it, and an outcome after it", async () => {
  rig = await createRig();
  rig.toy.fault = { n: 2, when: "after" };
  await applied(rig, [file("a.yaml", box("a"))]);
  const calls = Map.groupBy(
    rig.toy.rows.filter((r) => r.phase !== "note"),
    (r) => r.call,
  );
  expect([...calls.values()].map((rows) => rows.map((r) => r.phase))).toEqual([...calls.values()].map(() => ["begin", "end"]));
  expect(rig.toy.rows.filter((r) => r.phase === "begin").map((r) => r.row.args)).toEqual([["create box a"], ["start box a"]]);
});

test("without its audit row nothing is done", async () => {
  rig = await createRig();
  rig.toy.audit = "full";
  await applied(rig, [file("a.yaml", box("a"))], { wait: false });
  await rig.clock.advance(5_000);
  expect(rig.toy.effects).toBe(0);
  rig.toy.audit = "well";
  await rig.clock.advance(31_000);
  expect(cond("a")?.status).toBe("True");
});

test("a deleted object takes down what it has, then goes", async () => {
  rig = await createRig();
  await applied(rig, [file("a.yaml", box("a"), box("b"))]);
  rig.toy.fault = { n: 1, when: "before" };
  const marked = await rig.engine.delete(ref("a"), { dryRun: false, force: false });
  expect(marked.metadata.deletionTimestamp).toBeDefined();
  await rig.clock.advance(1_000);
  expect(() => rig.engine.get(ref("a"))).toThrow(/does not exist/);
  expect([...rig.toy.things.values()].map((t) => t.ref.name)).toEqual(["b"]);
});

test("a forced deletion forgets the object at once, and what is left is removed as an orphan", async () => {
  rig = await createRig();
  await applied(rig, [file("a.yaml", box("a"))]);
  rig.toy.down = true;
  await rig.engine.delete(ref("a"), { dryRun: false, force: true });
  expect(() => rig.engine.get(ref("a"))).toThrow(/does not exist/);
  expect(rig.toy.things.size).toBe(1);
  rig.toy.down = false;
  await rig.clock.advance(61_000);
  expect(rig.toy.things.size).toBe(0);
  expect(rig.engine.events({ ref: ref("a") }).some((e) => e.type === "Warning" && e.reason === "ForceDeleted")).toBe(true);
});

test("a dry deletion and unmet conditions change nothing", async () => {
  rig = await createRig();
  await applied(rig, [file("a.yaml", box("a"))]);
  const version = rig.engine.version();
  expect((await rig.engine.delete(ref("a"), { dryRun: true, force: false })).metadata.deletionTimestamp).toBeDefined();
  await expect(rig.engine.delete(ref("a"), { dryRun: false, force: false, uid: "x" })).rejects.toMatchObject({ code: "conflict" });
  await expect(rig.engine.delete(ref("a"), { dryRun: false, force: false, resourceVersion: "1" })).rejects.toMatchObject({
    code: "conflict",
  });
  await expect(rig.engine.delete(ref("zz"), { dryRun: false, force: false })).rejects.toMatchObject({ code: "not_found" });
  expect(rig.engine.version()).toBe(version);
});

test("orphans of this store are found at the start and removed", async () => {
  rig = await createRig({ start: false });
  rig.toy.things.set("lost", { size: 1, color: "beige", started: true, ref: ref("lost") });
  await settle(rig, rig.engine.start());
  expect(rig.toy.things.size).toBe(0);
});

test("deleting dev never touches dev2", async () => {
  rig = await createRig();
  await applied(rig, [file("a.yaml", box("dev"), box("dev2"))]);
  await rig.engine.delete(ref("dev"), { dryRun: false, force: false });
  await rig.clock.advance(70_000);
  expect([...rig.toy.things.values()].map((t) => t.ref.name)).toEqual(["dev2"]);
});

test("an object that refers to another is looked at when that one becomes ready", async () => {
  rig = await createRig();
  rig.toy.fault = { n: 1, when: "before", error: new BeigeError("denied", "no") };
  await applied(rig, [file("a.yaml", box("a"), box("b", { size: 1, on: "a" }))], { wait: false });
  await rig.clock.advance(1_000);
  expect(cond("b")).toMatchObject({ status: "False", reason: "Waiting" });
  rig.engine.wake(ref("a"));
  await rig.clock.advance(100);
  expect([cond("a")?.status, cond("b")?.status]).toEqual(["True", "True"]);
});

test("describe tells the object, what would be done, its events and its revisions", async () => {
  rig = await createRig();
  await applied(rig, [file("a.yaml", box("a"))]);
  rig.toy.things.clear();
  const told = await rig.engine.describe(ref("a"));
  expect(told.plan).toMatchObject({ verb: "update", why: ["missing"], actions: ["create box a", "start box a"], fields: [] });
  expect(told.events.map((e) => e.message)).toContain("create box a (missing)");
  expect(told.revisions).toHaveLength(1);
});

test("an effect that hangs is given up at its deadline, and the key is tried again", async () => {
  rig = await createRig();
  rig.toy.fault = { n: 1, when: "hang" };
  const acts = (): readonly string[] => rig.toy.rows.map((r) => r.phase).filter((phase) => phase !== "note");
  await applied(rig, [file("a.yaml", box("a"))], { wait: false });
  await rig.clock.advance(ACT_MS - 1_000);
  expect(acts()).toEqual(["begin"]);
  await rig.clock.advance(ACT_GRACE_MS + 33_000);
  expect(acts().slice(0, 2)).toEqual(["begin", "end"]);
  expect(cond("a")?.status).toBe("True");
});

test("a look that hangs is given up and the status says so", async () => {
  rig = await createRig();
  rig.toy.hanging = true;
  await applied(rig, [file("a.yaml", box("a"))], { wait: false });
  await rig.clock.advance(OBSERVE_MS);
  expect(cond("a")).toMatchObject({ status: "Unknown", reason: "Timeout", message: "looking at box/a took longer than 30 s" });
  rig.toy.hanging = false;
  await rig.clock.advance(OBSERVE_MS + 31_000);
  expect(cond("a")?.status).toBe("True");
});

test("stop ends within its limit, also while an effect hangs", async () => {
  rig = await createRig();
  rig.toy.fault = { n: 1, when: "hang" };
  await applied(rig, [file("a.yaml", box("a"))], { wait: false });
  const stopped = rig.engine.stop();
  await rig.clock.advance(STOP_MS);
  await stopped;
});

test("a plan that never empties backs off instead of burning", async () => {
  rig = await createRig();
  rig.toy.restless = true;
  await applied(rig, [file("a.yaml", box("a"))], { wait: false });
  await rig.clock.advance(60_000);
  expect(rig.toy.effects).toBeLessThan(60 * ROUNDS);
  expect(cond("a", "Progressing")).toMatchObject({ status: "True" });
});
