// Commands in the background in a real sandbox: over a killed gateway and a stopped one, ended by their pid and with their container.
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { type Gateway, makeGateway, until } from "../gateway.ts";

const RESOURCES = "resources: {memory: 64Mi, cpus: 500m, pids: 64}";
const stackOf = (sandbox: string): string => `
apiVersion: beige.dev/v1
kind: Provider
metadata: {name: scripted}
spec: {api: echo}
---
apiVersion: beige.dev/v1
kind: Agent
metadata: {name: a}
spec:
  model: {provider: scripted, id: m}
  sandbox: {${sandbox}}
  update: {strategy: drain, drainTimeoutSeconds: 2}
`;

const BACKENDS = [
  ["docker", `image: "beige-tiny:1", ${RESOURCES}`, {}],
  ["bwrap", `backend: bwrap, image: host, ${RESOURCES}`, { DOCKER_HOST: "unix:///nowhere/docker.sock" }],
] as const;

interface Row {
  readonly call: string;
  readonly phase: string;
  readonly args: readonly string[];
  readonly outcome?: string;
  readonly exitCode?: number;
  readonly background?: boolean;
  readonly durationMs?: number;
  readonly error?: string;
}
const COUNT = "for i in 1 2 3 4 5 6; do echo part $i; sleep 1; done; exit 3";
const PARTS = [1, 2, 3, 4, 5, 6].map((i) => `part ${i}\n`).join("");

function handsOf(at: () => Gateway) {
  const rows = (call: string): readonly Row[] =>
    readFileSync(join(at().home, "logs/audit.jsonl"), "utf8")
      .trim()
      .split("\n")
      .map((line) => JSON.parse(line) as Row)
      .filter((row) => row.call === call);
  const exec = async (params: object) => {
    const { body } = await at().request("POST", "/api/agents/a/exec", params);
    return { call: body.call as string, text: body.content?.[0].text as string, exitCode: body.exitCode as number };
  };
  const output = async (call: string): Promise<string> => (await exec({ command: `cat .beige/output/${call}.txt` })).text;
  const ended = (call: string): Promise<unknown> =>
    until(() => Promise.resolve(rows(call).some(({ phase }) => phase === "end")), 20_000, "its end is written down");

  return { rows, exec, output, ended };
}

describe.each(BACKENDS)("%s", (_, sandbox, env) => {
  const gateway = makeGateway({ env });
  const { rows, exec, output, ended } = handsOf(() => gateway);
  beforeAll(async () => {
    await gateway.start();
    await gateway.apply(stackOf(sandbox));
  });
  afterAll(async () => {
    await gateway.beige("delete", "agent/a", "--yes");
    await gateway.clean();
  });

  test.each(["killed", "stopped"] as const)(
    "over a gateway that is %s a command goes on: all of its output, its end, one of each",
    async (how) => {
      const { call } = await exec({ command: COUNT, background: true });
      await until(async () => (await output(call)).includes("part 2"), 10_000, "its file grows");
      await (how === "killed" ? gateway.kill() : gateway.stop());
      await gateway.start();
      await ended(call);
      expect(await output(call)).toBe(`${PARTS}\n[command exited with code 3]\n`);
      expect(rows(call)).toMatchObject([
        { phase: "begin", args: [COUNT, "background"] },
        { phase: "end", exitCode: 3, outcome: "failed", background: true },
      ]);
      expect(rows(call)[1]?.durationMs).toBeGreaterThan(5000);
    },
  );

  test("a server that it starts answers other commands, and a kill of its pid ends its whole tree", async () => {
    const { call, text } = await exec({
      command: "(while :; do echo beat > beat; sleep 0.2; done) & sleep 600",
      background: true,
      timeout: 700,
    });
    await until(async () => (await exec({ command: "cat beat" })).text === "beat\n", 10_000, "it works");
    expect((await exec({ command: `kill ${/pid (\d+)/.exec(text)?.[1]}` })).exitCode).toBe(0);
    await ended(call);
    expect(rows(call)[1]).toMatchObject({ outcome: "failed", exitCode: 143, background: true });
    await exec({ command: "rm -f beat; sleep 1" });
    expect((await exec({ command: "ls" })).text).not.toContain("beat");
  });

  test("variables and input reach a command in the sandbox as they are", async () => {
    const asked = { command: 'cat; printf "%s" "$A"; env | grep -c BEIGE_CALL', stdin: "ü\n", env: { A: "$(id) '\n" } };
    expect((await exec(asked)).text).toBe("ü\n$(id) '\n1\n");
    expect((await exec({ command: "wc -c", stdin: "x".repeat(1024 * 1024) })).text.trim()).toBe("1048576");
    expect((await exec({ command: "true", stdin: "x".repeat(1024 * 1024) })).exitCode).toBe(0);
  });

  test("a new container waits for it no longer than its drain, and its end is told", async () => {
    const { call } = await exec({ command: "sleep 600", background: true });
    await gateway.apply(stackOf(`${sandbox}, env: {A: b}`));
    await ended(call);
    expect(rows(call)[1]).toMatchObject({ outcome: "cancelled", background: true, error: expect.stringContaining("replaced") });
  });
});
