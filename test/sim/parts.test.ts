// Plugins and providers: the failure of one is its own, and whoever needs it says so.
import { afterEach, expect, test } from "vitest";
import {
  agent,
  apply,
  close,
  converge,
  createSim,
  object,
  plugin,
  problemsAtRest,
  provider,
  ref,
  restart,
  serving,
  state,
  uidOf,
  type Sim,
} from "./rig.ts";

let sim: Sim;
afterEach(async () => close(sim));

const ready = (kind: string, name: string) => state(sim, "Ready", name, kind);
const keyed = (apiKey: object, more: object = {}) => ({
  apiVersion: "beige.dev/v1",
  kind: "Provider",
  metadata: { name: "openai" },
  spec: { api: "openai-completions", apiKey, ...more },
});

test("a plugin that fails leaves others Ready; the agents that need it say why", async () => {
  sim = await createSim();
  sim.packages.set("bad", {
    manifest: { name: "bad", description: "Bad.", provides: { tools: ["bad"] } },
    codeHash: "1",
    failure: "it threw",
  });
  const { end } = await apply(sim, [
    provider(),
    plugin(),
    plugin("bad"),
    agent("one", { tools: ["memory"] }),
    agent("two", { tools: ["bad"] }),
  ]);
  expect(end.exit).toBe(7);
  expect(ready("Plugin", "bad")).toMatchObject({ status: "False", reason: "PluginFailed", message: "it threw" });
  expect(ready("Plugin", "memory")?.status).toBe("True");
  expect(problemsAtRest(sim, "one")).toEqual([]);
  expect(ready("Agent", "two")).toMatchObject({ status: "False", reason: "PluginNotReady", message: "plugin bad: it threw" });
  expect(serving(sim, "two")?.state).toBe("running");
});

test("a failed plugin is tried again after five minutes, and at once when its code changes", async () => {
  sim = await createSim();
  const bad = { manifest: { name: "memory", description: "Bad.", provides: { tools: ["memory"] } }, codeHash: "1", failure: "it threw" };
  sim.packages.set("memory", bad);
  await apply(sim, [provider(), plugin(), agent("travel", { tools: ["memory"] })]);
  const loads = () => sim.faults.asked.filter((name) => name === "load memory").length;
  expect(loads()).toBe(1);
  await converge(sim, 240_000);
  expect(loads()).toBe(1);
  await converge(sim, 80_000);
  expect(loads()).toBe(2);
  sim.packages.set("memory", { ...bad, codeHash: "2", failure: "still" });
  await converge(sim, 80_000);
  expect(loads()).toBe(3);
  const { failure: _failure, ...good } = bad;
  sim.packages.set("memory", { ...good, codeHash: "3" });
  await converge(sim, 80_000);
  expect(problemsAtRest(sim)).toEqual([]);
});

test("a changed configuration loads the plugin again, once", async () => {
  sim = await createSim();
  await apply(sim, [plugin()]);
  const before = sim.plugins.seen("memory")?.fingerprint;
  await apply(sim, [plugin("memory", { config: { size: 1 } })]);
  expect(sim.plugins.seen("memory")?.fingerprint).not.toBe(before);
  expect(sim.faults.asked).toEqual(["load memory", "load memory"]);
});

test("a plugin that is not there and one without its secret say which, and load when it comes", async () => {
  sim = await createSim();
  await apply(sim, [plugin("nowhere"), plugin("memory", { secrets: { token: { secret: "hub" } } })]);
  expect(ready("Plugin", "nowhere")).toMatchObject({ reason: "PluginMissing" });
  expect(ready("Plugin", "memory")).toMatchObject({
    reason: "SecretMissing",
    message: expect.stringContaining("secret 'token'") as string,
  });
  expect(sim.plugins.names()).toEqual([]);
  sim.secrets.known.add("hub");
  await converge(sim, 60_000);
  expect(ready("Plugin", "memory")?.status).toBe("True");
});

test("a deleted plugin is unloaded, and the agents that need it are not Ready", async () => {
  sim = await createSim();
  await apply(sim, [provider(), plugin(), agent("travel", { tools: ["memory"] })]);
  await sim.engine.delete(ref("Plugin", "memory"), { dryRun: false, force: false });
  await converge(sim, 80_000);
  expect(sim.plugins.names()).toEqual([]);
  expect(ready("Agent", "travel")).toMatchObject({ status: "False", reason: "ToolUnknown" });
  expect([...sim.kits.kits.values()][0]?.tools).toEqual([]);
});

test("a plugin whose manifest is gone by force is unloaded as an orphan", async () => {
  sim = await createSim();
  await apply(sim, [plugin()]);
  sim.faults.set({ nth: 1, when: "before" });
  await sim.engine.delete(ref("Plugin", "memory"), { dryRun: false, force: true });
  await converge(sim, 100_000);
  expect(sim.plugins.names()).toEqual([]);
});

test("launchers follow the list of tools while the container runs on", async () => {
  sim = await createSim();
  await apply(sim, [provider(), plugin(), agent()]);
  const old = serving(sim)?.id;
  const { plans } = await apply(sim, [provider(), plugin(), agent("travel", { tools: ["memory"] })]);
  expect(plans.find((plan) => plan.ref.name === "travel")).toMatchObject({ verb: "update", actions: ["write launchers: memory"] });
  expect([...sim.kits.kits.values()][0]).toMatchObject({
    tools: ["memory"],
    packages: [{ name: "memory", root: "/plugins/memory", files: ["README.md", "SKILL.md"] }],
  });
  expect(serving(sim)?.id).toBe(old);
});

test("a provider without its key says which secret, and is Ready when the key comes", async () => {
  sim = await createSim();
  await apply(sim, [keyed({ secret: "openai" })], { wait: false });
  await converge(sim, 20_000);
  expect(ready("Provider", "openai")).toMatchObject({
    status: "False",
    reason: "SecretMissing",
    message: expect.stringContaining("beige secret set openai") as string,
  });
  expect(object(sim, "openai", "Provider").status?.observed).toMatchObject({
    keyFrom: "secret openai",
    baseUrl: "https://api.openai.com/v1",
  });
  sim.secrets.known.add("openai");
  await converge(sim, 60_000);
  expect(ready("Provider", "openai")?.status).toBe("True");
  expect(JSON.stringify([object(sim, "openai", "Provider"), sim.engine.events({}), sim.audit.rows])).not.toContain("a-secret-value");
});

test("a failed object counts as failed only, and an unchanged apply looks again at what was not Ready", async () => {
  sim = await createSim();
  const objects = [provider(), keyed({ secret: "openai" })];
  expect((await apply(sim, objects)).end).toMatchObject({ exit: 7, applied: 1, failed: 1, unchanged: 0 });
  sim.secrets.known.add("openai");
  expect((await apply(sim, objects)).end).toMatchObject({ exit: 0, applied: 0, failed: 0, unchanged: 2 });
  expect(ready("Provider", "openai")?.status).toBe("True");
});

test("a cooling model is shown as Degraded until it has cooled down", async () => {
  sim = await createSim();
  await apply(sim, [provider()]);
  const coolingUntil = sim.clock.now() + 50_000;
  sim.providers.health.set("echo", {
    slots: { used: 1, waiting: 2, limit: -1 },
    models: [{ id: "echo", failures: 3, coolingUntil, lastError: "429" }],
  });
  sim.engine.wake(ref("Provider", "echo"));
  await sim.clock.advance(1000);
  expect(state(sim, "Degraded", "echo", "Provider")).toMatchObject({ status: "True", reason: "ModelCooling" });
  expect(object(sim, "echo", "Provider").status?.observed).toMatchObject({
    slots: { used: 1, waiting: 2, limit: -1 },
    models: [{ id: "echo", state: "cooling" }],
  });
  await converge(sim, 80_000);
  expect(state(sim, "Degraded", "echo", "Provider")?.status).toBe("False");
  await sim.engine.delete(ref("Provider", "echo"), { dryRun: false, force: false });
  await converge(sim, 20_000);
  expect(sim.providers.health.has("echo")).toBe(false);
});

test("an agent whose provider is missing has its sandbox, waits, and is Ready when it comes", async () => {
  sim = await createSim();
  await sim.engine.write({ op: "create", ref: ref("Agent", "travel"), body: agent(), manager: "test", force: false, dryRun: false });
  await converge(sim, 20_000);
  expect(state(sim, "Ready")).toMatchObject({ status: "False", reason: "ProviderMissing", message: "provider echo does not exist" });
  await apply(sim, [provider()]);
  await converge(sim, 20_000);
  expect(problemsAtRest(sim)).toEqual([]);
});

test("an engine that dies makes agents Unknown, not gone, and all recovers by itself", async () => {
  sim = await createSim();
  await apply(sim, [provider(), agent()]);
  const old = serving(sim)?.id;
  sim.docker.setDown(true);
  await converge(sim, 60_000);
  expect(state(sim, "Ready")).toMatchObject({ status: "Unknown", reason: "EngineUnreachable" });
  sim.docker.setDown(false);
  await converge(sim, 60_000);
  expect(serving(sim)?.id).toBe(old);
  expect(problemsAtRest(sim)).toEqual([]);
});

test("an agent of the same name takes over the workspace that was kept, as its own user", async () => {
  sim = await createSim();
  await apply(sim, [provider(), agent()]);
  const folder = `${sim.home}/agents/default.travel/workspace`;
  await sim.engine.delete(ref("Agent", "travel"), { dryRun: false, force: false });
  await converge(sim, 20_000);
  await apply(sim, [provider(), agent()]);
  expect(sim.folders.folders.get(folder)).toEqual({ uid: 20_001, gid: 20_001 });
  expect(serving(sim)?.spec.user).toEqual({ uid: 20_001, gid: 20_001 });
  expect(problemsAtRest(sim)).toEqual([]);
});

const away = { workspace: { path: "/homes/travel" } };
const allowed = { secrets: [], paths: { mounts: ["/data"], workspaces: ["/homes"], plugins: [] } };

test("a folder of root is refused as a workspace, with the command that mends it", async () => {
  sim = await createSim({ setUp: (m) => void Object.assign(m, { host: allowed }) });
  sim.folders.folders.set("/homes/travel", { uid: 0, gid: 0 });
  const { end } = await apply(sim, [provider(), agent("travel", away)]);
  expect(end.exit).not.toBe(0);
  expect(state(sim, "Ready")).toMatchObject({
    status: "False",
    message: expect.stringContaining("chown -R 20000:20000 /homes/travel") as string,
  });
  expect(sim.docker.boxes.size).toBe(0);
});

test("a workspace that leads into another agent's by a link refuses the apply, and nothing is stored", async () => {
  sim = await createSim({ setUp: (m) => void Object.assign(m, { host: allowed }) });
  const other = agent("other", { workspace: { path: "/homes/other" } });
  await apply(sim, [provider(), other]);
  sim.folders.links.set("/homes/travel", "/homes/other");
  const version = sim.engine.version();
  const { end, events } = await apply(sim, [provider(), other, agent("travel", away)]);
  expect(end.exit).toBe(2);
  const problems = events.flatMap((event) => (event.type === "problems" ? event.problems : []));
  expect(problems.at(-1)).toMatchObject({ object: "Agent/travel", path: "/spec/workspace/path", at: { document: 3 } });
  expect(problems.at(-1)?.message).toMatch(/overlaps/);
  expect(sim.engine.version()).toBe(version);
  expect(sim.docker.boxes.size).toBe(1);
  expect(problemsAtRest(sim, "other")).toEqual([]);
});

test("an agent whose folder became a link while it waited gets no container", async () => {
  sim = await createSim({ setUp: (m) => void Object.assign(m, { host: allowed }) });
  await apply(sim, [
    provider(),
    agent("other", { workspace: { path: "/homes/other" } }),
    agent("travel", { ...away, sandbox: { image: "absent:1" } }),
  ]);
  sim.folders.links.set("/homes/travel", "/homes/other");
  sim.docker.images.set("absent:1", "sha256:absent");
  await converge(sim, 80_000);
  expect(state(sim, "Ready")).toMatchObject({
    status: "False",
    reason: "PathRefused",
    message: expect.stringContaining("overlaps") as string,
  });
  expect(sim.docker.of(uidOf(sim))).toEqual([]);
  expect(problemsAtRest(sim, "other")).toEqual([]);
});

test("a plugin's code where an agent writes refuses the apply, by a link as well, and one that came to lie there is unloaded", async () => {
  const host = { ...allowed, paths: { ...allowed.paths, plugins: ["/"] } };
  sim = await createSim({ setUp: (m) => void Object.assign(m, { host }) });
  const other = agent("other", { workspace: { path: "/homes/other" } });
  const mine = (path: string): object => plugin("mine", { source: { path } });
  await apply(sim, [provider(), other]);
  expect((await apply(sim, [mine("/homes/other/code")])).end.exit).toBe(2);
  expect((await apply(sim, [mine("/homes")])).end.exit).toBe(2);
  sim.packages.set("/code/mine", { manifest: { name: "mine", description: "Mine.", provides: {} }, codeHash: "code" });
  expect((await apply(sim, [mine("/code/mine")])).end.exit).toBe(0);
  expect(sim.plugins.names()).toEqual(["mine"]);
  sim.folders.links.set("/homes/other", "/code");
  await converge(sim, 80_000);
  expect(sim.plugins.names()).toEqual([]);
  expect(state(sim, "Ready", "mine", "Plugin")).toMatchObject({ reason: "PathRefused" });
});

test("a link that is swapped between the check and the act refuses the container", async () => {
  sim = await createSim({ setUp: (m) => void Object.assign(m, { host: allowed }) });
  const effect = sim.faults.onEffect;
  sim.faults.onEffect = (name) => {
    effect(name);
    if (name === "folder /homes/travel") sim.folders.links.set("/homes/travel", "/etc");
  };
  await apply(sim, [provider(), agent("travel", away)]);
  await converge(sim, 80_000);
  expect(sim.docker.boxes.size).toBe(0);
  expect(state(sim, "Ready")).toMatchObject({ status: "False", reason: "PathRefused" });
});

test("a mount whose folder is missing waits for it and says so", async () => {
  sim = await createSim({ setUp: (m) => void Object.assign(m, { host: allowed }) });
  await apply(sim, [provider(), agent("travel", { sandbox: { mounts: [{ source: "/data/in", target: "/data" }] } })]);
  expect(state(sim, "Ready")).toMatchObject({ reason: "MountMissing", message: "mount source /data/in does not exist" });
  sim.folders.folders.set("/data/in", { uid: 0, gid: 0 });
  await converge(sim, 80_000);
  expect(serving(sim)?.spec.mounts).toContainEqual({ source: "/data/in", target: "/data", readOnly: true });
  expect(problemsAtRest(sim)).toEqual([]);
});

test("an explicit workspace is deleted only when the manifest says so, and never while another agent lives in it", async () => {
  sim = await createSim({ setUp: (m) => void Object.assign(m, { host: allowed }) });
  const shared = (name: string) => agent(name, { workspace: { path: "/homes/common", shared: true, onDelete: "delete" } });
  sim.folders.folders.set("/homes/common", { uid: 20_000, gid: 20_000 });
  await apply(sim, [provider(), shared("travel"), shared("other")]);
  expect([problemsAtRest(sim), problemsAtRest(sim, "other")]).toEqual([[], []]);
  await sim.engine.delete(ref("Agent", "travel"), { dryRun: false, force: false });
  await converge(sim, 40_000);
  expect(sim.folders.folders.has("/homes/common")).toBe(true);
  await sim.engine.delete(ref("Agent", "other"), { dryRun: false, force: false });
  await converge(sim, 40_000);
  expect(sim.folders.folders.has("/homes/common")).toBe(false);
});

test("deleting an agent never follows a link that stands where its workspace was", async () => {
  sim = await createSim();
  await apply(sim, [provider(), agent("travel", { workspace: { onDelete: "delete" } })]);
  sim.folders.folders.set("/precious", { uid: 0, gid: 0 });
  sim.folders.links.set(`${sim.home}/agents/default.travel/workspace`, "/precious");
  await sim.engine.delete(ref("Agent", "travel"), { dryRun: false, force: false });
  await converge(sim, 40_000);
  expect(sim.engine.list("Agent", {}).items).toEqual([]);
  expect(sim.folders.folders.has("/precious")).toBe(true);
});

test("a workspace that was removed by hand comes back, and the container is bound to it anew", async () => {
  sim = await createSim();
  await apply(sim, [provider(), agent()]);
  const old = serving(sim)?.id;
  const folder = `${sim.home}/agents/default.travel/workspace`;
  sim.folders.folders.delete(folder);
  await converge(sim, 80_000);
  expect(sim.folders.folders.has(folder)).toBe(true);
  expect(serving(sim)?.id).toBe(old);
  expect(sim.faults.asked.slice(-2)).toEqual(["stop beige-travel", "start beige-travel"]);
  expect(problemsAtRest(sim)).toEqual([]);
});

test("launchers that were removed by hand come back", async () => {
  sim = await createSim();
  await apply(sim, [provider(), plugin(), agent("travel", { tools: ["memory"] })]);
  sim.kits.kits.clear();
  await converge(sim, 80_000);
  expect([...sim.kits.kits.values()]).toMatchObject([{ tools: ["memory"] }]);
  sim = await restart(sim);
  expect(problemsAtRest(sim)).toEqual([]);
});

test.each([
  ["a misspelt tool", ["memroy"], 'did you mean "memory"?'],
  ["a tool of no plugin", ["zzzz"], "known tools: memory"],
  ["a tool that its plugin does not have", ["memory/zzzz"], "known tools: memory"],
  ["the second of two tools", ["memory", "recall"], "known tools: memory"],
])("%s is refused also when its plugin comes in the same set, and nothing is changed (P05)", async (_name, tools, hint) => {
  sim = await createSim();
  const { end, events } = await apply(sim, [provider(), plugin(), agent("travel", { tools })]);
  expect(end.exit).toBe(2);
  expect(events.find((event) => event.type === "problems")?.problems).toMatchObject([
    { object: "Agent/travel", path: `/spec/tools/${tools.length - 1}`, hint, at: { file: "stack.yaml" } },
  ]);
  expect(["Agent", "Plugin"].map((kind) => sim.engine.list(kind, {}).items)).toEqual([[], []]);
  expect(sim.faults.asked).toEqual([]);
});

test("a tool of a plugin whose folder is not there yet waits for it, and comes with it", async () => {
  sim = await createSim();
  const found = sim.packages.get("memory");
  sim.packages.delete("memory");
  const { end } = await apply(sim, [provider(), plugin(), agent("travel", { tools: ["memory"] })]);
  expect(end.exit).toBe(7);
  expect(ready("Agent", "travel")).toMatchObject({ status: "False", reason: "PluginNotReady" });
  if (found !== undefined) sim.packages.set("memory", found);
  await converge(sim, 80_000);
  expect(problemsAtRest(sim)).toEqual([]);
  expect([...sim.kits.kits.values()][0]?.tools).toEqual(["memory"]);
});
