// A gateway whose new agents go to bwrap, and a workspace that grows past its limit: end to end, without an engine.
import { existsSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { afterAll, beforeAll, expect, test } from "vitest";
import { makeGateway, until } from "../gateway.ts";

const NOWHERE = { DOCKER_HOST: "unix:///nowhere/docker.sock" };
const stack = (sandbox: string): string => `
apiVersion: beige.dev/v1
kind: Provider
metadata: {name: scripted}
spec:
  api: echo
  echo:
    steps:
      - {match: "^greet", toolCall: {tool: exec, args: {command: "echo hello"}}}
      - {match: "^fill", toolCall: {tool: exec, args: {command: "head -c 20000000 /dev/zero >big; echo made"}}}
      - {match: "^free", toolCall: {tool: exec, args: {command: "rm big"}}}
      - {match: '[\\s\\S]*', from: tool, text: "said: $0"}
---
apiVersion: beige.dev/v1
kind: Agent
metadata: {name: a}
spec:
  model: {provider: scripted, id: m}
  sandbox: {image: host, ${sandbox}resources: {memory: 128Mi, pids: 64, disk: 8Mi}}
`;
const gateway = makeGateway({ env: { ...NOWHERE, BEIGE_SANDBOX: "bwrap" } });
beforeAll(async () => {
  await gateway.start();
  await gateway.apply(stack(""));
});
afterAll(async () => {
  await gateway.beige("delete", "agent/a", "--yes");
  await gateway.clean();
});

const AGENT = "/apis/beige.dev/v1/namespaces/default/agents/a";
const pressure = async (): Promise<string> => {
  const { body } = await gateway.request("GET", AGENT);
  const found = body.status.conditions.find((one: { reason: string }) => one.reason === "DiskPressure");
  return found === undefined ? "" : `${found.type}=${found.status}: ${found.message}`;
};
let turn = 0;
/** What the model's command said. */
async function asked(text: string): Promise<string> {
  const session = `cli:${turn++}`;
  await gateway.stream("/api/agents/a/prompt", { text, session });
  const { body } = await gateway.request("GET", `/api/agents/a/sessions/${encodeURIComponent(session)}`);
  const lines = body.lines as readonly { role: string; text: string }[];
  return lines.findLast((line) => line.role === "assistant" && line.text.startsWith("said: "))?.text ?? JSON.stringify(lines);
}
const operator = async (command: string) => (await gateway.request("POST", "/api/agents/a/exec", { command })).body;

test("an agent that names no backend runs under the gateway's, and a whole write that leaves it out moves nobody", async () => {
  expect((await gateway.request("GET", AGENT)).body.spec.sandbox.backend).toBe("bwrap");
  expect(await operator("hostname")).toMatchObject({ exitCode: 0, content: [{ text: expect.stringMatching(/^bwrap-/) as string }] });
  const again = (await gateway.apply(stack(""))).find((event) => event.type === "plan").plan;
  expect(again.summary).toMatchObject({ create: 0, update: 0, replace: 0 });
  await gateway.stop();
  // A gateway with the other default: the agent stays where it is.
  const other = makeGateway({ home: gateway.home, env: { ...NOWHERE, BEIGE_SANDBOX: "docker" } });
  await other.start();
  const plan = (await other.apply(stack(""))).find((event) => event.type === "plan").plan;
  expect(plan.summary).toMatchObject({ create: 0, update: 0, replace: 0 });
  const { body } = await other.request("GET", AGENT);
  const { backend: _, ...sandbox } = body.spec.sandbox;
  const put = await other.request("PUT", AGENT, { ...body, spec: { ...body.spec, sandbox } });
  expect([put.status, put.body.spec.sandbox.backend, put.body.metadata.generation]).toStrictEqual([200, "bwrap", body.metadata.generation]);
  await other.stop();
  await gateway.start();
}, 60_000);

test("a workspace above its limit is told, its agent makes room by itself, and then goes on", async () => {
  expect(await asked("greet")).toContain("hello");
  expect(await asked("fill")).toContain("made");
  const refused = await until(
    async () => {
      const text = await asked("greet");
      return text.includes("sandbox.resources.disk allows 8Mi") ? text : undefined;
    },
    90_000,
    "it is refused",
  );
  expect(refused).toContain("takes 20Mi");
  await expect.poll(pressure, { timeout: 10_000 }).toMatch(/takes more than sandbox.resources.disk, 8Mi/);
  expect(await operator("echo person")).toMatchObject({ exitCode: 0 });
  expect(await asked("free")).not.toContain("allows");
  await until(async () => (await asked("greet")).includes("hello"), 20_000, "it goes on");
  await expect.poll(pressure, { timeout: 10_000 }).toBe("");
  const row = readFileSync(join(gateway.home, "logs/audit.jsonl"), "utf8")
    .split("\n")
    .find((line) => line.includes("resources.disk"));
  expect(JSON.parse(row ?? "{}")).toMatchObject({ tool: "exec", phase: "end", outcome: "failed" });
}, 120_000);

test("a gateway that is told to isolate nobody does not start", async () => {
  const none = makeGateway({ env: { ...NOWHERE, BEIGE_SANDBOX: "none" } });
  await expect(none.start()).rejects.toThrow(/BEIGE_SANDBOX is none/);
  expect(existsSync(join(none.home, "state.db"))).toBe(false);
  await none.clean();
});
