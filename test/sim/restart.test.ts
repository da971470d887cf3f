// A restart that a person asks for, and an older spec as the newest one.
import { afterEach, expect, test } from "vitest";
import { RESTARTED_AT } from "../../src/core/resource.ts";
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
  ref,
  restart as reopened,
  serving,
  settle,
  state,
  uidOf,
  type Sim,
} from "./rig.ts";

let sim: Sim;
afterEach(async () => close(sim));

const annotate = async (at: string | null, kind = "Agent", name = "travel"): Promise<void> => {
  const body = { metadata: { annotations: { [RESTARTED_AT]: at } } };
  await settle(sim, sim.engine.write({ op: "merge", ref: ref(kind, name), body, manager: "rollout", force: false, dryRun: false }));
  await converge(sim);
};
const STACK = [provider(), agent()];

test("a restart replaces the container with the sessions kept, and only once", async () => {
  sim = await createSim();
  await apply(sim, STACK);
  const old = serving(sim)?.id;
  const generation = object(sim).metadata.generation;
  await annotate("2026-01-01T00:00:00.000Z");
  const next = serving(sim)?.id;
  expect(next).not.toBe(old);
  expect([sim.docker.boxes.size, object(sim).metadata.generation, state(sim, "Ready")?.status, sim.ended]).toEqual([
    1,
    generation,
    "True",
    [],
  ]);
  await annotate("2026-01-01T00:00:00.000Z");
  sim = await reopened(sim);
  await converge(sim);
  expect([serving(sim)?.id, problemsAtRest(sim)]).toEqual([next, []]);
  await annotate("2026-01-02T00:00:00.000Z");
  expect(serving(sim)?.id).not.toBe(next);
});

test("running calls end before the restart", async () => {
  sim = await createSim();
  await apply(sim, STACK);
  const old = serving(sim)?.id;
  sim.running.set(uidOf(sim), 1);
  const body = { metadata: { annotations: { [RESTARTED_AT]: "now" } } };
  await settle(sim, sim.engine.write({ op: "merge", ref: ref("Agent", "travel"), body, manager: "rollout", force: false, dryRun: false }));
  await sim.clock.advance(10_000);
  expect([serving(sim)?.id, state(sim, "Ready")?.reason]).toEqual([old, "Draining"]);
  sim.running.delete(uidOf(sim));
  await converge(sim);
  expect([serving(sim)?.id === old, problemsAtRest(sim)]).toEqual([false, []]);
});

test.each<[string, string | null]>([
  ["a restart that is no longer asked for", null],
  ["an annotation of somebody else", ""],
])("%s replaces nothing", async (_name, at) => {
  sim = await createSim();
  await apply(sim, STACK);
  if (at === null) await annotate("once");
  const id = serving(sim)?.id;
  if (at === null) await annotate(null);
  else
    await settle(
      sim,
      sim.engine.write({
        op: "merge",
        ref: ref("Agent", "travel"),
        body: { metadata: { annotations: { "example.com/x": "y" } } },
        manager: "hand",
        force: false,
        dryRun: false,
      }),
    );
  await converge(sim);
  expect([serving(sim)?.id, problemsAtRest(sim)]).toEqual([id, []]);
});

test("an apply of the same manifest leaves a restart as it is", async () => {
  sim = await createSim();
  await apply(sim, STACK);
  await annotate("once");
  const id = serving(sim)?.id;
  expect((await diff(sim, STACK)).map((each) => each.verb)).toEqual(["unchanged", "unchanged"]);
  expect((await apply(sim, STACK)).end).toMatchObject({ exit: 0, applied: 0 });
  expect(serving(sim)?.id).toBe(id);
});

test("an annotation of any length and with any characters is a restart like any other", async () => {
  sim = await createSim();
  await apply(sim, STACK);
  const old = serving(sim)?.id;
  await annotate(`x"\n${"y".repeat(5000)}`);
  const next = serving(sim);
  expect(next?.id).not.toBe(old);
  expect(next?.spec.labels[RESTARTED_AT]?.length).toBe(64);
  await converge(sim);
  expect([serving(sim)?.id, problemsAtRest(sim)]).toEqual([next?.id, []]);
});

test("a plugin is loaded again once for each restart", async () => {
  sim = await createSim();
  await apply(sim, [provider(), plugin(), agent("travel", { tools: ["memory"] })]);
  const stamp = () => sim.plugins.seen("memory")?.fingerprint;
  const before = stamp();
  await annotate("once", "Plugin", "memory");
  const after = stamp();
  expect(after).not.toBe(before);
  await annotate("once", "Plugin", "memory");
  expect([stamp(), problemsAtRest(sim)]).toEqual([after, []]);
});

test("an older spec written as the newest brings its container back, as a new revision", async () => {
  sim = await createSim();
  await apply(sim, STACK);
  await apply(sim, [provider(), agent("travel", { sandbox: { image: "beige-base:2" } })]);
  const [newest, first] = sim.engine.revisions(ref("Agent", "travel"));
  expect([newest?.revision, first?.revision, newest?.fields]).toEqual([2, 1, ["sandbox"]]);
  const { metadata, apiVersion, kind } = object(sim);
  const body = {
    apiVersion,
    kind,
    metadata: { name: "travel", namespace: "default", resourceVersion: metadata.resourceVersion },
    spec: first?.spec,
  };
  await settle(sim, sim.engine.write({ op: "update", ref: ref("Agent", "travel"), body, manager: "rollout", force: false, dryRun: false }));
  await converge(sim);
  expect(serving(sim)).toMatchObject({ imageId: "sha256:base1" });
  expect(sim.engine.revisions(ref("Agent", "travel")).map((each) => [each.revision, each.manager])).toEqual([
    [3, "rollout"],
    [2, "apply/default"],
    [1, "apply/default"],
  ]);
  expect(problemsAtRest(sim)).toEqual([]);
});
