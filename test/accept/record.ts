// What an agent may not call is refused and recorded; the record shows when it was tampered with.
import assert from "node:assert/strict";
import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { makeGateway } from "../gateway.ts";

const STACK = `
apiVersion: beige.dev/v1
kind: Provider
metadata: {name: offline}
spec: {api: echo}
---
apiVersion: beige.dev/v1
kind: Plugin
metadata: {name: memory}
spec: {source: {builtin: memory}}
---
apiVersion: beige.dev/v1
kind: Agent
metadata: {name: plain}
spec:
  model: {provider: offline, id: echo-1}
  sandbox: {image: "beige-tiny:1", resources: {memory: 64Mi, cpus: 500m, pids: 64}}
`;
const REFUSAL = "Permission denied: tool 'memory' not allowed for agent 'plain'";

export async function record(): Promise<string> {
  const gateway = makeGateway();
  try {
    await gateway.start();
    await gateway.apply(STACK);
    const inside = await gateway.request("POST", "/api/agents/plain/exec", { command: "/beige/tool-client call memory list" });
    assert.equal(inside.body.exitCode, 1);
    assert.ok(JSON.stringify(inside.body.content).includes(REFUSAL), JSON.stringify(inside.body));
    const outside = await gateway.request("POST", "/api/agents/plain/exec", { tool: "memory", args: ["list"] });
    assert.ok(JSON.stringify(outside.body).includes(REFUSAL), JSON.stringify(outside.body));

    const log = join(gateway.home, "logs/audit.jsonl");
    const rows = readFileSync(log, "utf8")
      .split("\n")
      .filter(Boolean)
      .map((line) => JSON.parse(line) as { tool: string; decision: string });
    assert.equal(rows.filter((row) => row.tool === "memory" && row.decision === "denied").length, 2, "both refusals are rows");

    const good = await gateway.beige("audit", "verify");
    assert.equal(good.code, 0, good.out + good.err);
    const anchor = (await gateway.beige("audit", "anchor")).out.trim();
    await gateway.stop();
    const whole = readFileSync(log, "utf8");
    writeFileSync(log, whole.replace("denied", "allowed"));
    assert.notEqual((await gateway.beige("audit", "verify")).code, 0, "a changed row is found");
    const cut = `${whole.trimEnd().split("\n").slice(0, -1).join("\n")}\n`;
    writeFileSync(log, cut);
    assert.equal((await gateway.beige("audit", "verify")).code, 0, "a cut tail is a whole chain");
    assert.notEqual((await gateway.beige("audit", "verify", "--anchor", anchor)).code, 0, "but not against an anchor");
    return "refused inside and outside, two denied rows; a changed byte and a cut tail are found";
  } finally {
    await gateway.clean();
  }
}
