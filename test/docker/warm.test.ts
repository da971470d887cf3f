// The warm pool on the real engine: who claims what, what a crash at any step leaves, and that folders, launchers and names hold.
import { execFileSync } from "node:child_process";
import { existsSync, lstatSync, readdirSync, readFileSync, realpathSync, renameSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { afterEach, expect, test } from "vitest";
import { makeGateway, pause, until, type Gateway } from "../gateway.ts";

const PROVIDER = `
apiVersion: beige.dev/v1
kind: Provider
metadata: {name: scripted}
spec: {api: echo}
`;
const agent = (name: string, more = "", sandbox = ""): string => `
---
apiVersion: beige.dev/v1
kind: Agent
metadata: {name: ${name}}
spec:
  model: {provider: scripted, id: echo-1}
  sandbox: {image: "beige-tiny:1", resources: {memory: 64Mi, cpus: 500m, pids: 64}${sandbox}}
${more}`;

const WARM = (count: number, more = ""): string => `warm: [{image: "beige-tiny:1", count: ${count}${more}}]\n`;

let gateway: Gateway;
afterEach(async () => gateway.clean());

const policy = (text: string): void => writeFileSync(join(gateway.home, "host.yaml"), text, { mode: 0o600 });
const health = async (): Promise<{ levels: readonly { ready: number; wanted: number; problem?: string }[]; waiting: readonly string[] }> =>
  (await gateway.request("GET", "/api/health")).body.warm;
const filled = async (count: number): Promise<readonly string[]> =>
  until(async () => ((await health()).waiting.length === count ? (await health()).waiting : undefined), 40_000, `${count} wait`);
const exec = async (name: string, command: string): Promise<string> => {
  const { body } = await gateway.request("POST", `/api/agents/${name}/exec`, { command });
  if (body.exitCode !== 0) throw new Error(JSON.stringify(body));
  return String(body.content[0].text).trim();
};
/** Without what belongs to other tests on this engine. */
const orphans = async (): Promise<readonly { what: string; name: string; why: string }[]> => {
  const { items } = JSON.parse((await gateway.beige("orphans", "-o", "json")).out) as {
    items: readonly { what: string; name: string; why: string }[];
  };
  return items.filter(({ what, why }) => what !== "image" && !why.startsWith("of another gateway"));
};
const inspect = (id: string) => JSON.parse(execFileSync("docker", ["inspect", id], { encoding: "utf8" }))[0];
const containerOf = async (name: string): Promise<string> =>
  (await gateway.request("GET", `/apis/beige.dev/v1/namespaces/default/agents/${name}`)).body.status.observed.container;
const usual = (name: string): string => join(gateway.home, "agents", `default.${name}`, "workspace");

async function start(text: string): Promise<void> {
  gateway = makeGateway();
  await gateway.start();
  policy(text);
}

test("a new agent takes a waiting sandbox, with its own limits, launchers, name and workspace, and another waits again soon", async () => {
  await start(WARM(1));
  const [waiting = ""] = await filled(1);
  expect(inspect(waiting).Config.Env.join()).not.toContain("BEIGE_AGENT");
  await gateway.apply(PROVIDER + agent("worker"));
  const container = await containerOf("worker");
  expect(waiting.startsWith(container)).toBe(true);
  expect(await exec("worker", "echo $BEIGE_AGENT; touch here; id -u")).toMatch(/^worker\n\d+$/);
  const seen = inspect(waiting);
  expect(seen.Name).toMatch(/^\/beige-worker-/);
  expect(seen.HostConfig).toMatchObject({ Memory: 64 << 20, MemorySwap: 64 << 20, NanoCpus: 5e8, PidsLimit: 64 });
  expect(lstatSync(usual("worker")).isSymbolicLink()).toBe(true);
  expect(existsSync(join(usual("worker"), "here"))).toBe(true);
  const [next] = await filled(1);
  expect(next).not.toBe(waiting);
  // The same again is no change, and describe hides nothing.
  await gateway.apply(PROVIDER + agent("worker"));
  expect(await containerOf("worker")).toBe(container);
  expect(gateway.containers()).toHaveLength(2);
});

test("a claimed sandbox keeps its folders over restarts of the container and of the gateway, stopped or killed", async () => {
  await start(WARM(1));
  const [waiting = ""] = await filled(1);
  await gateway.apply(PROVIDER + agent("worker"));
  await exec("worker", "echo kept > file");
  const container = await containerOf("worker");
  execFileSync("docker", ["restart", "-t", "1", container]);
  await until(() => exec("worker", "cat file").catch(() => ""), 20_000, "it answers after a restart of the container");
  await gateway.stop();
  await gateway.start();
  expect(await exec("worker", "cat file")).toBe("kept");
  await gateway.kill();
  execFileSync("docker", ["kill", container]);
  await gateway.start();
  await until(() => exec("worker", "cat file").catch(() => ""), 20_000, "it answers after both were killed");
  expect(await containerOf("worker")).toBe(waiting.slice(0, 12));
  // A change that needs another container makes one in the same place.
  await gateway.apply(PROVIDER + agent("worker", "", ", env: {A: b}"));
  expect(await containerOf("worker")).not.toBe(container);
  expect(await exec("worker", "cat file; echo $A $BEIGE_AGENT")).toBe("kept\nb worker");
  await until(() => !gateway.containers().some((id) => id.startsWith(container)), 10_000, "the old one is gone");
});

test("what waits is taken over by the next gateway; a changed host.yaml changes it; without an entry nothing is left", async () => {
  await start(WARM(2));
  const before = [...(await filled(2))].toSorted();
  await gateway.kill();
  await gateway.start();
  expect([...(await filled(2))].toSorted()).toStrictEqual(before);
  policy(WARM(1, ", env: {A: b}"));
  await until(
    async () => (await health()).waiting.length === 1 && !before.includes((await health()).waiting[0] ?? ""),
    40_000,
    "another shape",
  );
  await until(() => gateway.containers().length === 1, 10_000, "the others are gone");
  policy("");
  await until(() => gateway.containers().length === 0, 20_000, "all are gone");
  await until(() => readdirSync(join(gateway.home, "warm")).length === 0, 5000, "no folder is left");
  expect(readdirSync(join(gateway.home, "run"))).toStrictEqual([]);
});

test("a kept workspace moves to the agent's own folder when the agent goes, and the next agent of the name gets it; onDelete: delete removes it", async () => {
  await start(WARM(1));
  await filled(1);
  await gateway.apply(PROVIDER + agent("worker"));
  await exec("worker", "echo kept > file");
  await gateway.beige("delete", "agent", "worker", "-y");
  await until(() => lstatSync(usual("worker"), { throwIfNoEntry: false })?.isDirectory() === true, 10_000, "it is a folder");
  expect(readFileSync(join(usual("worker"), "file"), "utf8")).toBe("kept\n");
  const [waiting = ""] = await filled(1);
  await gateway.apply(PROVIDER + agent("worker"));
  expect(waiting.startsWith(await containerOf("worker"))).toBe(false);
  expect(await exec("worker", "cat file")).toBe("kept");
  await gateway.apply(PROVIDER + agent("worker") + agent("brief", "  workspace: {onDelete: delete}\n"));
  expect(waiting.startsWith(await containerOf("brief"))).toBe(true);
  const real = realpathSync(usual("brief"));
  await gateway.beige("delete", "agent", "brief", "-y");
  await until(() => !existsSync(real) && !gateway.containers().includes(waiting), 10_000, "workspace and container are gone");
  expect(lstatSync(usual("brief"), { throwIfNoEntry: false })).toBeUndefined();
});

test("agents with a workspace, an image, a shape or a name of their own start cold, and two at once never get one", async () => {
  await start(WARM(1));
  const [waiting = ""] = await filled(1);
  await gateway.apply(PROVIDER + agent("shaped", "", ", profile: packages") + agent("other", "", ", env: {A: b}"));
  expect((await health()).waiting).toStrictEqual([waiting]);
  await gateway.apply(PROVIDER + [1, 2, 3].map((n) => agent(`a${n}`)).join(""));
  const names = await Promise.all([1, 2, 3].map((n) => containerOf(`a${n}`)));
  expect(new Set(names).size).toBe(3);
  expect(names.filter((name) => waiting.startsWith(name))).toHaveLength(1);
  for (const n of [1, 2, 3]) expect(await exec(`a${n}`, "echo $BEIGE_AGENT")).toBe(`a${n}`);
});

test("a gateway killed at any moment of a claim leaves a waiting sandbox or the agent's, never both and nothing beside", async () => {
  await start(WARM(1));
  for (const [n, ms] of [1, 4, 8, 12, 18, 26, 40].entries()) {
    await filled(1);
    const name = `k${n}`;
    const applied = gateway.apply(PROVIDER + Array.from({ length: n + 1 }, (_, i) => agent(`k${i}`)).join("")).catch(() => undefined);
    // From the moment that the object is there.
    await until(
      async () => (await gateway.request("GET", `/apis/beige.dev/v1/namespaces/default/agents/${name}`)).status === 200,
      5000,
      name,
    ).catch(() => undefined);
    await pause(ms);
    await gateway.kill();
    await applied;
    await gateway.start();
    await gateway.apply(PROVIDER + Array.from({ length: n + 1 }, (_, i) => agent(`k${i}`)).join(""));
    expect(await exec(name, "echo $BEIGE_AGENT")).toBe(name);
    const waiting = await filled(1);
    const mine = await Promise.all(Array.from({ length: n + 1 }, (_, i) => containerOf(`k${i}`)));
    const all = [...waiting.map((id) => id.slice(0, 12)), ...mine].toSorted();
    await until(() => gateway.containers().length === n + 2, 10_000, "nothing is left over");
    expect(
      gateway
        .containers()
        .map((id) => id.slice(0, 12))
        .toSorted(),
    ).toStrictEqual(all);
  }
  expect(await orphans()).toStrictEqual([]);
}, 300_000);

test("an image that is not there is told once, not asked for over and over, and hinders nobody", async () => {
  await start('warm: [{image: "beige-nothing:1", count: 2}, {image: "beige-tiny:1", count: 1}]\n');
  await filled(1);
  await pause(4000);
  expect((await health()).levels).toMatchObject([
    { wanted: 2, ready: 0, problem: "image beige-nothing:1 is not on the engine" },
    { wanted: 1, ready: 1 },
  ]);
  const log = readFileSync(join(gateway.home, "logs/gateway.log"), "utf8");
  expect(log.split("a warm sandbox cannot be made")).toHaveLength(2);
  const said = await gateway.beige("doctor", "-o", "json");
  expect(said.out).toContain("image beige-nothing:1 is not on the engine");
});

test("a lazy agent's first call takes one; removed by force, nothing of it is left but its workspace", async () => {
  await start(WARM(1));
  const [waiting = ""] = await filled(1);
  await gateway.apply(PROVIDER + agent("worker", "", ", start: lazy"));
  expect((await health()).waiting).toStrictEqual([waiting]);
  expect(await exec("worker", "echo kept > file; echo $BEIGE_AGENT")).toBe("worker");
  await until(async () => waiting.startsWith((await containerOf("worker")) ?? "none"), 10_000, "its status says so");
  await gateway.beige("delete", "agent", "worker", "-y", "--force");
  await until(() => !gateway.containers().includes(waiting), 20_000, "the container is gone");
  await until(
    () => lstatSync(usual("worker"), { throwIfNoEntry: false })?.isDirectory() === true,
    20_000,
    "the workspace is where its name leads",
  );
  expect(readFileSync(join(usual("worker"), "file"), "utf8")).toBe("kept\n");
});

test("with the store lost a claimed sandbox is left alone and listed, and its workspace says what to do", async () => {
  await start(WARM(1));
  const [waiting = ""] = await filled(1);
  await gateway.apply(PROVIDER + agent("worker"));
  await gateway.stop();
  for (const name of readdirSync(gateway.home))
    if (name.startsWith("state.db")) renameSync(join(gateway.home, name), join(gateway.home, `lost.${name}`));
  policy("");
  await gateway.start();
  try {
    expect(await orphans()).toMatchObject([{ name: inspect(waiting).Name.slice(1), why: expect.stringContaining("left alone") }]);
    const adopted = await gateway.beige("adopt", waiting, "--model", "scripted/echo-1");
    expect(adopted.code).not.toBe(0);
    expect(inspect(waiting).State.Running).toBe(true);
    await expect(gateway.apply(PROVIDER + agent("worker"))).rejects.toThrow(`mv ${realpathSync(usual("worker"))} ${usual("worker")}`);
  } finally {
    execFileSync("docker", ["rm", "-f", waiting]);
  }
});
