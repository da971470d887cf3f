// An agent with start: lazy has no container until somebody needs it, and one that ended rests until then.
import { afterEach, expect, test } from "vitest";
import { turns } from "../../src/engine/fixture.ts";
import { agent, apply, close, converge, createSim, problemsAtRest, provider, ref, serving, state, uidOf, type Sim } from "./rig.ts";

let sim: Sim;
afterEach(async () => close(sim));

const lazy = (sandbox: object = {}) => [provider(), agent("travel", { sandbox: { start: "lazy", ...sandbox } })];

async function need(): Promise<void> {
  sim.wanted.add(uidOf(sim));
  sim.engine.wakeUid(uidOf(sim));
  await turns(50);
  await converge(sim);
  sim.wanted.delete(uidOf(sim));
}

test("nothing is made by an apply, which is done at once; the first need makes it", async () => {
  sim = await createSim();
  const { end } = await apply(sim, lazy());
  expect(end.exit).toBe(0);
  expect(sim.docker.boxes.size).toBe(0);
  expect(state(sim, "Ready")).toMatchObject({ status: "True", reason: "Lazy", message: "the sandbox is made at the first call or prompt" });
  expect(state(sim, "Progressing")).toMatchObject({ status: "False" });
  await need();
  expect(serving(sim)).toMatchObject({ state: "running" });
  expect(state(sim, "Ready")).toMatchObject({ status: "True", reason: "Ready" });
  expect(problemsAtRest(sim)).toEqual([]);
});

test("once it runs it stays, and a container that ended is started by the next need only", async () => {
  sim = await createSim();
  await apply(sim, lazy());
  await need();
  const id = serving(sim)?.id ?? "";
  await sim.clock.advance(120_000);
  expect(serving(sim)).toMatchObject({ id, state: "running" });
  sim.docker.killByHand(id);
  sim.engine.wake(ref("Agent", "travel"));
  await turns(50);
  await sim.clock.advance(120_000);
  expect(serving(sim)).toMatchObject({ id, state: "exited" });
  expect(state(sim, "Ready")).toMatchObject({ status: "True", reason: "Lazy" });
  await need();
  expect(serving(sim)).toMatchObject({ id, state: "running" });
  expect(problemsAtRest(sim)).toEqual([]);
});

test("a change while it rests makes nothing; the next need makes the new one", async () => {
  sim = await createSim();
  await apply(sim, lazy());
  await need();
  const id = serving(sim)?.id ?? "";
  sim.docker.killByHand(id);
  const { end } = await apply(sim, lazy({ image: "beige-base:2" }));
  expect(end.exit).toBe(0);
  expect(serving(sim)).toMatchObject({ id, state: "exited" });
  await need();
  expect(serving(sim)).toMatchObject({ state: "running", imageId: "sha256:base2" });
  expect(sim.docker.boxes.size).toBe(1);
});

test("what would hinder the start is said at once", async () => {
  sim = await createSim();
  await apply(sim, lazy({ image: "beige-absent:1" }), { wait: false });
  await turns(50);
  expect(state(sim, "Ready")).toMatchObject({ status: "False", reason: "ImageMissing" });
});
