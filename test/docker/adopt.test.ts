// Adoption on the real engine: a home whose store was lost takes its running container over, and a stranger's is waited for and never touched.
import { spawnSync } from "node:child_process";
import { chownSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, expect, test } from "vitest";
import { makeGateway, pause, until, type Gateway } from "../gateway.ts";

const docker = (...args: string[]): string => spawnSync("docker", args, { encoding: "utf8" }).stdout.trim();
const state = (id: string): string => docker("inspect", "-f", "{{.State.Status}} {{.State.StartedAt}} {{.Name}}", id);

const PROVIDER = `
apiVersion: beige.dev/v1
kind: Provider
metadata: {name: scripted}
spec:
  api: echo
  echo:
    steps:
      - {match: "^work", toolCall: {tool: exec, args: {command: "cat note; hostname"}}}
      - {match: ".", from: tool, text: "answered by $0"}
`;
const AGENT = `
apiVersion: beige.dev/v1
kind: Agent
metadata: {name: worker}
spec:
  model: {provider: scripted, id: echo-1}
  sandbox: {image: "beige-tiny:1", env: {MODE: kept, LANG: C}, path: /bin, resources: {memory: 64Mi, cpus: 500m, pids: 64, tmp: 1Mi}}
`;

let gateway: Gateway;
const strangers: string[] = [];
afterEach(async () => {
  await gateway.clean();
  if (strangers.length > 0) docker("rm", "-f", ...strangers.splice(0));
});

const worker = async (): Promise<any> => (await gateway.request("GET", "/apis/beige.dev/v1/namespaces/default/agents/worker")).body; // eslint-disable-line -- tests look into arbitrary answers
const exec = async (command: string): Promise<string> =>
  JSON.stringify((await gateway.request("POST", "/api/agents/worker/exec", { command })).body);
const ready = async (): Promise<{ status: string; reason: string; message: string }> =>
  (await worker()).status?.conditions?.find((each: { type: string }) => each.type === "Ready");

/** An agent with a note in its workspace and a conversation; then the gateway dies and its store is lost. */
async function lostStore(): Promise<{ readonly id: string; readonly session: string }> {
  gateway = makeGateway();
  await gateway.start();
  await gateway.apply(PROVIDER + "---" + AGENT);
  await exec("echo kept > note");
  expect((await gateway.stream("/api/agents/worker/prompt", { text: "work one" })).at(-1)).toMatchObject({ type: "done" });
  const [id = ""] = gateway.containers();
  // Cleaned up by its id: the new store does not know it.
  strangers.push(id);
  await gateway.kill();
  const folder = join(gateway.home, "sessions/default.worker");
  const [session = ""] = spawnSync("ls", [folder], { encoding: "utf8" }).stdout.trim().split("\n");
  for (const name of ["state.db", "state.db-wal", "state.db-shm"]) rmSync(join(gateway.home, name), { force: true });
  await gateway.start();
  return { id, session: join(folder, session) };
}

test("after the store was lost, adopt goes on with the running container, its workspace and its conversation", async () => {
  const { id, session } = await lostStore();
  const before = state(id);
  const { items } = JSON.parse((await gateway.beige("orphans", "-o", "json")).out) as { items: { name: string; why: string }[] };
  const name = docker("inspect", "-f", "{{.Name}}", id).slice(1);
  expect(items.find((each) => each.name === name)?.why).toContain(`beige adopt ${name}`);
  const manifest = (await gateway.beige("adopt", name, "--model", "scripted/echo-1")).out;
  expect(manifest).toContain("beige.dev/adopt:");
  expect(manifest).not.toContain("workspace");
  const plan = (await gateway.apply(`${PROVIDER}---\n${manifest}`)).find((event) => event.type === "plan").plan;
  expect(plan.objects.find((each: { ref: { name: string } }) => each.ref.name === "worker").verb).toBe("adopt");
  expect(await worker()).toMatchObject({ status: { observed: { container: id.slice(0, 12) } } });
  // The same process under the name that the new store gives it.
  expect(state(id).split(" ").slice(0, 2)).toEqual(before.split(" ").slice(0, 2));
  expect(gateway.containers()).toEqual([]);
  const told = await gateway.stream("/api/agents/worker/prompt", { text: "work two" });
  expect(told.at(-1)).toMatchObject({ type: "done", text: expect.stringContaining(`kept\n${id.slice(0, 12)}`) });
  const conversation = readFileSync(session, "utf8");
  expect([conversation.includes("work one"), conversation.includes("work two")]).toEqual([true, true]);
  expect((await gateway.beige("orphans", "-o", "json")).out).not.toContain(name);
  // Another wish replaces it as any other, and its end is an agent's end.
  await gateway.apply(`${PROVIDER}---\n${manifest.replace("beige-tiny:1", "beige-base:1")}`);
  const [next = ""] = gateway.containers();
  expect([docker("ps", "-aq", "--no-trunc", "--filter", `id=${id}`), docker("inspect", "-f", "{{.Config.Image}}", next)]).toEqual([
    "",
    "beige-base:1",
  ]);
  expect(await exec("cat note")).toContain("kept");
  expect((await gateway.beige("delete", "agent/worker", "--yes")).code).toBe(0);
  expect(gateway.containers()).toEqual([]);
});

test("without adoption a lost store's container runs on untouched", async () => {
  const { id } = await lostStore();
  const before = state(id);
  await gateway.apply(PROVIDER + "---" + AGENT.replace("worker", "other"));
  await gateway.beige("delete", "agent/other", "--yes");
  await gateway.stop();
  await gateway.start();
  await pause(500);
  expect(state(id)).toBe(before);
});

test("a stranger's workspace is taken over once its owner has stopped the container, which stays as it is", async () => {
  gateway = makeGateway();
  const folder = mkdtempSync(join(tmpdir(), "beige-stranger-"));
  mkdirSync(join(folder, "work"));
  const work = join(folder, "work");
  writeFileSync(join(work, "note"), "theirs\n");
  try {
    writeFileSync(join(gateway.home, "host.yaml"), `paths: {workspaces: [${folder}]}\n`, { mode: 0o600 });
    const name = `stranger-${process.pid}`;
    docker("run", "-d", "--name", name, "--network", "none", "-v", `${work}:/workspace`, "beige-tiny:1", "sleep", "600");
    strangers.push(name);
    await gateway.start();
    const manifest = (await gateway.beige("adopt", name, "--model", "scripted/echo-1", "--name", "worker")).out;
    expect(manifest).toContain(`beige.dev/adopt: ${name}`);
    await gateway.apply(`${PROVIDER}---\n${manifest}`, { wait: false });
    const waits = await until(async () => ((await ready())?.reason === "AdoptWaits" ? ready() : undefined), 10_000, "it waits");
    expect(waits?.message).toContain(`docker stop ${name}`);
    expect([gateway.containers(), docker("inspect", "-f", "{{.State.Running}}", name)]).toEqual([[], "true"]);
    docker("kill", name);
    const stopped = state(name);
    // A folder that is not the sandbox's is refused with the command that mends it, which is the operator's to run.
    const refused = await until(
      async () => /chown -R \d+/.exec((await ready())?.message ?? "")?.[0],
      15_000,
      "the owner of the folder is asked for",
    );
    const uid = Number(refused.split(" ").at(-1));
    for (const path of [work, join(work, "note")]) chownSync(path, uid, uid);
    await gateway.beige("reconcile", "agent/worker");
    await until(async () => (await ready())?.status === "True", 20_000, "it is ready");
    expect(await exec("cat note")).toContain("theirs");
    expect(state(name)).toBe(stopped);
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
});
