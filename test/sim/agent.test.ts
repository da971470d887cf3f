// An agent's sandbox from apply to delete, on the fake world with the real engine.
import { afterEach, expect, test } from "vitest";
import {
  agent,
  apply,
  close,
  converge,
  createSim,
  diff,
  object,
  plugin,
  problemsAtRest,
  provider,
  restart,
  serving,
  state,
  uidOf,
  type Sim,
} from "./rig.ts";

let sim: Sim;
afterEach(async () => close(sim));

const STACK = [provider(), plugin(), agent("travel", { tools: ["memory"] })];
const travel = (plans: Awaited<ReturnType<typeof diff>>) => plans.find((plan) => plan.ref.name === "travel");

test("an apply makes workspace, launchers, socket and container, and is Ready at the hello", async () => {
  sim = await createSim();
  const { end, plans } = await apply(sim, STACK);
  expect(end).toMatchObject({ exit: 0, applied: 3, failed: 0 });
  expect(travel(plans)?.actions).toEqual([
    "write launchers: memory",
    `make workspace ${sim.home}/agents/default.travel/workspace`,
    "create container beige-travel from beige-base:1",
    "start container beige-travel",
  ]);
  expect(problemsAtRest(sim)).toEqual([]);
  expect(serving(sim)).toMatchObject({
    state: "running",
    imageId: "sha256:base1",
    spec: {
      user: { uid: 20_000, gid: 20_000 },
      env: {
        PATH: expect.stringMatching(/^\/tools\/bin:/) as string,
        HOME: "/workspace",
        BEIGE_AGENT: "travel",
        AI_AGENT: "beige",
        LANG: "C.UTF-8",
      },
      network: "none",
      memoryBytes: 3 * 1024 ** 3,
    },
  });
  expect(serving(sim)?.spec.mounts.map((mount) => [mount.target, mount.readOnly])).toEqual([
    ["/beige", true],
    ["/tools/bin", true],
    ["/tools/packages", true],
    ["/workspace", false],
  ]);
  expect([...sim.kits.kits.values()][0]).toMatchObject({ tools: ["memory"], packages: [{ name: "memory" }] });
});

test.each([2, 20, 50, 100])("a sandbox that takes %i s to say hello is Starting, and Ready within a second of it (P43)", async (slowS) => {
  sim = await createSim();
  sim.docker.silent = () => true;
  await apply(sim, STACK, { wait: false });
  await sim.clock.advance(slowS * 1000);
  expect(state(sim, "Ready")).toMatchObject({ status: "False", reason: "Starting" });
  sim.docker.silent = () => false;
  for (const box of sim.docker.boxes.values()) box.mute = false;
  await sim.clock.advance(1000);
  expect(problemsAtRest(sim)).toEqual([]);
  expect(state(sim, "Ready")).toMatchObject({ status: "True", reason: "Ready" });
});

test("a second pass over an unchanged agent plans nothing and touches nothing", async () => {
  sim = await createSim();
  await apply(sim, STACK);
  await converge(sim);
  const before = { asked: sim.faults.asked.length, rows: sim.audit.rows.length, version: sim.engine.version() };
  const again = await apply(sim, STACK);
  expect(again.end).toMatchObject({ exit: 0, applied: 0, unchanged: 3 });
  expect(again.plans.map((plan) => [plan.verb, plan.actions, plan.drift])).toEqual([
    ["unchanged", [], []],
    ["unchanged", [], []],
    ["unchanged", [], []],
  ]);
  await converge(sim);
  expect({ asked: sim.faults.asked.length, rows: sim.audit.rows.length, version: sim.engine.version() }).toEqual(before);
});

test("the diff of a removed container says missing, and it comes back", async () => {
  sim = await createSim();
  await apply(sim, STACK);
  const old = serving(sim)?.id ?? "";
  await sim.engine.stop();
  sim.docker.removeByHand(old);
  expect(travel(await diff(sim, STACK))).toMatchObject({
    verb: "update",
    why: ["missing"],
    fields: [],
    drift: [{ path: "container", before: "missing", after: "beige-travel" }],
    actions: ["create container beige-travel from beige-base:1", "start container beige-travel"],
  });
  sim = await restart(sim);
  await converge(sim, 20_000);
  expect(problemsAtRest(sim)).toEqual([]);
  expect(serving(sim)?.id).not.toBe(old);
});

test("the diff of a stopped container says so by its state, and it is started again", async () => {
  sim = await createSim();
  await apply(sim, STACK);
  const old = serving(sim)?.id ?? "";
  await converge(sim, 60_000);
  await sim.engine.stop();
  sim.docker.killByHand(old);
  expect(travel(await diff(sim, STACK))).toMatchObject({
    verb: "update",
    why: ["drift"],
    drift: [{ path: "container.state", before: "exited", after: "running" }],
    actions: [`start container beige-travel (${old.slice(0, 12)})`],
  });
  sim = await restart(sim);
  await converge(sim, 20_000);
  expect(problemsAtRest(sim)).toEqual([]);
  expect(serving(sim)?.id).toBe(old);
});

test("the diff of an altered container names each field; limits are changed in place", async () => {
  sim = await createSim();
  await apply(sim, STACK);
  const old = serving(sim)?.id ?? "";
  await sim.engine.stop();
  sim.docker.byHand(old, (box) => {
    box.spec = { ...box.spec, memoryBytes: 1024 ** 3, pids: 99 };
  });
  expect(travel(await diff(sim, STACK))).toMatchObject({
    verb: "update",
    why: ["drift"],
    drift: [
      { path: "sandbox.resources.memory", before: "1Gi", after: "3Gi" },
      { path: "sandbox.resources.pids", before: 99, after: 512 },
    ],
  });
  sim = await restart(sim);
  await converge(sim, 20_000);
  expect(problemsAtRest(sim)).toEqual([]);
  expect(serving(sim)).toMatchObject({ id: old, spec: { memoryBytes: 3 * 1024 ** 3, pids: 512 } });
});

test("a network connected by hand is drift that forces a replacement", async () => {
  sim = await createSim();
  await apply(sim, STACK);
  const old = serving(sim)?.id ?? "";
  await sim.engine.stop();
  sim.docker.byHand(old, (box) => {
    box.spec = { ...box.spec, network: "open" };
  });
  expect(travel(await diff(sim, STACK))).toMatchObject({
    verb: "replace",
    why: ["drift"],
    forces: "sandbox.network.mode",
    drift: [{ path: "sandbox.network.mode", before: "open", after: "none", forces: true, impact: "replace" }],
  });
  sim = await restart(sim);
  await converge(sim, 20_000);
  expect(problemsAtRest(sim)).toEqual([]);
  expect(serving(sim)?.id).not.toBe(old);
});

test("privilege given by hand is drift that forces a replacement", async () => {
  sim = await createSim();
  await apply(sim, STACK);
  const old = serving(sim)?.id ?? "";
  sim.docker.byHand(old, (box) => {
    box.spec = { ...box.spec, hardening: ["Privileged=true"] };
  });
  await converge(sim, 20_000);
  expect(problemsAtRest(sim)).toEqual([]);
  expect(serving(sim)?.id).not.toBe(old);
});

test("a paused container is unpaused", async () => {
  sim = await createSim();
  await apply(sim, STACK);
  const old = serving(sim)?.id ?? "";
  sim.docker.byHand(
    old,
    (box) => {
      box.state = "paused";
    },
    "pause",
  );
  await converge(sim, 20_000);
  expect(serving(sim)).toMatchObject({ id: old, state: "running" });
  expect(problemsAtRest(sim)).toEqual([]);
});

test("running containers are adopted after a restart of the gateway: same id, no write to the engine", async () => {
  sim = await createSim();
  await apply(sim, STACK);
  await converge(sim, 60_000);
  const old = serving(sim)?.id;
  const asked = sim.faults.asked.length;
  sim = await restart(sim);
  await converge(sim, 60_000);
  expect(serving(sim)?.id).toBe(old);
  expect(problemsAtRest(sim)).toEqual([]);
  expect(sim.faults.asked.slice(asked).toSorted()).toEqual(["load memory", "socket travel"]);
});

test("a newer limit is changed in place, a newer environment needs another container", async () => {
  sim = await createSim();
  await apply(sim, STACK);
  const old = serving(sim)?.id;
  const bigger = [provider(), plugin(), agent("travel", { tools: ["memory"], sandbox: { resources: { memory: "4Gi" } } })];
  const first = await apply(sim, bigger);
  expect(travel(first.plans)).toMatchObject({ verb: "update", why: ["spec"], drift: [] });
  expect(serving(sim)).toMatchObject({ id: old, spec: { memoryBytes: 4 * 1024 ** 3 } });
  const other = [provider(), plugin(), agent("travel", { tools: ["memory"], sandbox: { resources: { memory: "4Gi" }, env: { A: "1" } } })];
  const second = await apply(sim, other);
  expect(travel(second.plans)).toMatchObject({ verb: "replace", why: ["spec"], forces: "sandbox.env.A", drift: [] });
  expect(second.end.exit).toBe(0);
  expect(serving(sim)?.id).not.toBe(old);
  expect(problemsAtRest(sim)).toEqual([]);
});

test("a change of instructions or model leaves the container alone", async () => {
  sim = await createSim();
  await apply(sim, STACK);
  const old = serving(sim)?.id;
  const asked = sim.faults.asked.length;
  const { end } = await apply(sim, [
    provider(),
    plugin(),
    agent("travel", { tools: ["memory"], instructions: "Be brief.", model: { provider: "echo", id: "other" } }),
  ]);
  expect(end.exit).toBe(0);
  expect(serving(sim)?.id).toBe(old);
  expect(sim.faults.asked.length).toBe(asked);
});

test("suspend stops the container and says so; resume starts the same one", async () => {
  sim = await createSim();
  await apply(sim, STACK);
  await converge(sim, 60_000);
  const old = serving(sim)?.id;
  sim.running.set(uidOf(sim), 2);
  const { end } = await apply(sim, [provider(), plugin(), agent("travel", { tools: ["memory"], suspend: true })]);
  expect(end.exit).toBe(0);
  expect(serving(sim)).toMatchObject({ id: old, state: "exited" });
  expect(state(sim, "Suspended")).toMatchObject({ status: "True" });
  expect(sim.ended).toEqual([`calls of ${uidOf(sim)}: the agent is suspended`]);
  await apply(sim, STACK);
  await converge(sim, 20_000);
  expect(serving(sim)).toMatchObject({ id: old, state: "running" });
  expect(problemsAtRest(sim)).toEqual([]);
});

test("delete removes container, socket and launchers, and keeps the workspace", async () => {
  sim = await createSim();
  await apply(sim, STACK);
  const { metadata } = object(sim);
  const folder = `${sim.home}/agents/default.travel/workspace`;
  await sim.engine.delete({ kind: "Agent", namespace: "default", name: "travel" }, { dryRun: false, force: false });
  await converge(sim, 60_000);
  expect(() => object(sim)).toThrow(/does not exist/);
  expect([sim.docker.of(metadata.uid), [...sim.kits.kits], sim.sockets.seen(metadata.uid).listening]).toEqual([[], [], false]);
  expect(sim.folders.folders.has(folder)).toBe(true);
  expect([sim.store.agents.active(metadata.uid), sim.broken]).toEqual([undefined, []]);
});

test("delete takes the workspace with it where the manifest says so", async () => {
  sim = await createSim();
  await apply(sim, [provider(), agent("travel", { workspace: { onDelete: "delete" } })]);
  await sim.engine.delete({ kind: "Agent", namespace: "default", name: "travel" }, { dryRun: false, force: false });
  await converge(sim, 60_000);
  expect(sim.folders.folders.has(`${sim.home}/agents/default.travel/workspace`)).toBe(false);
  expect(() => object(sim)).toThrow(/does not exist/);
});

test("deleting dev never touches dev2, nor a container without our label", async () => {
  sim = await createSim();
  await apply(sim, [provider(), agent("dev"), agent("dev2")]);
  const kept = serving(sim, "dev2")?.id;
  const foreign = await sim.docker
    .create({ ...(serving(sim, "dev2")?.spec ?? never()), name: "beige-dev-foreign", labels: {} })
    .catch(never);
  sim.broken.length = 0;
  await sim.engine.delete({ kind: "Agent", namespace: "default", name: "dev" }, { dryRun: false, force: false });
  await converge(sim, 60_000);
  expect(new Set(sim.docker.boxes.keys())).toEqual(new Set([kept, foreign]));
  expect(problemsAtRest(sim, "dev2")).toEqual([]);
});

test("a container of an agent that nobody wants any more is removed, its workspace never", async () => {
  sim = await createSim();
  await apply(sim, [provider(), agent("travel", { workspace: { onDelete: "delete" } })]);
  const { uid } = object(sim).metadata;
  sim.docker.setDown(true);
  await sim.engine.delete({ kind: "Agent", namespace: "default", name: "travel" }, { dryRun: false, force: true });
  sim.docker.setDown(false);
  await converge(sim, 200_000);
  expect(sim.docker.of(uid)).toEqual([]);
  expect(sim.folders.folders.has(`${sim.home}/agents/default.travel/workspace`)).toBe(true);
});

function never(): never {
  throw new Error("unreachable");
}
