// Sources on the fake world: revisions, drift, guards and crashes, with the real engine and the real kinds.
import { expect, test } from "vitest";
import { seededRandom } from "../../src/engine/fixture.ts";
import {
  agent,
  apply,
  close,
  converge,
  createSim,
  crash,
  object,
  problemsAtRest,
  provider,
  ref,
  reopen,
  restart,
  settle,
  state,
  type Sim,
} from "./rig.ts";

const PATH = "/stacks";
const source = (spec: object = {}): object => ({
  apiVersion: "beige.dev/v1",
  kind: "Source",
  metadata: { name: "stacks" },
  spec: { path: PATH, prune: true, ...spec },
});
const text = (...objects: readonly object[]): string => objects.map((each) => JSON.stringify(each)).join("\n---\n");
const files = (...names: readonly string[]): Record<string, string> =>
  Object.fromEntries(names.map((name) => [`${name}.yaml`, text(agent(name))]));

async function begin(content: Record<string, string>, spec: object = {}): Promise<Sim> {
  const sim = await createSim({ setUp: (m) => m.manifests.set(PATH, content) });
  expect((await apply(sim, [provider()], { set: "base" })).end.exit).toBe(0);
  expect((await apply(sim, [source(spec)], { set: "ops" })).end).toMatchObject({ exit: 0 });
  await converge(sim, 60_000);
  return sim;
}
const names = (sim: Sim): readonly string[] => sim.engine.list("Agent", {}).items.map((each) => each.metadata.name);
const ready = (sim: Sim) => state(sim, "Ready", "stacks", "Source");
const remove = (sim: Sim, kind: string, name: string) => settle(sim, sim.engine.delete(ref(kind, name), { dryRun: false, force: false }));
const patch = (sim: Sim, name: string, spec: object, force: boolean) =>
  settle(sim, sim.engine.write({ op: "merge", ref: ref("Agent", name), body: { spec }, manager: "hand", force, dryRun: false }));
const imageOf = (sim: Sim, name: string): unknown => (object(sim, name).spec as { sandbox: { image: string } }).sandbox.image;

test("a revision becomes running agents, and a second look changes nothing", async () => {
  const sim = await begin(files("a", "b"));
  expect([names(sim), ready(sim)?.status, problemsAtRest(sim, "a"), problemsAtRest(sim, "b")]).toEqual([["a", "b"], "True", [], []]);
  const version = sim.engine.get(ref("Agent", "a")).metadata.resourceVersion;
  const rows = sim.audit.rows.length;
  await converge(sim, 300_000);
  expect([sim.engine.get(ref("Agent", "a")).metadata.resourceVersion, sim.audit.rows.length]).toEqual([version, rows]);
  await close(sim);
});

test("an invalid revision changes nothing, whichever of its files is wrong, and the next good one is taken", async () => {
  const sim = await begin(files("a", "b"));
  for (const wrong of [
    "{",
    "kind: Agent",
    text({ ...agent("c"), spec: { model: { provider: "nobody", id: "x" } } }),
    text(agent("a")),
    "${",
  ]) {
    sim.manifests.set(PATH, { ...files("a", "b", "z"), "wrong.yaml": wrong });
    await converge(sim, 60_000);
    expect([wrong, names(sim), ready(sim)?.reason]).toEqual([wrong, ["a", "b"], "InvalidRevision"]);
    expect(ready(sim)?.message).toMatch(/wrong\.yaml:\d+:\d+ .*keeps running$/);
  }
  sim.manifests.set(PATH, files("a", "b", "z"));
  await converge(sim, 60_000);
  expect([names(sim), ready(sim)?.status]).toEqual([["a", "b", "z"], "True"]);
  await close(sim);
});

test("an agent that somebody deletes, and a field that somebody takes, come back; nobody else's hand is forced", async () => {
  const sim = await begin(files("a", "b"));
  await remove(sim, "Agent", "a");
  await expect(patch(sim, "b", { sandbox: { image: "beige-base:2" } }, false)).rejects.toThrow(
    "spec.sandbox.image is owned by source/stacks",
  );
  await patch(sim, "b", { sandbox: { image: "beige-base:2" }, instructions: "mine" }, true);
  expect(imageOf(sim, "b")).toBe("beige-base:2");
  await converge(sim);
  expect([names(sim), imageOf(sim, "b"), problemsAtRest(sim, "a"), problemsAtRest(sim, "b")]).toEqual([["a", "b"], "beige-base:1", [], []]);
  // What the source never had stays with whoever set it.
  expect(object(sim, "b").spec).toMatchObject({ instructions: "mine" });
  const reasons = sim.engine.events({ ref: ref("Source", "stacks") }).map(({ reason }) => reason);
  expect(reasons).toContain("Repaired");
  await close(sim);
});

test("while the folder is broken or gone, the accepted revision is still mended", async () => {
  const sim = await begin(files("a", "b"));
  for (const broken of [{ "a.yaml": "{" }, undefined]) {
    if (broken === undefined) sim.manifests.delete(PATH);
    else sim.manifests.set(PATH, broken);
    await remove(sim, "Agent", "a");
    await patch(sim, "b", { sandbox: { image: "beige-base:2" } }, true);
    await converge(sim);
    expect([names(sim), imageOf(sim, "b"), ready(sim)?.status]).toEqual([["a", "b"], "beige-base:1", "False"]);
  }
  await close(sim);
});

test("a source that only detects says what drifted and leaves it, until it is asked to take it", async () => {
  const sim = await begin(files("a", "b"), { selfHeal: "detect" });
  await patch(sim, "b", { sandbox: { image: "beige-base:2" } }, true);
  await converge(sim, 60_000);
  expect([imageOf(sim, "b"), ready(sim)?.status, state(sim, "Drifted", "stacks", "Source")?.message]).toEqual([
    "beige-base:2",
    "True",
    "agent/b spec.sandbox.image",
  ]);
  const annotate = (token: string) =>
    settle(
      sim,
      sim.engine.write({
        op: "merge",
        ref: ref("Source", "stacks"),
        body: { metadata: { annotations: { "beige.dev/reconcile-at": token } } },
        manager: "hand",
        force: false,
        dryRun: false,
      }),
    );
  await annotate("1");
  await converge(sim, 40_000);
  expect(ready(sim)?.reason).toBe("Conflict");
  await annotate("2 force");
  await converge(sim, 40_000);
  expect([imageOf(sim, "b"), ready(sim)?.status, state(sim, "Drifted", "stacks", "Source")?.status]).toEqual([
    "beige-base:1",
    "True",
    "False",
  ]);
  await close(sim);
});

test("what leaves the folder is deleted, but not more than allowed, and never all of it by accident", async () => {
  const sim = await begin(files("a", "b", "c", "d"));
  sim.manifests.set(PATH, files("a", "b", "c"));
  await converge(sim);
  expect(names(sim)).toEqual(["a", "b", "c"]);
  for (const accident of [files("a"), {}, { "a.yaml": "# nothing" }]) {
    sim.manifests.set(PATH, accident);
    await converge(sim, 60_000);
    expect([names(sim), ready(sim)?.reason]).toEqual([["a", "b", "c"], "PruneRefused"]);
  }
  sim.manifests.set(PATH, files("a"));
  await apply(sim, [source({ maxDeletes: 2 })], { set: "ops" });
  await converge(sim);
  expect([names(sim), ready(sim)?.status]).toEqual([["a"], "True"]);
  sim.manifests.set(PATH, {});
  await apply(sim, [source({ allowEmpty: true })], { set: "ops" });
  await converge(sim);
  expect([names(sim), ready(sim)?.status]).toEqual([[], "True"]);
  await close(sim);
});

test("without prune what leaves the folder stays, and a deleted source gives its objects up", async () => {
  const sim = await begin(files("a", "b"), { prune: false });
  sim.manifests.set(PATH, files("a"));
  await converge(sim);
  expect([names(sim), ready(sim)?.status]).toEqual([["a", "b"], "True"]);
  await remove(sim, "Source", "stacks");
  await converge(sim);
  expect([names(sim), sim.engine.list("Source", {}).items]).toEqual([["a", "b"], []]);
  await patch(sim, "a", { sandbox: { image: "beige-base:2" } }, false);
  expect(imageOf(sim, "a")).toBe("beige-base:2");
  await close(sim);
});

test("a source that is forgotten by force leaves no claim behind and deletes nothing", async () => {
  const sim = await begin(files("a"));
  await settle(sim, sim.engine.delete(ref("Source", "stacks"), { dryRun: false, force: true }));
  await converge(sim);
  expect(names(sim)).toEqual(["a"]);
  await patch(sim, "a", { sandbox: { image: "beige-base:2" } }, false);
  await close(sim);
});

test("two sources do not take from each other, and one that hands an object over leaves it", async () => {
  const sim = await begin(files("a", "b", "c", "d"));
  sim.manifests.set("/other", { "a.yaml": text(agent("a", { sandbox: { image: "beige-base:2" } })) });
  const other = { apiVersion: "beige.dev/v1", kind: "Source", metadata: { name: "other" }, spec: { path: "/other", prune: true } };
  await apply(sim, [other], { set: "other" });
  await converge(sim, 60_000);
  expect(state(sim, "Ready", "other", "Source")?.message).toContain("agent/a spec.sandbox.image is owned by source/stacks");
  sim.manifests.set("/other", files("a"));
  await converge(sim, 60_000);
  sim.manifests.set(PATH, files("b", "c", "d"));
  await converge(sim);
  expect([names(sim), state(sim, "Ready", "other", "Source")?.status, ready(sim)?.status]).toEqual([["a", "b", "c", "d"], "True", "True"]);
  await close(sim);
});

test("changes made while the gateway is down are found, and a crash at any row leaves a whole revision", async () => {
  let sim = await begin(files("a", "b"));
  await crash(sim);
  sim.manifests.set(PATH, files("a", "b", "c"));
  sim = await reopen(sim);
  await converge(sim, 60_000);
  expect(names(sim)).toEqual(["a", "b", "c"]);
  for (let nth = 1; nth <= 12; nth++) {
    const fresh = `n${nth}`;
    let rows = nth;
    sim.audit.onRow = () => {
      rows -= 1;
      if (rows > 0) return;
      void sim.engine.stop();
      throw new Error("killed");
    };
    sim.manifests.set(PATH, files("a", "b", "c", fresh));
    await sim.clock.advance(40_000);
    sim.audit.onRow = () => undefined;
    sim = await restart(sim);
    await converge(sim, 120_000);
    expect([nth, names(sim), ready(sim)?.status, problemsAtRest(sim, fresh)]).toEqual([nth, ["a", "b", "c", fresh], "True", []]);
  }
  await close(sim);
}, 60_000);

test("variables come from the source alone", async () => {
  const wanted = { "a.yaml": text(agent("a", { instructions: "for ${TEAM}" })) };
  const sim = await begin(wanted, { vars: { TEAM: "ops" } });
  expect(object(sim, "a").spec).toMatchObject({ instructions: "for ops" });
  sim.manifests.set(PATH, { "a.yaml": text(agent("a", { instructions: "at ${HOME}" })) });
  await converge(sim, 60_000);
  expect(ready(sim)?.message).toContain("${HOME} is not set");
  await apply(sim, [source({ vars: { HOME: "work" } })], { set: "ops" });
  await converge(sim, 60_000);
  expect(object(sim, "a").spec).toMatchObject({ instructions: "at work" });
  await close(sim);
});

test("a folder that an agent can write is no source, whichever of the two came first", async () => {
  const sim = await createSim({ setUp: (m) => m.manifests.set(PATH, files("a")) });
  sim.host = { ...sim.host, paths: { mounts: ["/"], workspaces: ["/"], plugins: [] } };
  await apply(sim, [provider(), agent("w", { workspace: { path: "/stacks/w" } })], { set: "base" });
  const refused = await apply(sim, [source()], { set: "ops" });
  expect([refused.end.exit, JSON.stringify(refused.events)]).toEqual([2, expect.stringContaining("overlaps")]);
  const late = await begin(files("a"));
  late.host = { ...late.host, paths: { mounts: ["/"], workspaces: ["/"], plugins: [] } };
  const second = await apply(late, [agent("w", { sandbox: { mounts: [{ source: "/stacks/w", target: "/w", readOnly: false }] } })], {
    set: "base2",
  });
  expect([second.end.exit, JSON.stringify(second.events)]).toEqual([2, expect.stringContaining("overlaps /stacks of source/stacks")]);
  await close(late);
  await close(sim);
});

/** What people and accidents do to a Source, its folder and its objects. */
const HANDS: readonly ((sim: Sim, pick: (n: number) => number) => Promise<unknown>)[] = [
  async (sim, pick) => sim.manifests.set(PATH, files(...ALL.filter(() => pick(3) > 0))),
  async (sim, pick) => sim.manifests.set(PATH, { ...sim.manifests.get(PATH), "x.yaml": ["{", "", "kind: Agent", "${"][pick(4)] ?? "" }),
  async (sim) => sim.manifests.set(PATH, {}),
  async (sim) => sim.manifests.delete(PATH),
  async (sim, pick) => remove(sim, "Agent", ALL[pick(ALL.length)] ?? "").catch(() => undefined),
  async (sim, pick) => patch(sim, ALL[pick(ALL.length)] ?? "", { sandbox: { image: "beige-base:2" } }, true).catch(() => undefined),
  async (sim, pick) => apply(sim, [source({ suspend: pick(2) === 0 })], { set: "ops", wait: false }),
  async (sim, pick) => sim.clock.advance(pick(50_000)),
];
const ALL = ["a", "b", "c", "d", "e", "f"];

test.each(Array.from({ length: 12 }, (_, i) => i + 1))(
  "whatever happened (history %i), the folder is what runs once it is whole again",
  async (seed) => {
    const random = seededRandom(seed * 7919);
    const pick = (n: number): number => Math.floor(random.float() * n);
    let sim = await begin(files(...ALL));
    for (let i = 0; i < 14; i++) {
      await HANDS[pick(HANDS.length)]?.(sim, pick);
      if (pick(4) === 0) sim = await restart(sim);
      else await sim.clock.advance(pick(3) * 11_000);
    }
    sim.manifests.set(PATH, files("a", "c", "z"));
    await apply(sim, [source({ maxDeletes: 100 })], { set: "ops", wait: false });
    await converge(sim);
    expect([names(sim), ready(sim)?.status, ready(sim)?.message]).toEqual([["a", "c", "z"], "True", ""]);
    for (const name of ["a", "c", "z"]) expect([imageOf(sim, name), problemsAtRest(sim, name)]).toEqual(["beige-base:1", []]);
    await close(sim);
  },
);

test("a field of an older beige in the folder does not stop its revisions, as long as it stays", async () => {
  const sim = await begin(files("a"));
  const stored = object(sim, "a");
  sim.store.objects.write([{ type: "put", object: { ...stored, spec: { ...(stored.spec as object), mood: "fine" } } }], "full");
  sim.manifests.set(PATH, { "a.yaml": text(agent("a", { mood: "fine", sandbox: { image: "beige-base:2" } })) });
  await converge(sim);
  expect([imageOf(sim, "a"), ready(sim)?.status]).toEqual(["beige-base:2", "True"]);
  sim.manifests.set(PATH, { "a.yaml": text(agent("a", { mood: "bad", sandbox: { image: "beige-base:1" } })) });
  await converge(sim);
  expect([imageOf(sim, "a"), ready(sim)?.status]).toEqual(["beige-base:2", "False"]);
  await close(sim);
});
