// Every effect of every controller fails once, before or after it lands; and seeded histories of everything that can go wrong.
import { afterEach, expect, test } from "vitest";
import {
  agent,
  apply,
  close,
  converge,
  crash,
  createSim,
  dieAtRow,
  plugin,
  problemsAtRest,
  provider,
  ref,
  reopen,
  schedule,
  serving,
  uidOf,
  type Sim,
} from "./rig.ts";
import { seededRandom } from "../../src/engine/fixture.ts";

let sim: Sim;
afterEach(async () => close(sim));

const STACK = [provider(), plugin(), agent("travel", { tools: ["memory"] }), schedule("morning", {})];
const NEXT = [
  provider(),
  plugin("memory", { config: { size: 2 } }),
  agent("travel", { tools: ["memory"], sandbox: { image: "beige-base:2", resources: { pids: 64 } } }),
  schedule("morning", { cron: "0 10 * * *" }),
];

/** Fails the nth effect of a change, then heals; true when there was such an effect. */
async function withFault(nth: number, when: "before" | "after", change: () => Promise<unknown>): Promise<boolean> {
  sim.faults.set({ nth, when });
  await change();
  await converge(sim, 80_000);
  sim.faults.clear();
  return sim.faults.struck;
}

for (const when of ["before", "after"] as const) {
  test(`creating converges whichever effect fails ${when} it lands`, async () => {
    for (let nth = 1; ; nth++) {
      sim = await createSim();
      const struck = await withFault(nth, when, () => apply(sim, STACK, { wait: false }));
      await converge(sim, 400_000);
      expect([nth, problemsAtRest(sim)]).toEqual([nth, []]);
      if (!struck) break;
      await close(sim);
    }
    expect(sim.faults.asked.length).toBeGreaterThan(5);
  });

  test(`replacing converges whichever effect fails ${when} it lands`, async () => {
    for (let nth = 1; ; nth++) {
      sim = await createSim();
      await apply(sim, STACK);
      const struck = await withFault(nth, when, () => apply(sim, NEXT, { wait: false }));
      await converge(sim, 400_000);
      expect([nth, problemsAtRest(sim)]).toEqual([nth, []]);
      expect(serving(sim)).toMatchObject({ imageId: "sha256:base2", spec: { pids: 64 } });
      if (!struck) break;
      await close(sim);
    }
  });

  test(`deleting leaves nothing whichever effect fails ${when} it lands`, async () => {
    for (let nth = 1; ; nth++) {
      sim = await createSim();
      await apply(sim, [provider(), plugin(), agent("travel", { tools: ["memory"], workspace: { onDelete: "delete" } })]);
      const uid = uidOf(sim);
      const struck = await withFault(nth, when, async () => {
        for (const one of [ref("Agent", "travel"), ref("Plugin", "memory"), ref("Provider", "echo")])
          await sim.engine.delete(one, { dryRun: false, force: false });
      });
      await converge(sim, 200_000);
      expect(sim.engine.list("Agent", {}).items).toEqual([]);
      expect(sim.engine.list("Plugin", {}).items).toEqual([]);
      expect([sim.docker.of(uid), [...sim.kits.kits], sim.sockets.seen(uid).listening, sim.plugins.names(), sim.broken]).toEqual([
        [],
        [],
        false,
        [],
        [],
      ]);
      expect(sim.folders.folders.has(`${sim.home}/agents/default.travel/workspace`)).toBe(false);
      if (!struck) break;
      await close(sim);
    }
  });
}

test("a gateway that dies at any moment of a creation ends with one container", async () => {
  for (let nth = 1; ; nth++) {
    sim = await createSim();
    const died = await dieAtRow(sim, nth, () => apply(sim, STACK, { wait: false }));
    sim = await reopen(sim);
    await converge(sim, 80_000);
    expect([nth, problemsAtRest(sim)]).toEqual([nth, []]);
    if (!died) break;
    await close(sim);
  }
});

test("a gateway that dies at any moment of a deletion finishes it", async () => {
  for (let nth = 1; ; nth++) {
    sim = await createSim();
    await apply(sim, STACK);
    const uid = uidOf(sim);
    const died = await dieAtRow(sim, nth, () => sim.engine.delete(ref("Agent", "travel"), { dryRun: false, force: false }));
    sim = await reopen(sim);
    await converge(sim, 80_000);
    expect([nth, sim.engine.list("Agent", {}).items, sim.docker.of(uid), [...sim.kits.kits], sim.broken]).toEqual([nth, [], [], [], []]);
    if (!died) break;
    await close(sim);
  }
});

/** One thing that happens, to the manifest, the engine, the gateway or the time. */
async function happening(random: () => number): Promise<string> {
  const pick = <T>(...of: readonly T[]): T => of[Math.floor(random() * of.length)] as T;
  const box = [...sim.docker.boxes.values()][0];
  const what = pick(
    "apply",
    "apply",
    "kill",
    "remove",
    "limits",
    "crash",
    "down",
    "jump",
    "calls",
    "suspend",
    "delete",
    "fault",
    "pause",
    "tag",
  );
  switch (what) {
    case "apply":
    case "suspend":
      await apply(
        sim,
        [
          provider(),
          plugin("memory", { config: { n: pick(1, 2) } }),
          agent("travel", {
            tools: pick(["memory"], []),
            suspend: what === "suspend",
            sandbox: { image: pick("beige-base:1", "beige-base:2"), env: pick({}, { A: "1" }), resources: { pids: pick(64, 128) } },
          }),
        ],
        { wait: false },
      );
      break;
    case "kill":
      if (box?.state === "running") sim.docker.killByHand(box.id);
      break;
    case "pause":
      if (box?.state === "running")
        sim.docker.byHand(box.id, (one) => {
          one.state = "paused";
        });
      break;
    case "remove":
      if (box !== undefined) sim.docker.removeByHand(box.id);
      break;
    case "limits":
      if (box !== undefined)
        sim.docker.byHand(box.id, (one) => {
          one.spec = { ...one.spec, memoryBytes: 1, hardening: pick<readonly string[]>([], ["Privileged=true"]) };
        });
      break;
    case "crash":
      await crash(sim);
      sim.faults.clear();
      sim = await reopen(sim);
      break;
    case "down":
      sim.docker.setDown(!sim.docker.down);
      break;
    case "jump":
      await sim.clock.advance(pick(100, 3000, 45_000));
      break;
    case "calls":
      for (const one of sim.engine.list("Agent", {}).items) sim.running.set(one.metadata.uid, pick(0, 1, 5));
      break;
    case "delete":
      for (const one of sim.engine.list("Agent", {}).items)
        await sim.engine.delete(
          { kind: "Agent", namespace: "default", name: one.metadata.name },
          { dryRun: false, force: pick(false, false, true) },
        );
      break;
    case "fault":
      sim.faults.set({ nth: pick(1, 2, 3), when: pick("before", "after") });
      break;
    case "tag":
      sim.docker.images.set("beige-base:1", pick("sha256:base1", "sha256:base1b"));
      break;
  }
  await sim.clock.advance(pick(0, 50, 700));
  return what;
}

for (let batch = 0; batch < 5; batch++) {
  test(`histories ${batch * 10 + 1} to ${batch * 10 + 10} of applies, kills, crashes, faults and clock jumps converge`, async () => {
    for (let seed = batch * 10 + 1; seed <= batch * 10 + 10; seed++) {
      sim = await createSim({ seed: seed * 100 });
      const random = seededRandom(seed);
      const history: string[] = [];
      for (let step = 0; step < 14; step++) history.push(await happening(() => random.float()));
      sim.docker.setDown(false);
      sim.faults.clear();
      sim.running.clear();
      await apply(sim, STACK, { wait: false });
      await converge(sim, 400_000);
      // A delete that was under way refuses the apply: once it is through, the same apply goes through.
      await apply(sim, STACK, { wait: false });
      await converge(sim, 400_000);
      const asked = sim.faults.asked.length;
      await converge(sim, 80_000);
      expect([seed, history.join(" "), problemsAtRest(sim), sim.docker.boxes.size, sim.faults.asked.slice(asked)]).toEqual([
        seed,
        history.join(" "),
        [],
        1,
        [],
      ]);
      await close(sim);
    }
    sim = await createSim();
  });
}
