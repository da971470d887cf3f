// start: lazy on the real engine: no container until the first call, which gets its answer from the one that it had made.
import { execFileSync } from "node:child_process";
import { afterEach, expect, test } from "vitest";
import { makeGateway, until, type Gateway } from "../gateway.ts";

const STACK = `
apiVersion: beige.dev/v1
kind: Provider
metadata: {name: scripted}
spec: {api: echo}
---
apiVersion: beige.dev/v1
kind: Agent
metadata: {name: worker}
spec:
  model: {provider: scripted, id: echo-1}
  sandbox: {image: "beige-tiny:1", start: lazy, resources: {memory: 64Mi, cpus: 500m, pids: 64}}
`;

let gateway: Gateway;
afterEach(async () => gateway.clean());

const ready = async (): Promise<{ status: string; reason: string }> => {
  const { body } = await gateway.request("GET", "/apis/beige.dev/v1/namespaces/default/agents/worker");
  return body.status.conditions.find((one: { type: string }) => one.type === "Ready");
};
const exec = (command: string) => gateway.request("POST", "/api/agents/worker/exec", { command });

test("five first calls at once have one container made and are all answered; a container that ended is started by the next", async () => {
  gateway = makeGateway();
  await gateway.start();
  await gateway.apply(STACK);
  expect(gateway.containers()).toStrictEqual([]);
  expect(await ready()).toMatchObject({ status: "True", reason: "Lazy" });
  const answers = await Promise.all([1, 2, 3, 4, 5].map((n) => exec(`echo ${n}`)));
  expect(answers.map(({ body }) => body.exitCode)).toStrictEqual([0, 0, 0, 0, 0]);
  const [id = ""] = gateway.containers();
  expect(gateway.containers()).toHaveLength(1);
  await until(async () => (await ready()).reason === "Ready", 5000, "the agent is ready");
  execFileSync("docker", ["kill", id]);
  await until(async () => (await ready()).reason === "Lazy", 10_000, "the agent rests");
  expect((await exec("echo again")).body.exitCode).toBe(0);
  expect(gateway.containers()).toStrictEqual([id]);
});

test("a prompt has the sandbox started without waiting for it", async () => {
  gateway = makeGateway();
  await gateway.start();
  await gateway.apply(STACK);
  const events = await gateway.stream("/api/agents/worker/prompt", { text: "hello" });
  expect(events.at(-1)).toMatchObject({ type: "done" });
  await until(() => gateway.containers().length === 1, 10_000, "the container is made");
});

test("the rules of containment hold for a running sandbox but for what its host lacks, which the agent says too", async () => {
  gateway = makeGateway();
  await gateway.start();
  await gateway.apply(STACK);
  await exec("true");
  const ran = await gateway.beige("doctor", "--sandbox", "worker", "-o", "json");
  expect(ran.code).toBe(0);
  const { findings } = JSON.parse(ran.out) as { findings: readonly { name: string; state: string; message: string }[] };
  const warned = findings.filter(({ name, state }) => state !== "ok" && name !== "host").map(({ name }) => name);
  expect(findings.length).toBeGreaterThan(30);
  expect(warned.filter((rule) => rule !== "CIS 5.1")).toStrictEqual([]);
  const { body } = await gateway.request("GET", "/apis/beige.dev/v1/namespaces/default/agents/worker");
  const hardened = body.status.conditions.find((one: { type: string }) => one.type === "Hardened");
  expect(hardened.status === "True").toBe(
    findings.filter(({ name, message }) => name === "host" && !message.startsWith("cgroup")).every(({ state }) => state === "ok"),
  );
});
