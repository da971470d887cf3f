// Faults of an engine and of a container while a command runs: each ends in a true condition and mends, and none is taken for success.
import { execFileSync, spawnSync } from "node:child_process";
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, expect, test } from "vitest";
import { makeGateway, pause, until, type Gateway } from "../gateway.ts";
import { engineScript } from "./ground.ts";

const STACK = `
apiVersion: beige.dev/v1
kind: Provider
metadata: {name: offline}
spec: {api: echo}
---
apiVersion: beige.dev/v1
kind: Agent
metadata: {name: a}
spec:
  model: {provider: offline, id: echo-1}
  sandbox: {image: "beige-tiny:1", resources: {memory: 64Mi, cpus: 500m, pids: 64}}
`;

interface Answer {
  readonly exitCode?: number;
  readonly outcome?: string;
  readonly content?: readonly { readonly text: string }[];
}
interface Condition {
  readonly type: string;
  readonly status: string;
  readonly reason: string;
  readonly message: string;
}

/** A private engine in a network of its own, without live-restore: the machine's own is never touched. */
const root = mkdtempSync(join(tmpdir(), "beige-faults-"));
const socket = join(root, "docker.sock");
const engine = (word: string): void =>
  void spawnSync(engineScript, [word], { env: { ...process.env, BEIGE_ENGINE_ROOT: root }, stdio: ["ignore", "ignore", "inherit"] });
const docker = (...args: string[]): string => execFileSync("docker", ["-H", `unix://${socket}`, ...args], { encoding: "utf8" }).trim();
const enginePid = (): number => Number(readFileSync(join(root, "docker.pid"), "utf8"));
let gateway: Gateway;

const exec = async (command: string): Promise<Answer> =>
  (await gateway.request("POST", "/api/agents/a/exec", { command, timeout: 60 })).body as Answer;
const agent = async (): Promise<{ readonly conditions: readonly Condition[] }> =>
  (await gateway.request("GET", "/apis/beige.dev/v1/namespaces/default/agents/a")).body.status as { conditions: Condition[] };
const ready = async (): Promise<Condition | undefined> => (await agent()).conditions.find(({ type }) => type === "Ready");
const box = (): string => docker("ps", "-aq", "--no-trunc", "--filter", "label=beige.dev/store");
const back = async (): Promise<void> => {
  await until(
    async () => (await ready())?.status === "True" && (await exec("echo back")).content?.[0]?.text === "back\n",
    40_000,
    "it is back",
  );
};
/** A command that leaves a line before and after; what it ended with, and how many lines of each there are. */
async function during(fault: () => Promise<void> | void, seconds = 3): Promise<Answer> {
  const mark = `m${performance.now()}`;
  const running = exec(`echo ${mark} >>/workspace/marks; sleep ${seconds}; echo whole`);
  await until(async () => (await exec(`grep -c ${mark} marks || true`)).content?.[0]?.text === "1\n", 10_000, "the command runs");
  await fault();
  const answer = await running;
  await back();
  expect((await exec(`grep -c ${mark} marks`)).content?.[0]?.text).toBe("1\n");
  return answer;
}
/** Not done, and said so. */
function expectLost(answer: Answer): void {
  expect(answer.exitCode).not.toBe(0);
  expect(answer.outcome).not.toBe("ok");
  expect(answer.content?.[0]?.text ?? "").not.toContain("whole");
}

beforeAll(async () => {
  engine("ensure");
  gateway = makeGateway({ env: { DOCKER_HOST: `unix://${socket}` } });
  await gateway.start();
  await gateway.apply(STACK);
}, 120_000);
afterAll(async () => {
  await gateway?.beige("delete", "agent/a", "--yes");
  await gateway?.clean();
  engine("stop");
  rmSync(root, { recursive: true, force: true });
}, 60_000);

test("an engine that freezes for some seconds: the command's result comes whole when it goes on", async () => {
  const answer = await during(async () => {
    process.kill(enginePid(), "SIGSTOP");
    await pause(4000);
    process.kill(enginePid(), "SIGCONT");
  });
  if (answer.exitCode === 0) expect(answer.content?.[0]?.text).toBe("whole\n");
  else expectLost(answer);
});

test("an engine that is killed and started again: the command is lost and said to be, the agent says so and comes back", async () => {
  const seen: string[] = [];
  const answer = await during(async () => {
    process.kill(enginePid(), "SIGKILL");
    seen.push(
      (await until(async () => ((await ready())?.status === "True" ? undefined : await ready()), 15_000, "a true condition")).reason,
    );
    engine("ensure");
  }, 20);
  expectLost(answer);
  expect(seen).toStrictEqual([expect.stringMatching(/Engine|Unavailable|Unknown/)]);
}, 90_000);

test("a container that is paused goes on, and the command in it is done once", async () => {
  const answer = await during(async () => {
    docker("pause", box());
    await pause(500);
  });
  expect([answer.exitCode, answer.content?.[0]?.text]).toStrictEqual([0, "whole\n"]);
});

test("a container that is removed: the command is lost, another takes its place on the same workspace", async () => {
  const before = box();
  expectLost(await during(() => void docker("rm", "-f", before), 20));
  expect(box()).not.toBe(before);
});

test("a container whose PID 1 is killed, as by the kernel for memory: the command is lost, it starts again", async () => {
  const pid = Number(docker("inspect", "-f", "{{.State.Pid}}", box()));
  expectLost(await during(() => void process.kill(pid, "SIGKILL"), 20));
});

test("a command that the kernel ends for memory is an oom, and its sandbox stays", async () => {
  const before = box();
  const answer = await exec("dd if=/dev/zero of=/dev/null bs=200M count=1");
  expect([answer.exitCode, JSON.stringify(answer)]).toStrictEqual([137, expect.stringMatching(/memory|oom/i)]);
  expect([box(), (await exec("echo still")).content?.[0]?.text]).toStrictEqual([before, "still\n"]);
});
