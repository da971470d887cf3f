// Whatever an agent's manifest says: once applied and settled, the plan is empty, after a change of it too.
import fc from "fast-check";
import { expect, test } from "vitest";
import type { ManifestFile } from "../../src/core/control.ts";
import { leafPaths, leavesIn, specs } from "./generate.ts";
import { agent, apply, close, converge, createSim, plugin, provider, type Applied, type Sim } from "./rig.ts";

const RUNS = Number(process.env["BEIGE_RUNS"] ?? "40");
const KNOWN = new Set(leafPaths("Agent"));

/** Agents as they are written, with a lone $ doubled: they are manifests. */
function fileOf(spec: object): ManifestFile {
  const objects = [provider(), plugin(), { ...agent("travel"), spec }];
  const text = objects.map((one) => JSON.stringify(one).replaceAll("$", "$$$$")).join("\n---\n");
  return { name: "stack.yaml", folder: "/stack", text, vars: {}, files: { "./x.md": "You plan trips." } };
}

const machine = (): Promise<Sim> =>
  createSim({
    setUp: (m) => {
      m.host = {
        secrets: [{ name: "example", env: "EXAMPLE", hosts: ["api.example.com", "api.example.com:8443"] }],
        paths: { mounts: ["/data"], workspaces: ["/srv"], plugins: [] },
      };
      for (const folder of ["/data", "/data/a", "/data/b", "/srv"]) m.folders.folders.set(folder, { uid: 0, gid: 0 });
      m.docker.images.set("beige-sandbox:latest", "sha256:sandbox");
    },
  });

async function settleAll(sim: Sim): Promise<void> {
  for (let i = 0; i < 6; i++) {
    await converge(sim, 40_000);
    const building = [...sim.docker.boxes.values()].some((box) => box.spec.name.startsWith("beige-build-") && box.state === "running");
    if (building) sim.docker.builds.end();
  }
}

const send = (sim: Sim, spec: object, more: object = {}): Promise<Applied> =>
  apply(sim, [], { files: [fileOf(spec)], wait: false, ...more });

/** Whether it was taken; then nothing is left to do after a while. */
async function settles(sim: Sim, spec: object): Promise<boolean> {
  const { end, events } = await send(sim, spec);
  if (end.exit === 2) return false;
  expect(end.exit, JSON.stringify(events)).toBe(0);
  await settleAll(sim);
  const again = await send(sim, spec, { dryRun: true });
  expect(again.plans.map(({ ref, verb, actions, fields, drift }) => [ref.kind, verb, actions, fields, drift])).toEqual(
    ["Provider", "Plugin", "Agent"].map((kind) => [kind, "unchanged", [], [], []]),
  );
  const version = sim.engine.version();
  expect((await send(sim, spec)).end).toMatchObject({ exit: 0, applied: 0, unchanged: 3 });
  await converge(sim, 80_000);
  expect([sim.engine.version(), sim.broken]).toEqual([version, []]);
  return true;
}

test("the plan is empty after the apply of every generated agent, and after its change to any other", async () => {
  const seen = new Set<string>();
  const tally = { taken: 0, all: 0 };
  const eager = (spec: Readonly<Record<string, unknown>>): object => ({
    ...spec,
    update: { ...(spec["update"] as object), strategy: "immediate" },
  });
  await fc.assert(
    fc.asyncProperty(specs("Agent"), specs("Agent"), async (first, second) => {
      const sim = await machine();
      try {
        for (const spec of [first, eager(second)]) {
          tally.all += 1;
          if (!(await settles(sim, spec))) continue;
          tally.taken += 1;
          for (const path of leavesIn(spec, KNOWN)) seen.add(path);
        }
      } finally {
        await close(sim);
      }
    }),
    { numRuns: RUNS, seed: 20_261_201, endOnFailure: true },
  );
  // Otherwise the sentence above would say little.
  expect(tally.taken / tally.all).toBeGreaterThan(0.5);
  expect([...KNOWN].filter((path) => !seen.has(path))).toEqual([]);
}, 120_000);
