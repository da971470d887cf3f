// What was removed by hand comes back, and the events say why.
import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";
import { makeGateway, until } from "../gateway.ts";

const STACK = `
apiVersion: beige.dev/v1
kind: Provider
metadata: {name: offline}
spec: {api: echo}
---
apiVersion: beige.dev/v1
kind: Agent
metadata: {name: steady}
spec:
  model: {provider: offline, id: echo-1}
  sandbox: {image: "beige-tiny:1", resources: {memory: 64Mi, cpus: 500m, pids: 64}}
`;

export async function drift(): Promise<string> {
  const gateway = makeGateway();
  try {
    await gateway.start();
    await gateway.apply(STACK);
    const [before = ""] = gateway.containers();
    spawnSync("docker", ["rm", "-f", before]);
    const begun = Date.now();
    const ready = async (): Promise<boolean> => {
      const now = gateway.containers();
      if (now.length !== 1 || now[0] === before) return false;
      const ran = await gateway.request("POST", "/api/agents/steady/exec", { command: "echo back" });
      return ran.status === 200 && ran.body.exitCode === 0;
    };
    await until(ready, 10_000, "the container is back and serves");
    const took = Date.now() - begun;
    const events = await gateway.beige("events");
    assert.match(events.out, /missing/, events.out + events.err);
    return `back after ${(took / 1000).toFixed(1)} s; events name the reason`;
  } finally {
    await gateway.clean();
  }
}
