// A gateway that is killed in the middle of a prompt's command: the command goes on, and the next gateway answers with its real result.
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { afterEach, expect, test } from "vitest";
import { type Gateway, logTail, makeGateway, until } from "../gateway.ts";

const SCRIPT = "echo ran >> /workspace/ran; for i in 1 2 3 4 5 6; do echo part $i; sleep 1; done; exit 3";
const stackOf = (sandbox: string): string => `
apiVersion: beige.dev/v1
kind: Provider
metadata: {name: scripted}
spec:
  api: echo
  echo:
    steps:
      - {match: "^work", toolCall: {tool: exec, args: {command: "${SCRIPT}"}}}
      - {match: '[\\s\\S]*', from: tool, text: "said: $0"}
---
apiVersion: beige.dev/v1
kind: Agent
metadata: {name: a}
spec:
  model: {provider: scripted, id: m}
  sandbox: {${sandbox}, resources: {memory: 64Mi, cpus: 500m, pids: 64}}
`;

let gateway: Gateway;
afterEach(async () => {
  await gateway.beige("delete", "agent/a", "--yes");
  await gateway.clean();
});

interface Row {
  readonly call: string;
  readonly args: readonly string[];
  readonly phase: string;
  readonly type: string;
  readonly outcome?: string;
  readonly exitCode?: number;
  readonly outputBytes?: number;
}
const rows = (type: string): readonly Row[] =>
  readFileSync(join(gateway.home, "logs/audit.jsonl"), "utf8")
    .trim()
    .split("\n")
    .map((line) => JSON.parse(line) as Row)
    .filter((row) => row.type === type);
const inside = async (command: string): Promise<string> =>
  (await gateway.request("POST", "/api/agents/a/exec", { command })).body.content[0].text as string;
const shown = async (session: string): Promise<readonly { role: string; text: string }[]> =>
  (await gateway.request("GET", `/api/agents/a/sessions/${encodeURIComponent(session)}`)).body.lines ?? [];

const backends: readonly (readonly [string, string, Readonly<Record<string, string>>])[] = [
  ["docker", "image: 'beige-tiny:1'", {}],
  ["bwrap", "backend: bwrap, image: host", { DOCKER_HOST: "unix:///nowhere/docker.sock" }],
];

test.each(backends)(
  "%s: its output and its exit are the tool's result, it ran once, and the record has one end of it",
  async (_name, sandbox, env) => {
    gateway = makeGateway({ env });
    await gateway.start();
    await gateway.apply(stackOf(sandbox));
    void gateway.stream("/api/agents/a/prompt", { text: "work", session: "cli:w" });
    await until(async () => (await inside("cat ran 2>/dev/null || true")) === "ran\n", 10_000, "it runs");
    gateway.request("POST", "/api/agents/a/exec", { command: "sleep 61" }).catch(() => undefined);
    await new Promise((done) => setTimeout(done, 1200));
    await gateway.kill();
    await gateway.start();
    const parts = [1, 2, 3, 4, 5, 6].map((i) => `part ${i}\n`).join("");
    const answered = async () => (await shown("cli:w")).find(({ role, text }) => role === "assistant" && text.startsWith("said: "))?.text;
    const answer = await until(answered, 20_000, "it is answered").catch((error: unknown) => {
      throw new Error(`${String(error)}\n${logTail(gateway)}`);
    });
    expect(answer).toContain(`said: ${parts}\ncommand exited with code 3`);
    expect(await inside("cat ran")).toBe("ran\n");
    const ended = rows("core_tool").filter(({ exitCode }) => exitCode === 3);
    expect(ended).toMatchObject([{ phase: "end", outcome: "failed", outputBytes: parts.length }]);
    expect(rows("core_tool").filter(({ call }) => call === ended[0]?.call)).toHaveLength(2);
    // Nobody can ask for the result of a call that came over a connection: it is unknown at once.
    expect(rows("core_tool").filter(({ args, phase }) => args[0] === "sleep 61" && phase === "end")).toMatchObject([
      { outcome: "unknown" },
    ]);
  },
  60_000,
);
