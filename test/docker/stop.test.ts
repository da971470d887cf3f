// A gateway with connections into its sandboxes ends when it is asked to, and leaves the sandboxes running.
import { afterEach, expect, test } from "vitest";
import { makeGateway, until, type Gateway } from "../gateway.ts";

let gateway: Gateway;
afterEach(async () => gateway.clean());

test("a gateway that has run a command ends by itself at SIGTERM, exit 0, and the sandbox goes on", async () => {
  gateway = makeGateway();
  await gateway.start();
  await gateway.apply(`
apiVersion: beige.dev/v1
kind: Provider
metadata: {name: local}
spec: {api: echo}
---
apiVersion: beige.dev/v1
kind: Agent
metadata: {name: worker}
spec:
  model: {provider: local, id: echo-1}
  sandbox: {image: "beige-tiny:1", resources: {memory: 64Mi, cpus: 500m, pids: 64}}
`);
  const { body } = await gateway.request("POST", "/api/agents/worker/exec", { command: "echo hi" });
  expect(body.exitCode).toBe(0);
  const [box = ""] = gateway.containers();
  const since = performance.now();
  // Its own last resort is SIGKILL after 11 s, which is no exit code.
  expect(await gateway.stop()).toBe(0);
  expect(performance.now() - since).toBeLessThan(10_000);
  await gateway.start();
  expect(gateway.containers()).toStrictEqual([box]);
  await until(
    async () => (await gateway.request("POST", "/api/agents/worker/exec", { command: "true" })).body.exitCode === 0,
    10_000,
    "works",
  );
});
