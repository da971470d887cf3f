// A container is replaced without losing work: new first, then drain, switch, remove; and back when the new one fails.
import { afterEach, expect, test } from "vitest";
import { BeigeError } from "../../src/core/errors.ts";
import { turns } from "../../src/engine/fixture.ts";
import {
  agent,
  apply,
  close,
  converge,
  crash,
  createSim,
  dieAtRow,
  problemsAtRest,
  provider,
  ref,
  reopen,
  restart,
  serving,
  state,
  uidOf,
  type Sim,
} from "./rig.ts";

let sim: Sim;
afterEach(async () => close(sim));

const before = [provider(), agent()];
const after = (spec: object = {}) => [provider(), agent("travel", { sandbox: { image: "beige-base:2" }, ...spec })];

test("the new container is heard before the old one goes, and takes its name", async () => {
  sim = await createSim();
  await apply(sim, before);
  const old = serving(sim)?.id;
  const asked = sim.faults.asked.length;
  const invariant = sim.faults.onEffect;
  sim.faults.onEffect = (name) => {
    invariant(name);
    if (serving(sim)?.state !== "running") sim.broken.push(`${name}: nothing serves`);
  };
  const { end, plans } = await apply(sim, after());
  expect(end.exit).toBe(0);
  expect(plans.find((plan) => plan.ref.name === "travel")).toMatchObject({
    verb: "replace",
    forces: "sandbox.image",
    actions: ["create container beige-travel-next from beige-base:2", "start container beige-travel-next"],
  });
  expect(sim.faults.asked.slice(asked)).toEqual([
    "create beige-travel-next",
    "start beige-travel-next",
    "remove beige-travel",
    "rename beige-travel",
  ]);
  expect(serving(sim)).toMatchObject({ imageId: "sha256:base2" });
  expect(serving(sim)?.id).not.toBe(old);
  expect(problemsAtRest(sim)).toEqual([]);
});

test("running calls may finish: the old container serves until the last one ends", async () => {
  sim = await createSim();
  await apply(sim, before);
  const old = serving(sim)?.id;
  sim.running.set(uidOf(sim), 1);
  await apply(sim, after(), { wait: false });
  await sim.clock.advance(20_000);
  expect(serving(sim)).toMatchObject({ id: old, state: "running" });
  expect(state(sim, "Ready")).toMatchObject({ status: "False", reason: "Draining" });
  expect([...sim.held]).toEqual([uidOf(sim)]);
  sim.running.delete(uidOf(sim));
  sim.engine.nudgeUid(uidOf(sim));
  await turns(50);
  expect(serving(sim)?.id).not.toBe(old);
  expect([sim.ended, problemsAtRest(sim)]).toEqual([[], []]);
});

test("a call that does not end is cut after the drain timeout, with the reason", async () => {
  sim = await createSim();
  await apply(sim, before);
  sim.running.set(uidOf(sim), 1);
  await apply(sim, after({ update: { drainTimeoutSeconds: 10 } }), { wait: false });
  await sim.clock.advance(7000);
  expect(sim.ended).toEqual([]);
  await sim.clock.advance(6000);
  expect(sim.ended).toEqual([`calls of ${uidOf(sim)}: sandbox replaced, retry`]);
  expect(problemsAtRest(sim)).toEqual([]);
});

test("new calls are let on when a drain is taken back, and when the agent is suspended or deleted in it", async () => {
  sim = await createSim();
  await apply(sim, before);
  const uid = uidOf(sim);
  const drain = async (): Promise<void> => {
    sim.running.set(uid, 1);
    await apply(sim, after(), { wait: false });
    await sim.clock.advance(5000);
    expect([...sim.held]).toEqual([uid]);
  };
  await drain();
  await apply(sim, before);
  expect([problemsAtRest(sim), sim.ended, sim.running.get(uid)]).toEqual([[], [], 1]);
  await drain();
  await apply(sim, after({ suspend: true }));
  expect(sim.held.size).toBe(0);
  await apply(sim, before);
  await drain();
  await sim.engine.delete(ref("Agent", "travel"), { dryRun: false, force: false });
  await converge(sim, 20_000);
  expect([sim.held.size, sim.docker.boxes.size, sim.broken]).toEqual([0, 0, []]);
});

test("a gateway that dies while new calls wait holds none after its restart, and ends the replacement", async () => {
  sim = await createSim();
  await apply(sim, before);
  sim.running.set(uidOf(sim), 1);
  await apply(sim, after(), { wait: false });
  await sim.clock.advance(5000);
  expect(sim.held.size).toBe(1);
  sim = await restart(sim);
  await converge(sim, 20_000);
  expect([problemsAtRest(sim), serving(sim)?.imageId]).toEqual([[], "sha256:base2"]);
});

test("strategy immediate waits for no call", async () => {
  sim = await createSim();
  await apply(sim, before);
  sim.running.set(uidOf(sim), 3);
  const started = sim.clock.now();
  await apply(sim, after({ update: { strategy: "immediate" } }));
  expect(sim.clock.now() - started).toBeLessThan(10_000);
  expect(sim.ended).toEqual([`calls of ${uidOf(sim)}: sandbox replaced, retry`]);
  expect(problemsAtRest(sim)).toEqual([]);
});

test("strategy onIdle lets the old container serve while anything runs, and is Ready meanwhile", async () => {
  sim = await createSim();
  await apply(sim, before);
  const old = serving(sim)?.id;
  sim.running.set(uidOf(sim), 1);
  const wanted = after({ update: { strategy: "onIdle" } });
  const { end, plans } = await apply(sim, wanted);
  expect(end.exit).toBe(0);
  expect(plans.find((plan) => plan.ref.name === "travel")).toMatchObject({
    verb: "replace-later",
    held: { until: "held back until it is idle" },
  });
  await sim.clock.advance(300_000);
  expect(sim.docker.of(uidOf(sim)).map((box) => box.id)).toEqual([old]);
  expect(state(sim, "Ready")).toMatchObject({ status: "True" });
  expect(state(sim, "Degraded")).toMatchObject({ status: "True", reason: "ReplacePending" });
  sim.running.delete(uidOf(sim));
  await sim.clock.advance(5000);
  expect(serving(sim)?.id).not.toBe(old);
  expect([sim.ended, problemsAtRest(sim), state(sim, "Degraded")?.status ?? "False"]).toEqual([[], [], "False"]);
});

test("strategy manual replaces nothing until a restart is asked for, and keeps the old container running", async () => {
  sim = await createSim();
  await apply(sim, before);
  const old = serving(sim)?.id;
  const wanted = after({ update: { strategy: "manual" } });
  const later = { verb: "replace-later", forces: "sandbox.image", held: { until: "held back: beige rollout restart agent/travel" } };
  const first = await apply(sim, wanted);
  expect(first.end).toMatchObject({ exit: 0, applied: 1 });
  expect(first.plans.find((plan) => plan.ref.name === "travel")).toMatchObject({ ...later, actions: [] });
  await sim.clock.advance(600_000);
  expect(serving(sim)).toMatchObject({ id: old, state: "running" });
  // Nothing of the manifest is new, and yet it is not what runs.
  const again = await apply(sim, wanted);
  expect(again.end).toMatchObject({ exit: 0, applied: 0, unchanged: 2 });
  expect(again.plans.find((plan) => plan.ref.name === "travel")).toMatchObject({ ...later, fields: [], why: ["spec"] });
  expect((await sim.engine.describe(ref("Agent", "travel"))).plan).toMatchObject({
    ...later,
    held: { fields: [{ path: "sandbox.image" }] },
  });
  expect(state(sim, "Degraded")?.message).toContain("beige rollout restart agent/travel");
  const annotated = { metadata: { annotations: { "beige.dev/restarted-at": "2026-01-02T00:00:00Z" } } };
  await sim.engine.write({ op: "merge", ref: ref("Agent", "travel"), body: annotated, manager: "test", force: false, dryRun: false });
  await converge(sim, 60_000);
  expect(serving(sim)).toMatchObject({ imageId: "sha256:base2" });
  expect([problemsAtRest(sim), state(sim, "Degraded")?.status ?? "False"]).toEqual([[], "False"]);
});

test.each([
  ["ends at once", (s: Sim) => void (s.docker.crashing = (spec) => spec.image === "beige-base:2"), /ended with exit code 1/],
  ["says nothing", (s: Sim) => void (s.docker.silent = (spec) => spec.image === "beige-base:2"), /said nothing for 60 s/],
  [
    "is refused by the engine",
    (s: Sim) =>
      void (s.docker.refuses = (spec) => (spec.image === "beige-base:2" ? new BeigeError("invalid", "the engine refused it") : undefined)),
    /the engine refused it/,
  ],
])("a new container that %s is given up: the old one serves, and nothing is tried in a hot loop", async (_name, break_, message) => {
  sim = await createSim();
  await apply(sim, before);
  const old = serving(sim)?.id;
  break_(sim);
  await apply(sim, after(), { wait: false });
  await converge(sim, 140_000);
  expect(serving(sim)).toMatchObject({ id: old, state: "running" });
  expect(sim.docker.of(uidOf(sim)).map((box) => box.spec.name)).toEqual(["beige-travel"]);
  expect(state(sim, "Ready")).toMatchObject({
    status: "False",
    reason: "ReplaceFailed",
    message: expect.stringMatching(message) as string,
  });
  expect(state(sim, "Degraded")).toMatchObject({ status: "True", reason: "ReplaceFailed" });
  const asked = sim.faults.asked.length;
  await converge(sim, 120_000);
  expect(sim.faults.asked.length).toBe(asked);
  sim.docker.crashing = () => false;
  sim.docker.silent = () => false;
  sim.docker.refuses = () => undefined;
  await converge(sim);
  expect(serving(sim)).toMatchObject({ imageId: "sha256:base2" });
  expect(problemsAtRest(sim)).toEqual([]);
  expect(state(sim, "Degraded")?.status).toBe("False");
});

test("a failed replacement is tried again at once when the wish changes, and forgotten when it is taken back", async () => {
  sim = await createSim();
  await apply(sim, before);
  const old = serving(sim)?.id;
  sim.docker.crashing = (spec) => spec.image === "beige-base:2";
  await apply(sim, after(), { wait: false });
  await converge(sim, 40_000);
  await apply(sim, before);
  await converge(sim, 20_000);
  expect(serving(sim)?.id).toBe(old);
  expect(problemsAtRest(sim)).toEqual([]);
});

test("an image that is not there leaves the old container serving and says what to run", async () => {
  sim = await createSim();
  await apply(sim, before);
  const old = serving(sim)?.id;
  const { end } = await apply(sim, [provider(), agent("travel", { sandbox: { image: "debian:nowhere" } })]);
  expect(end.exit).not.toBe(0);
  expect(serving(sim)).toMatchObject({ id: old, state: "running" });
  expect(state(sim, "Ready")).toMatchObject({
    reason: "ImageMissing",
    message: expect.stringContaining("docker pull debian:nowhere") as string,
  });
  sim.docker.images.set("debian:nowhere", "sha256:debian");
  await converge(sim, 60_000);
  expect(serving(sim)).toMatchObject({ imageId: "sha256:debian" });
  expect(problemsAtRest(sim)).toEqual([]);
});

test("a tag that moved is shown as image drift, and the container is replaced", async () => {
  sim = await createSim();
  await apply(sim, before);
  const old = serving(sim)?.id;
  sim.docker.images.set("beige-base:1", "sha256:rebuilt");
  const { plans } = await apply(sim, before, { dryRun: true });
  expect(plans.find((plan) => plan.ref.name === "travel")).toMatchObject({
    verb: "replace",
    why: ["image"],
    drift: [{ path: "sandbox.image", before: "beige-base:1 (base1)", after: "beige-base:1 (rebuilt)" }],
  });
  await converge(sim, 80_000);
  expect(serving(sim)).toMatchObject({ imageId: "sha256:rebuilt" });
  expect(serving(sim)?.id).not.toBe(old);
});

test("an image that was removed after the start leaves a running agent Ready", async () => {
  sim = await createSim();
  await apply(sim, before);
  sim.docker.images.delete("beige-base:1");
  await converge(sim, 80_000);
  expect(problemsAtRest(sim)).toEqual([]);
});

test("a gateway that dies at any moment of a replacement rolls it forward or back", async () => {
  for (let nth = 1; ; nth++) {
    sim = await createSim();
    await apply(sim, before);
    const died = await dieAtRow(sim, nth, () => apply(sim, after(), { wait: false }));
    sim = await reopen(sim);
    await converge(sim, 80_000);
    expect([nth, problemsAtRest(sim), serving(sim)?.imageId]).toEqual([nth, [], "sha256:base2"]);
    if (!died) break;
    expect(nth).toBeLessThan(100);
    await close(sim);
  }
  expect(sim.audit.rows.filter((row) => row.phase === "begin").map((row) => row.row.tool)).toEqual([
    // The first apply, the replacement, and the restart of the gateway.
    ..."kit socket workspace create start serve".split(" "),
    ..."begin create start hold serve remove rename settle".split(" "),
    "socket",
  ]);
});

test("a gateway that dies during a replacement that is taken back afterwards keeps the old container", async () => {
  for (let nth = 1; ; nth++) {
    sim = await createSim();
    await apply(sim, before);
    const died = await dieAtRow(sim, nth, () => apply(sim, after(), { wait: false }));
    const store = sim.docker.boxes.size;
    sim = await reopen(sim);
    await apply(sim, before);
    await converge(sim, 80_000);
    expect([nth, problemsAtRest(sim), serving(sim)?.imageId]).toEqual([nth, [], "sha256:base1"]);
    expect(store).toBeLessThanOrEqual(2);
    if (!died) break;
    await close(sim);
  }
});

test("a container made by an older beige is kept, and only shown as outdated", async () => {
  sim = await createSim();
  await apply(sim, before);
  const old = serving(sim)?.id ?? "";
  sim.docker.byHand(old, (box) => {
    box.spec = {
      ...box.spec,
      labels: { ...box.spec.labels, "beige.dev/gateway-hash": "older" },
      env: { ...box.spec.env, AI_AGENT: "older" },
    };
  });
  await converge(sim, 80_000);
  expect(serving(sim)?.id).toBe(old);
  expect(sim.engine.get({ kind: "Agent", namespace: "default", name: "travel" }).status?.observed).toMatchObject({ outdated: true });
});

test("a container that keeps ending is started again with pauses, and the reason is shown", async () => {
  sim = await createSim();
  sim.docker.crashing = () => true;
  await apply(sim, before, { wait: false });
  const asked = sim.faults.asked.length;
  await sim.clock.advance(60_000);
  const starts = sim.faults.asked.slice(asked).filter((name) => name.startsWith("start")).length;
  expect(starts).toBeGreaterThanOrEqual(4);
  expect(starts).toBeLessThanOrEqual(8);
  expect(state(sim, "Ready")).toMatchObject({
    status: "False",
    reason: "SandboxExited",
    message: expect.stringContaining("exit code 1") as string,
  });
  sim.docker.crashing = () => false;
  await converge(sim, 40_000);
  expect(problemsAtRest(sim)).toEqual([]);
});

test("a serving container that falls silent is restarted after a minute, not at a restart of the gateway", async () => {
  sim = await createSim();
  await apply(sim, before);
  const old = serving(sim)?.id ?? "";
  await converge(sim, 120_000);
  sim.docker.byHand(old, (box) => {
    box.mute = true;
  });
  sim = await restart(sim);
  await sim.clock.advance(30_000);
  expect(sim.faults.asked.filter((name) => name.startsWith("stop"))).toEqual([]);
  await converge(sim, 100_000);
  expect(sim.faults.asked.filter((name) => name.startsWith("stop"))).toEqual(["stop beige-travel"]);
  expect(serving(sim)?.id).toBe(old);
  expect(problemsAtRest(sim)).toEqual([]);
});

test("a container that was silent before the gateway was away, and answers now, is not restarted", async () => {
  sim = await createSim();
  await apply(sim, before);
  const old = serving(sim)?.id ?? "";
  const mute = (value: boolean) =>
    sim.docker.byHand(old, (box) => {
      box.mute = value;
    });
  mute(true);
  await sim.clock.advance(50_000);
  await crash(sim);
  await sim.clock.advance(600_000);
  mute(false);
  sim = await reopen(sim);
  await converge(sim, 20_000);
  expect(sim.faults.asked.filter((name) => name.startsWith("stop"))).toEqual([]);
  expect(problemsAtRest(sim)).toEqual([]);
});
