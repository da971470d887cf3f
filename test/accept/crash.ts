// The gateway dies by SIGKILL while an agent works, and comes back: same container, same session, no message lost or doubled.
import assert from "node:assert/strict";
import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { makeGateway, pause, until, type Gateway } from "../gateway.ts";

const STACK = `
apiVersion: beige.dev/v1
kind: Provider
metadata: {name: scripted}
spec:
  api: echo
  echo:
    steps:
      - {match: "^work (.*)", toolCall: {tool: exec, args: {command: "sleep 0.3; memory list; echo worked"}}}
      - {match: ".", from: tool, text: "answered"}
---
apiVersion: beige.dev/v1
kind: Plugin
metadata: {name: memory}
spec: {source: {builtin: memory}}
---
apiVersion: beige.dev/v1
kind: Agent
metadata: {name: worker}
spec:
  model: {provider: scripted, id: echo-1}
  tools: [memory]
  sandbox: {image: "beige-tiny:1", resources: {memory: 64Mi, cpus: 500m, pids: 64}}
`;

/** Everything that the session files of the agent hold, as one text. */
const sessionText = (gateway: Gateway): string => {
  const folder = join(gateway.home, "sessions/default.worker");
  return readdirSync(folder)
    .filter((name) => name.endsWith(".jsonl"))
    .map((name) => readFileSync(join(folder, name), "utf8"))
    .join("");
};

interface Entry {
  readonly type?: string;
  readonly message?: { readonly role?: string; readonly content?: unknown };
}
const entries = (gateway: Gateway): readonly Entry[] =>
  sessionText(gateway)
    .split("\n")
    .filter(Boolean)
    .map((line) => JSON.parse(line) as Entry);
const texts = (list: readonly Entry[], role: string): readonly string[] =>
  list.filter((entry) => entry.message?.role === role).map((entry) => JSON.stringify(entry.message?.content));

/** Answers seen after a user message, before the next one. */
const answered = (gateway: Gateway, text: string): boolean => {
  const list = entries(gateway);
  const at = list.findIndex((entry) => entry.message?.role === "user" && JSON.stringify(entry.message.content).includes(text));
  return at >= 0 && texts(list.slice(at), "assistant").some((each) => each.includes("answered"));
};

export async function crash(moments: number): Promise<string> {
  const gateway = makeGateway();
  try {
    await gateway.start();
    await gateway.apply(STACK);
    const [container] = gateway.containers();
    let accepted = 0;
    for (let round = 0; round < moments; round += 1) {
      const text = `work number-${round}-`;
      let taken = false;
      const reading = gateway.stream(
        "/api/agents/worker/prompt",
        { text },
        (line: { type: string }) => (taken ||= line.type === "session"),
      );
      await pause(Math.random() * 900);
      await gateway.kill();
      await reading;
      await gateway.start();
      assert.deepEqual(gateway.containers(), [container], "the container is the one that ran before");
      if (taken) {
        accepted += 1;
        await until(() => answered(gateway, text), 15_000, `"${text}" is answered after the restart`);
      }
      const times = texts(entries(gateway), "user").filter((each) => each.includes(text)).length;
      assert.ok(taken ? times === 1 : times <= 1, `"${text}" stands ${times} times in the session`);
    }
    const tool = await gateway.request("POST", "/api/agents/worker/exec", { command: "memory list" });
    assert.equal(tool.body.exitCode, 0, "the launcher works in the container that outlived the gateway");
    const again = await gateway.stream("/api/agents/worker/prompt", { text: "work once more" });
    assert.equal(again.at(-1)?.type, "done", "the session goes on");
    const verify = await gateway.beige("audit", "verify");
    assert.equal(verify.code, 0, verify.out + verify.err);
    return `${moments} kills, ${accepted} messages accepted, each answered once; same container ${container?.slice(0, 12)}`;
  } finally {
    await gateway.clean();
  }
}
