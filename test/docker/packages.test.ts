// Packages of an agent on the real engine: a real apt installs them into an image of its own, which every step of a killed gateway finds again.
import { execFileSync } from "node:child_process";
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { afterAll, afterEach, beforeAll, expect, test } from "vitest";
import { makeGateway, pause, until, type Gateway } from "../gateway.ts";
import { makeAptBase, type AptBase } from "./aptbase.ts";

const PROVIDER = `
apiVersion: beige.dev/v1
kind: Provider
metadata: {name: scripted}
spec: {api: echo}
`;
const agent = (name: string, packages: readonly string[], more = ""): string => `
---
apiVersion: beige.dev/v1
kind: Agent
metadata: {name: ${name}}
spec:
  model: {provider: scripted, id: echo-1}
  sandbox: {image: "${base.image}", packages: ${JSON.stringify(packages)}, resources: {memory: 64Mi, cpus: 500m, pids: 64}${more}}
`;
const PACKAGES = [
  { name: "hello-beige", version: "1.0" },
  { name: "other-beige", version: "2.3" },
  { name: "slow-beige", version: "1.0", postinst: "sleep 5" },
];

let base: AptBase;
let gateway: Gateway;
beforeAll(() => {
  base = makeAptBase(PACKAGES);
  baseId();
});
afterEach(async () => {
  await gateway.clean();
  // Whatever a failed test left: images of builds upon this test's base.
  for (const { ref, base: of } of derived()) if (baseIds.has(of)) docker("rmi", "-f", ref);
});
afterAll(() => {
  base.clean();
  // A base that has lost its name.
  for (const id of baseIds) execFileSync("sh", ["-c", `docker rmi -f ${id} >/dev/null 2>&1 || true`]);
});

const baseIds = new Set<string>();
function docker(...args: string[]): string {
  return execFileSync("docker", args, { encoding: "utf8", stdio: ["ignore", "pipe", "ignore"] }).trim();
}
const inspect = (of: string) => JSON.parse(docker("inspect", of))[0];
const baseId = (): string => {
  const id = String(inspect(base.image).Id);
  baseIds.add(id);
  return id;
};
/** Images that were built here, with the base that they were built upon. */
function derived(): readonly { readonly ref: string; readonly base: string }[] {
  const refs = docker("images", "--format", "{{.Repository}}:{{.Tag}}", "beige-derived").split("\n").filter(Boolean);
  return refs.map((ref) => ({ ref, base: String(JSON.parse(inspect(ref).Config.Labels["beige.dev/derived"]).base) }));
}
const mine = (): readonly string[] => derived().flatMap((each) => (each.base === baseId() ? [each.ref] : []));
const builds = (): readonly string[] =>
  gateway.containers().filter((id) => {
    try {
      return String(inspect(id).Name).startsWith("/beige-build-");
    } catch {
      return false;
    }
  });
const path = (name: string): string => `/apis/beige.dev/v1/namespaces/default/agents/${name}`;
const ready = async (name: string) =>
  (await gateway.request("GET", path(name))).body.status?.conditions?.find((each: { type: string }) => each.type === "Ready");
const observed = async (name: string) => (await gateway.request("GET", path(name))).body.status?.observed;
const exec = async (name: string, command: string): Promise<string> => {
  const { body } = await gateway.request("POST", `/api/agents/${name}/exec`, { command });
  return `${body.exitCode}: ${String(body.content?.[0]?.text ?? "").trim()}`;
};
const isReady = (name: string) => until(async () => (await ready(name))?.status === "True", 60_000, `${name} is Ready`);

test("a program of a package runs in a strict sandbox, and another list replaces it: what was said stays, the old image goes", async () => {
  gateway = makeGateway();
  await gateway.start();
  await gateway.apply(PROVIDER + agent("worker", ["hello-beige"]));
  expect(await exec("worker", "hello-beige; touch /usr/bin/x 2>&1; id -u")).toMatch(
    /^0: hello-beige 1\.0\n.*Read-only file system\n[1-9]\d*$/,
  );
  expect(builds()).toEqual([]);
  const [first = ""] = mine();
  const config = inspect(first).Config;
  expect(config).toMatchObject({
    User: "nobody",
    Entrypoint: ["/usr/bin/env"],
    Cmd: ["true"],
    Labels: { "made.by": "test", "beige.dev/store": "" },
  });
  expect(config.Env).toEqual(inspect(base.image).Config.Env);
  await gateway.stream("/api/agents/worker/prompt", { text: "remember" });
  const [old = ""] = gateway.containers();
  const events = await gateway.apply(PROVIDER + agent("worker", ["hello-beige=1.*", "other-beige"]));
  const plan = events.find((event) => event.type === "plan").plan;
  expect(plan.objects.find((each: { ref: { name: string } }) => each.ref.name === "worker")).toMatchObject({ verb: "replace" });
  expect(await exec("worker", "hello-beige; other-beige")).toBe("0: hello-beige 1.0\nother-beige 2.3");
  expect(gateway.containers()).not.toContain(old);
  const { sessions } = (await gateway.request("GET", "/api/agents/worker/sessions")).body;
  expect(sessions).toHaveLength(1);
  const kept = (await gateway.request("GET", `/api/agents/worker/sessions/${sessions[0].session}`)).body;
  expect(JSON.stringify(kept)).toContain("remember");
  // The old image went with its last container.
  await until(() => !mine().includes(first), 10_000, "the first image is gone");
  expect(mine()).toHaveLength(1);
  // Without packages it is the base itself again.
  await gateway.apply(PROVIDER + agent("worker", []));
  expect(await exec("worker", "hello-beige")).toMatch(/^127/);
  await until(() => mine().length === 0, 10_000, "no image is left");
});

test("a package that does not exist: the condition names it, the old sandbox serves on, and nothing is tried in a loop", async () => {
  gateway = makeGateway();
  await gateway.start();
  await gateway.apply(PROVIDER + agent("worker", ["hello-beige"]));
  const [old = ""] = gateway.containers();
  await expect(gateway.apply(PROVIDER + agent("worker", ["hello-beige", "no-such-thing"]))).rejects.toThrow("no-such-thing");
  expect(await ready("worker")).toMatchObject({
    status: "False",
    reason: "ImageBuildFailed",
    message: expect.stringContaining("Unable to locate package no-such-thing"),
  });
  expect((await ready("worker")).message).toContain("keeps serving");
  expect(await exec("worker", "hello-beige")).toBe("0: hello-beige 1.0");
  expect(gateway.containers()).toEqual([old]);
  const { tries, atMs } = (await observed("worker")).build;
  expect(tries).toBe(1);
  await pause(3000);
  // The pause holds over a restart too.
  await gateway.kill();
  await gateway.start();
  await pause(3000);
  expect((await observed("worker")).build).toMatchObject({ tries: 1, atMs });
  expect(builds()).toEqual([]);
  await gateway.apply(PROVIDER + agent("worker", ["hello-beige", "other-beige"]));
  expect(await exec("worker", "other-beige")).toBe("0: other-beige 2.3");
});

test("two agents share one build and one image, which goes with the last of them", async () => {
  gateway = makeGateway();
  await gateway.start();
  const both = gateway.apply(PROVIDER + agent("one", ["slow-beige"]) + agent("two", ["slow-beige"]));
  let most = 0;
  const end = { done: false };
  const applied = both.finally(() => (end.done = true));
  await until(async () => (await ready("two"))?.reason === "ImageBuilding", 20_000, "it is built");
  expect((await ready("two")).message).toContain("slow-beige");
  while (!end.done) {
    most = Math.max(most, builds().length);
    await pause(200);
  }
  await applied;
  expect(most).toBe(1);
  expect(mine()).toHaveLength(1);
  // Both saw its end: nobody named it twice.
  const nameless = docker("images", "-q", "--filter", "dangling=true", "--filter", "label=beige.dev/derived").split("\n").filter(Boolean);
  expect(nameless.filter((id) => String(inspect(id).Config.Labels["beige.dev/derived"]).includes(baseId()))).toEqual([]);
  expect(await exec("one", "slow-beige")).toBe("0: slow-beige 1.0");
  expect(await exec("two", "slow-beige")).toBe("0: slow-beige 1.0");
  await gateway.request("DELETE", path("one"));
  await until(() => gateway.containers().length === 1, 20_000, "one is gone");
  expect(mine()).toHaveLength(1);
  expect(await exec("two", "slow-beige")).toBe("0: slow-beige 1.0");
  await gateway.request("DELETE", path("two"));
  await until(() => gateway.containers().length === 0 && mine().length === 0, 20_000, "nothing is left");
});

test.each([0, 1500, 4000])("a gateway that is killed %d ms into a build finishes it after its start, and no build is left", async (ms) => {
  gateway = makeGateway();
  await gateway.start();
  const applying = gateway.apply(PROVIDER + agent("worker", ["slow-beige"])).catch(() => []);
  await until(() => builds().length === 1, 20_000, "it is built");
  await pause(ms);
  await gateway.kill();
  await applying;
  await gateway.start();
  await isReady("worker");
  expect(builds()).toEqual([]);
  expect(gateway.containers()).toHaveLength(1);
  expect(await exec("worker", "slow-beige")).toBe("0: slow-beige 1.0");
});

test("an agent that goes, or wants something else, takes its build along", async () => {
  gateway = makeGateway();
  await gateway.start();
  const applying = gateway.apply(PROVIDER + agent("worker", ["slow-beige"])).catch(() => []);
  await until(() => builds().length === 1, 20_000, "it is built");
  await gateway.apply(PROVIDER + agent("worker", ["hello-beige"]));
  await applying;
  expect(builds()).toEqual([]);
  expect(await exec("worker", "hello-beige")).toBe("0: hello-beige 1.0");
  void gateway.apply(PROVIDER + agent("late", ["slow-beige"])).catch(() => []);
  await until(() => builds().length === 1, 20_000, "another is built");
  await gateway.request("DELETE", path("late"));
  await until(async () => (await gateway.request("GET", path("late"))).status === 404, 20_000, "late is gone");
  expect(builds()).toEqual([]);
});

test("a tag that moved is image drift, as without packages", async () => {
  gateway = makeGateway();
  await gateway.start();
  await gateway.apply(PROVIDER + agent("worker", ["hello-beige"]));
  const before = (await observed("worker")).container;
  base.remake([{ name: "hello-beige", version: "1.1" }, ...PACKAGES.slice(1)]);
  baseId();
  await gateway.apply(PROVIDER + agent("worker", ["hello-beige"]));
  expect((await observed("worker")).container).not.toBe(before);
  expect(await exec("worker", "hello-beige")).toBe("0: hello-beige 1.1");
});

test("an image without a package manager, or without a shell, says so, and nothing of the build is left", async () => {
  gateway = makeGateway();
  await gateway.start();
  const bare = agent("bare", ["jq"]).replace(base.image, "beige-tiny:1");
  await expect(gateway.apply(PROVIDER + bare)).rejects.toThrow("no apt-get, apk, dnf or microdnf");
  expect(await ready("bare")).toMatchObject({ reason: "ImageBuildFailed" });
  const empty = `${base.image}-empty`;
  execFileSync("sh", ["-c", `tar -cf - -C / --files-from /dev/null | docker import - ${empty}`], { stdio: "ignore" });
  try {
    await expect(gateway.apply(PROVIDER + agent("empty", ["jq"]).replace(base.image, empty))).rejects.toThrow("/bin/sh");
    expect(await ready("empty")).toMatchObject({ reason: "ImageBuildFailed" });
    expect(gateway.containers()).toEqual([]);
  } finally {
    docker("rmi", empty);
  }
});

test("a build has limits, no mounts and no variables of its own, and goes where host.yaml says", async () => {
  gateway = makeGateway();
  await gateway.start();
  writeFileSync(join(gateway.home, "host.yaml"), "build: {network: none, proxy: 'http://proxy.example:3128'}\n", { mode: 0o600 });
  const applying = gateway.apply(PROVIDER + agent("worker", ["slow-beige"]));
  const [id = ""] = await until(() => (builds().length === 1 ? builds() : undefined), 20_000, "it is built");
  const { HostConfig: host, Mounts, Config: config } = inspect(id);
  expect(host).toMatchObject({ Memory: 2 ** 31, MemorySwap: 2 ** 31, PidsLimit: 512, NetworkMode: "none", Privileged: false, Binds: null });
  expect(Mounts).toEqual([]);
  expect(config.Env).toEqual(inspect(base.image).Config.Env);
  expect(config.Cmd).toContain("http://proxy.example:3128");
  await applying;
  const [ref = ""] = mine();
  expect(JSON.stringify(inspect(ref).Config)).not.toContain("proxy.example");
});
