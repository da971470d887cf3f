// Snapshots of a real agent's workspace by the command line, while it works and while it does not.
import { mkdirSync, readdirSync, readFileSync, statSync } from "node:fs";
import { join } from "node:path";
import { afterEach, expect, test } from "vitest";
import { makeGateway, pause, type Gateway } from "../gateway.ts";

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
  sandbox: {image: "beige-tiny:1", resources: {memory: 64Mi, cpus: 500m, pids: 64}}
  workspace: {snapshot: session}
`;

let gateway: Gateway;
afterEach(async () => gateway.clean());
const exec = async (command: string) => (await gateway.request("POST", "/api/agents/worker/exec", { command })).body;

test("an agent's workspace goes back to a snapshot under its running sandbox, owned by it, and not while it is at work", async () => {
  gateway = makeGateway();
  await gateway.start();
  await gateway.apply(STACK);
  const workspace = join(gateway.home, "agents/default.worker/workspace");
  await exec("mkdir -p src; echo one >src/file; chmod 750 src/file; ln -s /etc/passwd link");
  const made = await gateway.beige("snapshot", "create", "worker", "--note", "first");
  expect(made.code).toBe(0);
  const id = made.out.trim();
  await exec("echo two >>src/file; rm link; echo new >new");
  const diff = await gateway.beige("snapshot", "diff", "worker", id);
  expect([diff.code, diff.out]).toStrictEqual([1, "- link\n+ new\n~ src/file\n"]);
  const busy = exec("sleep 30");
  await pause(700);
  const refused = await gateway.beige("snapshot", "restore", "worker", id, "--yes");
  expect([refused.code, refused.err]).toStrictEqual([3, expect.stringContaining("agent worker is at work")]);
  const restored = await gateway.beige("snapshot", "restore", "worker", id, "--yes", "--stop");
  expect([restored.code, restored.err]).toStrictEqual([0, ""]);
  expect((await busy).exitCode).not.toBe(0);
  expect((await exec("cat src/file; readlink link; ls; echo mine >>src/file; stat -c %a src/file")).content[0].text).toMatch(
    /^one\n\/etc\/passwd\nlink\nsrc\n750\n/,
  );
  expect(statSync(join(workspace, "src/file")).uid).toBe(statSync(workspace).uid);
  const list = JSON.parse((await gateway.beige("snapshot", "list", "worker", "-o", "json")).out) as { id: string; cause: string }[];
  expect(list.map(({ cause }) => cause)).toStrictEqual(["person", "restore"]);
  // What was replaced is there.
  await gateway.beige("snapshot", "restore", "worker", list[1]?.id ?? "", "--yes");
  expect(readFileSync(join(workspace, "src/file"), "utf8")).toBe("one\ntwo\n");
  expect((await exec("ls /beige /workspace; find / -name snapshots 2>/dev/null")).content[0].text).not.toContain("snapshots");
  expect((await gateway.beige("snapshot", "delete", "worker", id, "--yes")).code).toBe(0);
});

test("a session begins with a snapshot, and its second message with none", async () => {
  gateway = makeGateway();
  await gateway.start();
  await gateway.apply(STACK);
  await exec("echo kept >file");
  for (const session of ["cli:a", "cli:a", "cli:b"]) await gateway.stream("/api/agents/worker/prompt", { text: "hello", session });
  const { items } = (await gateway.request("GET", "/api/agents/worker/snapshots")).body;
  expect(items.map(({ cause, note }: { cause: string; note: string }) => `${cause}: ${note}`)).toStrictEqual([
    "session: before session cli:a",
    "session: before session cli:b",
  ]);
  mkdirSync(join(gateway.home, "x"));
  expect(readdirSync(join(gateway.home, "agents/default.worker")).toSorted()).toContain("snapshots");
});
