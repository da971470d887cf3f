// Images with packages on the fake world: who builds, who waits, what a failure means to all, and what a crash at any step leaves.
import { afterEach, expect, test } from "vitest";
import { derivedRef, isDerived } from "../../src/core/packages.ts";
import { agent, apply, close, converge, createSim, dieAtRow, problemsAtRest, provider, reopen, serving, state, type Sim } from "./rig.ts";

let sim: Sim;
afterEach(async () => close(sim));

const of = (packages: readonly string[], base = "sha256:base1"): string => derivedRef({ base, packages });
const wants = (packages: readonly string[], name = "travel", more: object = {}) => agent(name, { sandbox: { packages, ...more } });
const built = (): readonly string[] => [...sim.docker.images.keys()].filter(isDerived);

/** Ends builds as they come, until nothing is on its way. */
async function buildAll(): Promise<void> {
  for (let i = 0; i < 20; i++) {
    await converge(sim, 1500);
    const running = [...sim.docker.boxes.values()].some((box) => box.spec.name.startsWith("beige-build-") && box.state === "running");
    if (running) sim.docker.builds.end();
  }
}

test("an agent waits for its image, whose build is said in its condition, and then runs from it", async () => {
  sim = await createSim();
  await apply(sim, [provider(), wants(["jq", "curl=8.*", "jq"].slice(0, 2))], { wait: false });
  await converge(sim, 1500);
  expect(state(sim, "Ready")).toMatchObject({
    status: "False",
    reason: "ImageBuilding",
    message: expect.stringContaining("apt-get installs"),
  });
  expect(sim.docker.builds.begun).toMatchObject([{ ref: of(["curl=8.*", "jq"]), base: "sha256:base1", network: "default" }]);
  await buildAll();
  expect(serving(sim)).toMatchObject({ state: "running", spec: { image: of(["curl=8.*", "jq"]) } });
  expect(state(sim, "Ready")).toMatchObject({ status: "True" });
  expect(problemsAtRest(sim)).toEqual([]);
});

test("the order of the list is nothing, another list is a replacement, and the plan says so before", async () => {
  sim = await createSim();
  await apply(sim, [provider(), wants(["jq"])], { wait: false });
  await buildAll();
  const old = serving(sim)?.id;
  const { plans } = await apply(sim, [provider(), wants(["tree", "jq"])], { dryRun: true });
  expect(plans.find((plan) => plan.ref.name === "travel")).toMatchObject({ verb: "replace", forces: "sandbox.packages" });
  await apply(sim, [provider(), wants(["tree", "jq"])], { wait: false });
  await converge(sim, 1500);
  expect(serving(sim)).toMatchObject({ id: old, state: "running" });
  expect(state(sim, "Degraded")?.status).not.toBe("True");
  await buildAll();
  const now = serving(sim)?.id;
  expect(now).not.toBe(old);
  expect(built()).toEqual([of(["jq", "tree"])]);
  await apply(sim, [provider(), wants(["jq", "tree"])]);
  expect(serving(sim)?.id).toBe(now);
  expect(problemsAtRest(sim)).toEqual([]);
});

test("a failed build is told to all who want it, is tried again after pauses that grow, and at once for another list", async () => {
  sim = await createSim();
  await apply(sim, [provider(), wants(["nosuch"]), wants(["nosuch"], "other")], { wait: false });
  await converge(sim, 1500);
  sim.docker.builds.end("E: Unable to locate package nosuch");
  await converge(sim, 20_000);
  for (const name of ["travel", "other"])
    expect(state(sim, "Ready", name)).toMatchObject({ reason: "ImageBuildFailed", message: expect.stringContaining("package nosuch") });
  expect(sim.docker.builds.begun).toHaveLength(1);
  expect(sim.docker.boxes.size).toBe(0);
  await converge(sim, 45_000);
  expect(sim.docker.builds.begun).toHaveLength(2);
  sim.docker.builds.end("E: Unable to locate package nosuch");
  await converge(sim, 100_000);
  expect(sim.docker.builds.begun).toHaveLength(2);
  await apply(sim, [provider(), wants(["jq"]), wants(["jq"], "other")], { wait: false });
  await buildAll();
  expect(sim.docker.builds.begun).toHaveLength(3);
  expect(state(sim, "Ready")).toMatchObject({ status: "True" });
  expect(problemsAtRest(sim)).toEqual([]);
});

test("a build that does not end is ended after its time", async () => {
  sim = await createSim();
  await apply(sim, [provider(), wants(["jq"])], { wait: false });
  await converge(sim, 1500);
  await converge(sim, 15 * 60_000 + 5000);
  expect(state(sim, "Ready")).toMatchObject({ reason: "ImageBuildFailed", message: expect.stringContaining("longer than 900 s") });
  expect(sim.docker.boxes.size).toBe(0);
});

test("different images are built one after the other", async () => {
  sim = await createSim();
  await apply(sim, [provider(), wants(["jq"]), wants(["tree"], "other")], { wait: false });
  await converge(sim, 3000);
  expect(sim.docker.builds.begun).toHaveLength(1);
  const messages = ["travel", "other"].map((name) => state(sim, "Ready", name)?.message ?? "");
  expect(messages.some((message) => message.includes("waits for the build of"))).toBe(true);
  await buildAll();
  expect(built()).toHaveLength(2);
});

test("a base that moved under its tag is image drift; one that is gone leaves what runs alone", async () => {
  sim = await createSim();
  await apply(sim, [provider(), wants(["jq"])], { wait: false });
  await buildAll();
  sim.docker.images.delete("beige-base:1");
  await converge(sim, 80_000);
  expect(problemsAtRest(sim)).toEqual([]);
  sim.docker.images.set("beige-base:1", "sha256:rebuilt");
  const { plans } = await apply(sim, [provider(), wants(["jq"])], { dryRun: true });
  expect(plans.find((plan) => plan.ref.name === "travel")).toMatchObject({
    verb: "replace",
    why: ["image"],
    drift: [{ path: "sandbox.image", before: "beige-base:1 (base1)", after: "beige-base:1 (rebuilt)" }],
  });
  await buildAll();
  expect(serving(sim)?.spec.image).toBe(of(["jq"], "sha256:rebuilt"));
  expect(built()).toEqual([of(["jq"], "sha256:rebuilt")]);
});

test("a lazy agent's image is there before the first call", async () => {
  sim = await createSim();
  await apply(sim, [provider(), wants(["jq"], "travel", { start: "lazy" })], { wait: false });
  await buildAll();
  expect(built()).toEqual([of(["jq"])]);
  expect(sim.docker.boxes.size).toBe(0);
  expect(state(sim, "Ready")).toMatchObject({ status: "True", reason: "Lazy" });
});

test("bubblewrap has no image for packages", async () => {
  sim = await createSim();
  const { end, events } = await apply(sim, [provider(), wants(["jq"], "travel", { backend: "bwrap", image: "host" })]);
  expect(end.exit).toBe(2);
  expect(JSON.stringify(events)).toContain("no image that packages could be put into");
});

test("a gateway that dies at any moment of a build and of the replacement after it leaves one sandbox, one image and no build", async () => {
  for (let nth = 1; ; nth++) {
    sim = await createSim();
    await apply(sim, [provider(), wants(["jq"])], { wait: false });
    await buildAll();
    const died = await dieAtRow(sim, nth, async () => {
      await apply(sim, [provider(), wants(["tree"])], { wait: false });
      for (let i = 0; i < 10; i++) {
        await sim.clock.advance(2000);
        if ([...sim.docker.boxes.values()].some(({ spec, state: now }) => spec.name.startsWith("beige-build-") && now === "running"))
          sim.docker.builds.end();
      }
    });
    sim = await reopen(sim);
    await apply(sim, [provider(), wants(["tree"])], { wait: false });
    await buildAll();
    expect(problemsAtRest(sim), `row ${nth}`).toEqual([]);
    expect(serving(sim)?.spec.image, `row ${nth}`).toBe(of(["tree"]));
    expect(sim.docker.images.has(of(["tree"]))).toBe(true);
    expect(sim.docker.boxes.size, `row ${nth}`).toBe(1);
    if (!died) return;
    await close(sim);
  }
}, 60_000);
