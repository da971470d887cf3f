// A disk that fills up is told as a condition of the agents that live on it, before calls fail for it.
import { afterEach, expect, test } from "vitest";
import { turns } from "../../src/engine/fixture.ts";
import { agent, apply, close, createSim, provider, ref, state, type Sim } from "./rig.ts";

let sim: Sim;
afterEach(async () => close(sim));

test("an agent whose disk is nearly full is degraded and goes on, and is well again when there is room", async () => {
  sim = await createSim();
  let freeBytes = 10 * 2 ** 30;
  let freeFiles = 1_000_000;
  Object.assign(sim.folders, { room: () => Promise.resolve({ freeBytes, freeFiles }) });
  await apply(sim, [provider(), agent()]);
  expect(state(sim, "Degraded")?.status).not.toBe("True");
  for (const [bytes, files, text] of [
    [2 ** 29, 1_000_000, "less than 1 GiB left"],
    [10 * 2 ** 30, 100, "room for less than 10000 files left"],
  ] as const) {
    [freeBytes, freeFiles] = [bytes, files];
    sim.engine.wake(ref("Agent", "travel"));
    await turns(50);
    expect(state(sim, "Degraded")).toMatchObject({
      status: "True",
      reason: "DiskPressure",
      message: expect.stringContaining(text) as string,
    });
    expect(state(sim, "Ready")).toMatchObject({ status: "True" });
  }
  [freeBytes, freeFiles] = [10 * 2 ** 30, 1_000_000];
  await sim.clock.advance(61_000);
  await turns(50);
  expect(state(sim, "Degraded")).toMatchObject({ status: "False" });
});
