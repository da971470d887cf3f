// An engine that crashes may lose track of a container for ever: what cannot be started is made anew.
import { afterEach, expect, test } from "vitest";
import { agent, apply, close, converge, createSim, problemsAtRest, provider, serving, state, type Sim } from "./rig.ts";

let sim: Sim;
afterEach(async () => close(sim));

const before = [provider(), agent()];
const after = () => [provider(), agent("travel", { sandbox: { image: "beige-base:2" } })];

/** The engine crashes when it is first asked to start what has this name: it forgets that container, and ends all others. */
function crashAtStart(name: string): void {
  const invariant = sim.faults.onEffect;
  sim.faults.onEffect = (effect) => {
    invariant(effect);
    if (effect !== `start ${name}` || sim.docker.lost.size > 0) return;
    const forgotten = sim.docker.named(name);
    if (forgotten === undefined) return;
    sim.docker.lost.add(forgotten.id);
    for (const box of sim.docker.boxes.values()) if (box.state === "running") sim.docker.killByHand(box.id);
  };
}

test("a new container that the engine lost track of in a crash is given up: the old one is started again, and later the next new one", async () => {
  sim = await createSim();
  await apply(sim, before);
  const old = serving(sim)?.id;
  crashAtStart("beige-travel-next");
  await apply(sim, after(), { wait: false });
  await converge(sim, 110_000);
  expect(serving(sim)).toMatchObject({ id: old, state: "running" });
  expect(state(sim, "Ready")).toMatchObject({
    reason: "ReplaceFailed",
    message: expect.stringContaining("could not be started for 60 s") as string,
  });
  await converge(sim, 400_000);
  expect(serving(sim)).toMatchObject({ imageId: "sha256:base2", state: "running" });
  expect(problemsAtRest(sim)).toEqual([]);
});

test("a first container that the engine lost track of is made anew", async () => {
  sim = await createSim();
  crashAtStart("beige-travel");
  await apply(sim, before, { wait: false });
  await converge(sim, 40_000);
  expect(state(sim, "Ready")?.status).not.toBe("True");
  await converge(sim, 80_000);
  expect(serving(sim)).toMatchObject({ state: "running" });
  expect(sim.docker.lost.has(serving(sim)?.id ?? "")).toBe(false);
  expect(problemsAtRest(sim)).toEqual([]);
});

test("a container that ran, ended, and is lost to the engine is made anew after some minutes, not before", async () => {
  sim = await createSim();
  await apply(sim, before);
  const old = serving(sim)?.id ?? "";
  sim.docker.lost.add(old);
  sim.docker.killByHand(old);
  await converge(sim, 200_000);
  expect(sim.docker.boxes.has(old)).toBe(true);
  await converge(sim, 200_000);
  expect(serving(sim)?.id).not.toBe(old);
  expect(problemsAtRest(sim)).toEqual([]);
});

test("a container that ends again and again is never made anew: each start of it worked", async () => {
  sim = await createSim();
  await apply(sim, before);
  const old = serving(sim)?.id ?? "";
  sim.docker.crashing = () => true;
  sim.docker.killByHand(old);
  await converge(sim, 900_000);
  expect(sim.docker.boxes.has(old)).toBe(true);
});
