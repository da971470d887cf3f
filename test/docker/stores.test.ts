// Two gateways with homes of their own on one engine, with agents of the same name: neither touches what is the other's.
import { spawnSync } from "node:child_process";
import { mkdirSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { afterAll, beforeAll, expect, test } from "vitest";
import { makeGateway, pause, until } from "../gateway.ts";
import { engineScript } from "./ground.ts";

const [one, two] = [makeGateway(), makeGateway()];
const docker = (...args: string[]): string => spawnSync("docker", args, { encoding: "utf8" }).stdout.trim();
const state = (id: string): string => docker("inspect", "-f", "{{.State.Status}} {{.State.StartedAt}} {{.Name}}", id);

const STACK = `
apiVersion: beige.dev/v1
kind: Provider
metadata: {name: offline}
spec: {api: echo}
---
apiVersion: beige.dev/v1
kind: Agent
metadata: {name: travel}
spec:
  model: {provider: offline, id: echo-1}
  sandbox: {image: "beige-tiny:1", env: {MODE: adopted}, resources: {memory: 64Mi, cpus: 500m, pids: 64, tmp: 1Mi}}
`;

beforeAll(async () => {
  spawnSync(engineScript, ["ensure"], { stdio: ["ignore", "ignore", "inherit"] });
  for (const gateway of [one, two]) {
    await gateway.start();
    await gateway.apply(STACK);
  }
});
afterAll(async () => {
  for (const gateway of [one, two]) await gateway.clean();
});

test("agents of one name have a container each, and each gateway sees its own alone", async () => {
  const [a, b] = [one.containers(), two.containers()];
  expect([a.length, b.length, a[0] === b[0]]).toEqual([1, 1, false]);
  const orphans = await one.beige("orphans", "-o", "json");
  const { items } = JSON.parse(orphans.out) as { items: { name: string; why: string }[] };
  const other = docker("inspect", "-f", "{{.Name}}", b[0] ?? "").slice(1);
  expect(items.find((each) => each.name === other)?.why).toMatch(/of another gateway/);
  expect(items.some((each) => each.name === docker("inspect", "-f", "{{.Name}}", a[0] ?? "").slice(1))).toBe(false);
});

test("a gateway that deletes, prunes, restarts and sweeps leaves the other's container running as it was", async () => {
  const id = two.containers()[0] ?? "";
  const before = state(id);
  expect(before).toMatch(/^running/);
  expect((await one.beige("restart", "agent/travel")).code).toBe(0);
  await until(() => one.containers().length === 1, 30_000, "one container after the restart");
  await one.beige("delete", "agent/travel", "--yes");
  expect(one.containers()).toEqual([]);
  await one.stop();
  await one.start();
  await pause(1000);
  expect(state(id)).toBe(before);
  const kept = JSON.parse((await one.beige("orphans", "-o", "json")).out) as { items: { what: string; agent: string }[] };
  expect(kept.items).toContainEqual(expect.objectContaining({ what: "workspace", agent: "travel" }));
});

test("a container without our label, and one with a name like ours, are never touched", async () => {
  const name = `beige-travel2-${process.pid}`;
  docker("run", "-d", "--name", name, "--network", "none", "beige-tiny:1", "sleep", "600");
  try {
    const before = state(name);
    await one.apply(STACK);
    await one.beige("delete", "agent/travel", "--yes");
    expect(state(name)).toBe(before);
  } finally {
    docker("rm", "-f", name);
  }
});

test("adopt writes a manifest of another gateway's container that can be applied, and changes nothing", async () => {
  const id = two.containers()[0] ?? "";
  const before = state(id);
  const ran = await one.beige("adopt", id, "--model", "offline/echo-1", "--name", "taken");
  expect(ran.code).toBe(0);
  for (const part of [
    "name: taken",
    "image: beige-tiny:1",
    "MODE: adopted",
    "memory: 64Mi",
    "cpus: 0.5",
    "pids: 64",
    "mode: none",
    `path: ${two.home}`,
  ])
    expect(ran.out).toContain(part);
  const folder = join(one.home, "adopted");
  mkdirSync(folder);
  writeFileSync(join(folder, "a.yaml"), ran.out);
  expect(await one.beige("validate", "-f", join(folder, "a.yaml"))).toMatchObject({ code: 0 });
  expect(state(id)).toBe(before);
  rmSync(folder, { recursive: true });
});

test("an adoption that names the other gateway's container by its labels is refused, and changes nothing", async () => {
  const id = two.containers()[0] ?? "";
  const before = state(id);
  const named = docker("inspect", "-f", '{{index .Config.Labels "beige.dev/store"}}/{{index .Config.Labels "beige.dev/uid"}}', id);
  const text = STACK.replace("metadata: {name: travel}", `metadata: {name: taken, annotations: {beige.dev/adopt: ${named}}}`);
  await expect(one.apply(text)).rejects.toThrow(/is of a gateway on another home .* it is left alone/);
  expect((await one.request("GET", "/apis/beige.dev/v1/namespaces/default/agents/taken")).status).toBe(404);
  expect([state(id), one.containers()]).toEqual([before, []]);
});
