// Adoption: a store is lost and its containers run on; a stranger's container has the folder. Only what is named is taken over.
import { rmSync } from "node:fs";
import { join } from "node:path";
import { afterEach, expect, test } from "vitest";
import { ADOPT, adoptText } from "../../src/core/adoption.ts";
import { LABEL, type SandboxSpec } from "../../src/core/sandbox.ts";
import {
  agent,
  apply,
  close,
  converge,
  crash,
  createSim,
  dieAtRow,
  object,
  problemsAtRest,
  provider,
  ref,
  reopen,
  serving,
  state,
  uidOf,
  type Sim,
} from "./rig.ts";

let sim: Sim;
afterEach(async () => close(sim));

const annotated = (text: string, of: object): object => ({
  ...of,
  metadata: { ...(of as { metadata: object }).metadata, annotations: { [ADOPT]: text } },
});

interface Left {
  readonly store: string;
  readonly uid: string;
  readonly id: string;
}
const adopting = ({ store, uid }: Left, of: object = agent()): readonly object[] => [provider(), annotated(adoptText(store, uid), of)];

/** A gateway made an agent, died, and its state.db is gone. */
async function lostStore(): Promise<Left> {
  sim = await createSim();
  await apply(sim, [provider(), agent()]);
  const left = { store: sim.store.id, uid: uidOf(sim), id: serving(sim)?.id ?? "" };
  await crash(sim);
  for (const name of ["state.db", "state.db-wal", "state.db-shm"]) rmSync(join(sim.home, name), { force: true });
  sim = await reopen(sim);
  expect(sim.store.id).not.toBe(left.store);
  return left;
}

test("a container of a lost store goes on as it is under the new object, and its folders with it", async () => {
  const left = await lostStore();
  await converge(sim, 130_000);
  const asked = sim.faults.asked.length;
  const seen = await apply(sim, adopting(left), { dryRun: true });
  expect(seen.plans.find((plan) => plan.ref.name === "travel")).toMatchObject({
    verb: "adopt",
    actions: expect.arrayContaining([
      `take over container beige-travel (${left.id.slice(0, 12)}) of lost store ${left.store.slice(0, 8)}`,
    ]) as string[],
  });
  expect(sim.faults.asked.length).toBe(asked);
  const { end } = await apply(sim, adopting(left));
  expect(end.exit).toBe(0);
  expect([uidOf(sim), serving(sim)?.id, problemsAtRest(sim)]).toEqual([left.uid, left.id, []]);
  expect(sim.faults.asked.slice(asked).filter((name) => !/^(kit|socket|load)/.test(name))).toEqual([]);
  expect((await apply(sim, adopting(left))).plans.find((plan) => plan.ref.name === "travel")?.verb).toBe("unchanged");
});

test("a container that was taken over is kept as any other: started when it ends, replaced when the wish changes, removed at last", async () => {
  const left = await lostStore();
  await apply(sim, adopting(left));
  await converge(sim, 20_000);
  sim.docker.killByHand(left.id);
  await sim.clock.advance(15_000);
  expect(serving(sim)).toMatchObject({ id: left.id, state: "running" });
  await apply(sim, adopting(left, agent("travel", { sandbox: { image: "beige-base:2" } })));
  expect([serving(sim)?.imageId, serving(sim)?.spec.labels[LABEL.store], problemsAtRest(sim)]).toEqual(["sha256:base2", sim.store.id, []]);
  await sim.engine.delete(ref("Agent", "travel"), { dryRun: false, force: false });
  await converge(sim, 20_000);
  expect([sim.docker.boxes.size, [...sim.folders.folders.keys()].filter((path) => path.endsWith("/workspace")).length]).toEqual([0, 1]);
});

test("a container that was taken over stays the agent's when the annotation is taken out again", async () => {
  const left = await lostStore();
  await apply(sim, adopting(left));
  await apply(sim, [provider(), agent()]);
  await converge(sim, 130_000);
  expect([object(sim).metadata.annotations, serving(sim)?.id, problemsAtRest(sim)]).toEqual([undefined, left.id, []]);
  sim.docker.killByHand(left.id);
  await sim.clock.advance(15_000);
  expect(serving(sim)).toMatchObject({ id: left.id, state: "running" });
  await sim.engine.delete(ref("Agent", "travel"), { dryRun: false, force: false });
  await converge(sim, 20_000);
  expect(sim.docker.boxes.size).toBe(0);
});

test("one that is not as the manifest wants it is replaced on the same workspace", async () => {
  const left = await lostStore();
  const { plans, end } = await apply(sim, adopting(left, agent("travel", { sandbox: { image: "beige-base:2" } })));
  expect([end.exit, plans.find((plan) => plan.ref.name === "travel")?.verb]).toEqual([0, "adopt"]);
  expect([serving(sim)?.imageId, sim.docker.boxes.has(left.id), problemsAtRest(sim)]).toEqual(["sha256:base2", false, []]);
});

test("a user that another agent has by now is not shared: the container is replaced, and the workspace given to the new user", async () => {
  const left = await lostStore();
  await apply(sim, [provider(), agent("other")]);
  const user = serving(sim, "other")?.spec.user;
  expect(sim.docker.boxes.get(left.id)?.spec.user).toEqual(user);
  await apply(sim, adopting(left));
  await converge(sim, 80_000);
  expect([problemsAtRest(sim), problemsAtRest(sim, "other")]).toEqual([[], []]);
  expect(serving(sim)?.id).not.toBe(left.id);
  expect(serving(sim)?.spec.user).not.toEqual(user);
});

test("a gateway that dies at any moment of a take-over ends it after its restart, with the same container", async () => {
  for (let nth = 1; ; nth++) {
    const left = await lostStore();
    const died = await dieAtRow(sim, nth, () => apply(sim, adopting(left), { wait: false }));
    sim = await reopen(sim);
    await converge(sim, 80_000);
    expect([nth, problemsAtRest(sim), serving(sim)?.id]).toEqual([nth, [], left.id]);
    if (!died) break;
    expect(nth).toBeLessThan(50);
    await close(sim);
  }
});

test("without the annotation, and with another one's uid, a lost store's container is left alone", async () => {
  const left = await lostStore();
  const before = structuredClone(sim.docker.boxes.get(left.id));
  await apply(sim, [provider(), agent()], { wait: false });
  await apply(sim, [annotated(adoptText(left.store, "a1b2c3d4-e5f6-4708-890a-0b0c0d0e0f10"), agent("second"))]);
  await converge(sim, 130_000);
  await sim.engine.delete(ref("Agent", "travel"), { dryRun: false, force: false });
  await converge(sim, 130_000);
  expect(sim.docker.boxes.get(left.id)).toEqual(before);
  expect(problemsAtRest(sim, "second")).toEqual([]);
});

test("a container of a gateway on another home is refused, and not touched", async () => {
  const left = await lostStore();
  sim.docker.byHand(left.id, (box) => {
    const mounts = box.spec.mounts.map((mount) => ({ ...mount, source: mount.source.replace(sim.home, "/elsewhere") }));
    box.spec = { ...box.spec, mounts };
  });
  const before = structuredClone(sim.docker.boxes.get(left.id));
  const { end, events } = await apply(sim, adopting(left));
  expect(end.exit).toBe(2);
  expect(JSON.stringify(events)).toMatch(/is of a gateway on another home .*; it is left alone/);
  await converge(sim, 80_000);
  expect([sim.docker.boxes.get(left.id), sim.docker.boxes.size]).toEqual([before, 1]);
});

test("an annotation that names nothing, this store, or an object that is there is refused before anything is done", async () => {
  sim = await createSim();
  await apply(sim, [provider(), agent("travel", {})]);
  const uid = uidOf(sim);
  const other = "0f0e0d0c-0b0a-4908-8706-050403020100";
  const near = `${uid.slice(0, 12)}${other.slice(12)}`;
  const refused = async (text: string, name = "second"): Promise<string> => {
    const { end, events } = await apply(sim, [annotated(text, agent(name))]);
    expect(end.exit).toBe(2);
    return JSON.stringify(events);
  };
  expect(await refused("../../etc")).toContain("neither STORE/UID of a lost store nor a container's name");
  expect(await refused(adoptText(sim.store.id, other))).toContain("gateway's own");
  expect(await refused(adoptText(other, uid))).toContain("another object has that uid");
  expect(await refused(adoptText(other, near))).toContain("another object has that uid");
  expect(await refused(adoptText(other, other), "travel")).toContain("agent travel is there already");
  const twins = [annotated(adoptText(other, other), agent("a")), annotated(adoptText(other, other), agent("b"))];
  expect((await apply(sim, twins)).end.exit).toBe(2);
  expect([uidOf(sim), sim.docker.boxes.size, problemsAtRest(sim)]).toEqual([uid, 1, []]);
});

const STRANGER: SandboxSpec = {
  name: "old-box",
  labels: {},
  image: "beige-base:1",
  user: { uid: 0, gid: 0 },
  env: {},
  mounts: [{ source: "/srv/work", target: "/workspace", readOnly: false }],
  memoryBytes: 0,
  cpus: 0,
  pids: 0,
  tmpBytes: 0,
  network: "open",
  profile: "packages",
};

test("a stranger's workspace is taken over once its owner has stopped the container, which is never touched", async () => {
  sim = await createSim();
  sim.host = { ...sim.host, paths: { ...sim.host.paths, workspaces: ["/srv"] } };
  sim.folders.folders.set("/srv/work", { uid: 20_000, gid: 20_000 });
  const invariant = sim.faults.onEffect;
  sim.faults.onEffect = () => undefined;
  const id = await sim.docker.create(STRANGER);
  await sim.docker.start(id);
  sim.faults.onEffect = invariant;
  const wanted = [provider(), annotated("old-box", agent("travel", { workspace: { path: "/srv/work" } }))];
  await apply(sim, wanted, { wait: false });
  await converge(sim, 40_000);
  expect(state(sim, "Ready")).toMatchObject({ reason: "AdoptWaits", message: expect.stringContaining("docker stop old-box") as string });
  expect(sim.docker.boxes.size).toBe(1);
  sim.docker.killByHand(id);
  const stopped = structuredClone(sim.docker.boxes.get(id));
  const events = (): readonly string[] => sim.engine.events({ ref: ref("Agent", "travel") }).map((event) => event.reason);
  await converge(sim, 20_000);
  expect([problemsAtRest(sim), sim.docker.boxes.get(id), events().includes("Adopted")]).toEqual([[], stopped, true]);
  await sim.docker.start(id).catch(() => undefined);
  await converge(sim, 130_000);
  await sim.engine.delete(ref("Agent", "travel"), { dryRun: false, force: false });
  await converge(sim, 20_000);
  expect([...sim.docker.boxes.keys()]).toEqual([id]);
});
