// A disk that fills up is told as a condition of the agents that live on it, before calls fail for it.
import { afterEach, expect, test } from "vitest";
import type { DiskUse } from "../../src/core/world.ts";
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

test("a workspace above its limit, or with what nobody measures, is told as such", async () => {
  sim = await createSim();
  let use: DiskUse = { bytes: 1, entries: 1, whole: true };
  Object.assign(sim.folders, { used: () => use });
  await apply(sim, [provider(), agent("travel", { sandbox: { resources: { disk: "1Mi" } } })]);
  expect(state(sim, "Degraded")?.status).not.toBe("True");
  for (const [next, text] of [
    [{ bytes: 2 ** 21, entries: 1, whole: true }, "takes more than sandbox.resources.disk, 1Mi"],
    [{ bytes: 1, entries: 1, whole: false, beyond: "folders without end" }, "has folders without end, so it may take more than"],
  ] as const) {
    use = next;
    sim.engine.wake(ref("Agent", "travel"));
    await turns(50);
    expect(state(sim, "Degraded")).toMatchObject({ reason: "DiskPressure", message: expect.stringContaining(text) as string });
  }
});
