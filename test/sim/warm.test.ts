// Warm sandboxes in the sim: every effect of filling and of a claim fails once, and the gateway dies at every row of them.
import { afterEach, expect, test } from "vitest";
import { LABEL } from "../../src/core/sandbox.ts";
import { WARM } from "../../src/core/seat.ts";
import { turns } from "../../src/engine/fixture.ts";
import {
  agent,
  apply,
  close,
  converge,
  createSim,
  diff,
  dieAtRow,
  plugin,
  problemsAtRest,
  provider,
  ref,
  reopen,
  serving,
  settle,
  uidOf,
  type Sim,
} from "./rig.ts";

let sim: Sim;
afterEach(async () => close(sim));

const signal = new AbortController().signal;
const look = async (times = 1): Promise<void> => {
  for (let i = 0; i < times; i++) await settle(sim, sim.pool.tick(signal)).catch(() => undefined);
};
const wish = (count: number, more: object = {}) => ({
  secrets: [],
  paths: { mounts: [], workspaces: [], plugins: [] },
  warm: [{ image: "beige-base:1", count, ...more }],
});
const STACK = [provider(), plugin(), agent("travel", { tools: ["memory"], sandbox: { resources: { pids: 64 } } })];

async function warmSim(count: number): Promise<void> {
  sim = await createSim({ setUp: (m) => (m.host = wish(count)) });
  await look(count + 1);
  expect(sim.pool.waiting()).toHaveLength(count);
}

/** Each container serves an agent or waits, no seat is two's, no name is wrong. */
function atRest(): readonly string[] {
  const boxes = [...sim.docker.boxes.values()];
  const active = serving(sim)?.id;
  const waiting = new Set(sim.pool.waiting());
  const uid = uidOf(sim);
  const ready = problemsAtRest(sim).filter((problem) => !problem.startsWith("0 containers") || active === undefined);
  return [
    ...ready,
    ...boxes.filter(({ id }) => id !== active && !waiting.has(id)).map(({ spec }) => `${spec.name} is nobody's`),
    ...(active !== undefined && waiting.has(active) ? ["what serves waits too"] : []),
    ...(boxes.find(({ id }) => id === active)?.spec.pids === 64 ? [] : ["the limits are not the agent's"]),
    ...(sim.sockets.seen(uid).listening ? [] : ["nobody listens for the agent"]),
  ];
}

test("a new agent is given one that waits, with its limits and launchers, and nothing is made", async () => {
  await warmSim(2);
  const waiting = new Set(sim.pool.waiting());
  const [planned] = (await diff(sim, STACK)).filter(({ ref: { kind } }) => kind === "Agent");
  expect(planned?.actions).toContain("take a warm sandbox of beige-base:1");
  const made = sim.docker.boxes.size;
  await apply(sim, STACK);
  await converge(sim, 60_000);
  expect(sim.docker.boxes.size).toBe(made);
  const box = serving(sim);
  expect(waiting.has(box?.id ?? "")).toBe(true);
  expect(box?.spec).toMatchObject({ name: "beige-travel", pids: 64, labels: { [LABEL.kind]: WARM } });
  expect(box?.spec.env).not.toHaveProperty("BEIGE_AGENT");
  expect(sim.docker.boxes.get(box?.id ?? "")?.spec.user).toStrictEqual(sim.store.agents.hostUser(uidOf(sim)));
  expect(atRest()).toEqual([]);
  await look(2);
  expect(sim.pool.waiting()).toHaveLength(2);
  expect(sim.store.agents.seats.all().filter(({ holder }) => holder === undefined)).toHaveLength(2);
});

test("drift of a claimed sandbox is seen as any other's", async () => {
  await warmSim(1);
  await apply(sim, STACK);
  const id = serving(sim)?.id ?? "";
  sim.docker.byHand(id, (box) => (box.spec = { ...box.spec, env: { ...box.spec.env, EVIL: "1" } }));
  const [planned] = (await diff(sim, STACK)).filter(({ ref: { kind } }) => kind === "Agent");
  expect(planned).toMatchObject({ verb: "replace", why: ["drift"] });
  await converge(sim, 60_000);
  expect(serving(sim)?.id).not.toBe(id);
  await look();
  expect(sim.docker.boxes.has(id)).toBe(false);
  expect(sim.broken).toEqual([]);
});

for (const [what, more] of [
  ["a workspace that is there already", {}],
  ["another variable", { sandbox: { env: { A: "b" } } }],
  ["another profile", { sandbox: { profile: "packages" } }],
  ["another size of /tmp", { sandbox: { resources: { tmp: "1Mi" } } }],
  ["a network", { sandbox: { network: { mode: "open" } } }],
  ["another image", { sandbox: { image: "beige-base:2" } }],
] as const)
  test(`an agent with ${what} starts cold`, async () => {
    await warmSim(1);
    if (what.startsWith("a workspace"))
      sim.folders.folders.set(`${sim.home}/agents/default.travel/workspace`, { uid: 20_900, gid: 20_900 });
    const waiting = sim.pool.waiting();
    await apply(sim, [provider(), agent("travel", more)]);
    await converge(sim, 40_000);
    expect(sim.pool.waiting()).toEqual(waiting);
    expect(serving(sim)?.spec.labels[LABEL.kind]).toBe("Agent");
    expect(problemsAtRest(sim)).toEqual([]);
  });

for (const when of ["before", "after"] as const) {
  test(`a claim converges whichever effect fails ${when} it lands`, async () => {
    for (let nth = 1; ; nth++) {
      await warmSim(1);
      sim.faults.set({ nth, when });
      await apply(sim, STACK, { wait: false });
      await converge(sim, 80_000);
      sim.faults.clear();
      const { struck } = sim.faults;
      await look(2);
      await converge(sim, 400_000);
      await look(2);
      expect([nth, atRest(), sim.pool.waiting().length]).toEqual([nth, [], 1]);
      if (!struck) break;
      await close(sim);
    }
  });

  test(`filling ends with what is wanted whichever effect fails ${when} it lands`, async () => {
    for (let nth = 1; ; nth++) {
      sim = await createSim({ setUp: (m) => (m.host = wish(1)) });
      sim.faults.set({ nth, when });
      await look();
      const { struck } = sim.faults;
      sim.faults.clear();
      for (let i = 0; i < 4; i++) {
        await sim.clock.advance(10_000);
        await look();
      }
      expect([nth, sim.pool.waiting().length, sim.docker.boxes.size, sim.broken]).toEqual([nth, 1, 1, []]);
      expect(sim.store.agents.seats.all()).toHaveLength(1);
      if (!struck) break;
      await close(sim);
    }
  });
}

test("a gateway that dies at any moment of a claim ends with one container of the agent, and one that waits", async () => {
  for (let nth = 1; ; nth++) {
    await warmSim(1);
    const died = await dieAtRow(sim, nth, () => apply(sim, STACK, { wait: false }));
    sim = await reopen(sim);
    await converge(sim, 80_000);
    await look(3);
    expect([nth, atRest(), sim.pool.waiting().length]).toEqual([nth, [], 1]);
    if (!died) break;
    await close(sim);
  }
});

test("deleting leaves nothing but the workspace, whichever effect fails", async () => {
  for (let nth = 1; ; nth++) {
    await warmSim(1);
    await apply(sim, STACK);
    const uid = uidOf(sim);
    const id = serving(sim)?.id ?? "";
    sim.faults.set({ nth, when: nth % 2 === 0 ? "before" : "after" });
    await sim.engine.delete(ref("Agent", "travel"), { dryRun: false, force: false });
    await converge(sim, 200_000);
    const { struck } = sim.faults;
    sim.faults.clear();
    await look(2);
    expect([nth, sim.engine.list("Agent", {}).items, sim.docker.boxes.has(id), sim.sockets.seen(uid).listening, sim.broken]).toEqual([
      nth,
      [],
      false,
      false,
      [],
    ]);
    expect(sim.store.agents.seats.all().filter(({ holder }) => holder !== undefined)).toEqual([]);
    expect(sim.folders.folders.has(`${sim.home}/agents/default.travel/workspace`)).toBe(true);
    if (!struck) break;
    await close(sim);
  }
});

test("an image that cannot be made is tried again later and later, with one warning", async () => {
  const warned: string[] = [];
  sim = await createSim({ setUp: (m) => (m.host = wish(1, { image: "nothing:1" })) });
  Object.assign(sim.world.log, { warn: (message: string) => void warned.push(message) });
  const asked = (): number => sim.pool.levels().length;
  expect(asked()).toBe(1);
  let tries = 0;
  const image = sim.docker.image.bind(sim.docker);
  sim.docker.image = (name, s) => {
    tries += 1;
    return image(name, s);
  };
  for (let i = 0; i < 60; i++) {
    await look();
    await sim.clock.advance(5000);
  }
  expect(tries).toBeLessThan(10);
  expect(warned.filter((message) => message.includes("warm"))).toHaveLength(1);
  expect(sim.pool.levels()).toEqual([{ image: "nothing:1", wanted: 1, ready: 0, problem: "image nothing:1 is not on the engine" }]);
  await turns(5);
});

test("never more than 16 wait, whatever is asked for", async () => {
  const { warm } = wish(12);
  sim = await createSim({ setUp: (m) => (m.host = { ...wish(0), warm: [...warm, { image: "beige-base:2", count: 12 }] }) });
  await look(20);
  expect(sim.pool.waiting()).toHaveLength(16);
  expect(sim.pool.levels().map(({ wanted }) => wanted)).toEqual([12, 4]);
});
