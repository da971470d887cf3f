// The plugin of docs/plugins.md, as it stands there, at a real gateway: what it changes and refuses, at every door.
import { mkdirSync, mkdtempSync, readFileSync, renameSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, expect, test } from "vitest";
import { makeGateway, pause, root } from "../gateway.ts";

const page = readFileSync(join(root, "docs/plugins.md"), "utf8");
const block = (language: string): string => new RegExp(`\`\`\`${language}\n([^]*?)\`\`\``).exec(page)?.[1] ?? "";

const folder = mkdtempSync(join(tmpdir(), "beige-hooks-"));
const plugin = join(folder, "discreet");
const STACK = `
apiVersion: beige.dev/v1
kind: Provider
metadata: {name: one}
spec:
  api: echo
  models: [{id: m}]
  echo: {steps: [{match: work, toolCall: {tool: exec, args: {command: "echo shutdown 87654321"}}}, {match: ., from: tool, text: "it is 12345678"}]}
---
apiVersion: beige.dev/v1
kind: Agent
metadata: {name: a}
spec: {model: {provider: one, id: m}, tools: [clock]}
---
${block("yaml").replaceAll("/srv/plugins", folder)}`;

const gateway = makeGateway({ args: ["--listen", "none"] });
beforeAll(async () => {
  mkdirSync(plugin);
  writeFileSync(join(plugin, "plugin.json"), block("json"));
  writeFileSync(join(plugin, "index.js"), block("js"));
  writeFileSync(join(gateway.home, "host.yaml"), `paths: {plugins: [${folder}]}\n`, { mode: 0o600 });
  await gateway.start({ DOCKER_HOST: "unix:///nonexistent/docker.sock" });
  await gateway.stream("/api/apply", { files: [{ name: "s.yaml", folder, text: STACK }], wait: false });
  expect(await gateway.beige("wait", "plugin/discreet", "--for=condition=Ready", "--timeout=20s")).toMatchObject({ code: 0 });
}, 60_000);
afterAll(async () => {
  await gateway.clean();
  rmSync(folder, { recursive: true, force: true });
});

const chat = (text: string): Promise<readonly unknown[]> =>
  gateway.stream("/api/chat/stream", {
    agentName: "a",
    context: { messages: [{ role: "user", content: text, timestamp: 1 }] },
  });

test("an answer is heard as the plugin left it, at the raw door, in a turn and by an OpenAI client", async () => {
  const raw = JSON.stringify(await chat("my number is 12345678"));
  expect(raw).toContain("my number is [account]");
  expect(raw).not.toContain("12345678");
  const turn = await gateway.beige("prompt", "a", "my number is 12345678");
  expect([turn.code, turn.out.trim()]).toEqual([0, "my number is [account]"]);
  const openai = await gateway.request("POST", "/v1/chat/completions", {
    model: "a",
    messages: [{ role: "user", content: "and 12345678" }],
  });
  expect(openai.body).toMatchObject({ choices: [{ message: { content: "and [account]" } }] });
});

test("the call that the plugin refuses is not made, and both are on the record", async () => {
  const turn = await gateway.beige("prompt", "a", "work");
  expect(turn.out).toContain("it is [account]");
  const denied = await gateway.beige("audit", "tail", "--denied");
  expect(denied.out).toContain("nothing is shut down here");
});

test("a plugin that is broken withholds every answer until it is mended", async () => {
  writeFileSync(join(plugin, "index.js"), "export const nothing = 1;\n");
  await gateway.stream("/api/apply", {
    files: [{ name: "s.yaml", folder, text: `${STACK.trimEnd().replace("{6,}", "{7,}")}\n` }],
    wait: false,
  });
  await expect.poll(async () => JSON.stringify(await chat("hello")), { timeout: 15_000 }).toMatch(/withheld|refused/);
  writeFileSync(join(plugin, "index.js"), block("js"));
  await gateway.stream("/api/apply", { files: [{ name: "s.yaml", folder, text: STACK }], wait: false });
  await expect.poll(async () => JSON.stringify(await chat("hello")), { timeout: 15_000 }).toContain('"delta":"hello"');
});

test("no answer slips by the plugin while a gateway starts", async () => {
  await gateway.kill();
  const started = gateway.start({ DOCKER_HOST: "unix:///nonexistent/docker.sock" });
  const state = { up: false };
  void started.then(() => (state.up = true));
  const heard: string[] = [];
  while (!state.up || heard.length === 0) {
    const said = await chat("my number is 12345678").catch(() => undefined);
    if (said !== undefined) heard.push(JSON.stringify(said));
    await pause(2);
  }
  await started;
  expect(heard.filter((said) => said.includes("12345678"))).toEqual([]);
});

test("a plugin whose folder is gone refuses still, after a restart too, until it is back or deleted", async () => {
  await gateway.kill();
  renameSync(plugin, `${plugin}-away`);
  await gateway.start({ DOCKER_HOST: "unix:///nonexistent/docker.sock" });
  expect(JSON.stringify(await chat("my number is 12345678"))).toContain("guard preResponse of plugin discreet failed");
  expect((await gateway.beige("delete", "plugin/discreet", "--yes")).code).toBe(0);
  await expect.poll(async () => JSON.stringify(await chat("hello")), { timeout: 15_000 }).toContain('"delta":"hello"');
}, 40_000);
