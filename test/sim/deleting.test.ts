// A deletion that cannot be finished: it says why, goes on trying, and never gives up a running sandbox by itself.
import { afterEach, expect, test } from "vitest";
import { BeigeError } from "../../src/core/errors.ts";
import { agent, apply, close, converge, createSim, object, provider, ref, restart, state, uidOf, type Sim } from "./rig.ts";

let sim: Sim;
afterEach(async () => close(sim));

/** The container cannot be removed until the answer is called. */
function nailed(): () => void {
  const before = sim.faults.onEffect;
  sim.faults.onEffect = (name) => {
    before(name);
    if (name.startsWith("remove ")) throw new BeigeError("unavailable", "cannot remove container beige-travel: device or resource busy");
  };
  return () => {
    sim.faults.onEffect = before;
  };
}

const overdue = () =>
  sim.engine.events({ ref: ref("Agent", "travel") }).filter((event) => event.type === "Warning" && event.reason === "Deleting");

test("an agent whose container cannot be removed says so until its deadline and after it, and goes when it can", async () => {
  sim = await createSim();
  await apply(sim, [provider(), agent()]);
  const uid = uidOf(sim);
  const free = nailed();
  await sim.engine.delete(ref("Agent", "travel"), { dryRun: false, force: false });
  await converge(sim, 100_000);
  expect(state(sim, "Deleting")).toMatchObject({
    reason: "Waiting",
    message: expect.stringMatching(/^waits for container beige-travel \(\w+\): cannot remove .* busy; deadline 20\d\d-/),
  });
  expect(overdue()).toEqual([]);
  await converge(sim, 400_000);
  expect(state(sim, "Deleting")).toMatchObject({
    reason: "DeadlinePassed",
    message: expect.stringMatching(/^not gone after 5 minutes, waits for container .*next: beige delete agent\/travel --force forgets it/),
  });
  sim = await restart(sim);
  await converge(sim, 3_600_000);
  expect(overdue()).toMatchObject([{ count: 1 }]);
  // An hour later it is neither forgotten nor an orphan.
  expect(object(sim).metadata.finalizers).toEqual(["beige.dev/agent"]);
  expect(sim.docker.of(uid)).toHaveLength(1);
  free();
  await converge(sim, 100_000);
  expect([sim.engine.list("Agent", {}).items, sim.docker.of(uid), sim.broken]).toEqual([[], [], []]);
});

test("by force it is forgotten at once, and its container goes as soon as that works", async () => {
  sim = await createSim();
  await apply(sim, [provider(), agent()]);
  const uid = uidOf(sim);
  const free = nailed();
  await sim.engine.delete(ref("Agent", "travel"), { dryRun: false, force: false });
  await converge(sim, 400_000);
  await sim.engine.delete(ref("Agent", "travel"), { dryRun: false, force: true });
  await converge(sim, 100_000);
  expect(sim.engine.list("Agent", {}).items).toEqual([]);
  expect(sim.docker.of(uid)).toHaveLength(1);
  free();
  await converge(sim, 200_000);
  expect(sim.docker.of(uid)).toEqual([]);
});
