// What hurt elsewhere, replayed on a whole gateway with a real engine: drift by hand, neighbours, killed gateways, stuck commands.
import { spawn, spawnSync } from "node:child_process";
import { mkdtempSync, readdirSync, readFileSync, rmSync, statSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, expect, test } from "vitest";
import { makeGateway, pause, root, until } from "../gateway.ts";
import { engineScript } from "./ground.ts";

const gateway = makeGateway();
const SECRET = "hunter2-hunter2-hunter2";
const folder = mkdtempSync(join(tmpdir(), "beige-pains-"));
const docker = (...args: string[]): string => {
  const ran = spawnSync("docker", args, { encoding: "utf8" });
  if (ran.status !== 0) throw new Error(`docker ${args.join(" ")}: ${ran.stderr}`);
  return ran.stdout.trim();
};
/** Containers of others, to be removed at the end. */
const foreign: string[] = [];

const BASE = `
apiVersion: beige.dev/v1
kind: Provider
metadata: {name: offline}
spec:
  api: echo
  echo:
    steps:
      - {match: "^slow", delayMs: 60000, text: "late"}
      - {match: "^use (.*)", toolCall: {tool: exec, args: {command: "sleep 97"}}}
---
apiVersion: beige.dev/v1
kind: Plugin
metadata: {name: memory}
spec: {source: {builtin: memory}, secrets: {token: {env: PAINS_SECRET}}}
`;
const agent = (name: string, more = "", sandbox = ""): string => `---
apiVersion: beige.dev/v1
kind: Agent
metadata: {name: ${name}}
spec:
  model: {provider: offline, id: echo-1}
  tools: [memory]
  ${more}
  sandbox: {image: "beige-tiny:1", resources: {memory: 64Mi, cpus: 500m, pids: 64, tmp: 1Mi}, ${sandbox}}
`;

beforeAll(async () => {
  spawnSync(engineScript, ["ensure"], { stdio: ["ignore", "ignore", "inherit"] });
  await gateway.start({ PAINS_SECRET: SECRET });
  await gateway.apply(BASE + agent("dev") + agent("dev2"));
});
afterAll(async () => {
  await gateway.clean();
  if (foreign.length > 0) spawnSync("docker", ["rm", "-f", ...foreign]);
  rmSync(folder, { recursive: true, force: true });
});

/** Ids of an agent's containers by its label, whatever their names. */
const boxes = (name: string): readonly string[] => gateway.containers().filter((id) => label(id) === name);
/** Empty when it went meanwhile. */
const label = (id: string): string =>
  spawnSync("docker", ["inspect", "-f", '{{index .Config.Labels "beige.dev/name"}}', id], { encoding: "utf8" }).stdout.trim();
const state = (id: string): string => docker("inspect", "-f", "{{.State.Status}} {{.State.Paused}}", id);
const inspect = (id: string): any => JSON.parse(docker("inspect", id))[0]; // eslint-disable-line -- a test looks into an arbitrary answer
interface Ran {
  readonly success: boolean;
  readonly exitCode: number;
  readonly outcome: string;
  readonly content: readonly { readonly text: string }[];
}
const exec = async (name: string, command: string, timeout = 20): Promise<Ran> =>
  (await gateway.request("POST", `/api/agents/${name}/exec`, { command, timeout })).body as Ran;
const works = async (name: string): Promise<boolean> =>
  (await exec(name, "memory list >/dev/null && echo fine"))?.content?.[0]?.text === "fine\n";
const ready = async (name: string): Promise<{ status: string; reason: string; message: string }> => {
  const { body } = await gateway.request("GET", `/apis/beige.dev/v1/namespaces/default/agents/${name}`);
  return body.status.conditions.find((one: { type: string }) => one.type === "Ready");
};
type Row = Readonly<Record<string, unknown>>;
const rows = (): readonly Row[] =>
  readFileSync(join(gateway.home, "logs/audit.jsonl"), "utf8")
    .split("\n")
    .filter(Boolean)
    .map((line) => JSON.parse(line) as Row);
const sleeping = (id: string, what = "sleep 97"): boolean => docker("top", id, "-eo", "pid,args").includes(what);

test("what is made is what is written, and no secret is in it (P49, P113)", () => {
  const { Config, HostConfig } = inspect(boxes("dev")[0] ?? "");
  expect(HostConfig).toMatchObject({
    Memory: 64 << 20,
    NanoCpus: 500_000_000,
    PidsLimit: 64,
    NetworkMode: "none",
    ReadonlyRootfs: true,
    CapDrop: ["ALL"],
    Privileged: false,
    Init: false,
  });
  expect(Config.User).toMatch(/^2\d{4}:2\d{4}$/);
  expect(JSON.stringify(inspect(boxes("dev")[0] ?? ""))).not.toContain(SECRET);
});

test.each([
  ["removed", (id: string) => docker("rm", "-f", id)],
  ["stopped", (id: string) => docker("stop", "-t", "0", id)],
  ["killed", (id: string) => docker("kill", id)],
  ["paused", (id: string) => docker("pause", id)],
  ["given more memory", (id: string) => docker("update", "--memory", "128m", "--memory-swap", "128m", id)],
  ["given a network", (id: string) => docker("network", "connect", "bridge", id)],
  ["renamed", (id: string) => docker("rename", id, `stolen-${Date.now()}`)],
])("a container that is %s by hand is as written again, and the other agent is left alone (P53, P69)", async (what, hurt) => {
  const [id = ""] = boxes("dev");
  const other = boxes("dev2");
  if (what === "given a network") docker("network", "disconnect", "none", id);
  hurt(id);
  await until(
    async () => {
      const now = boxes("dev");
      const seen = spawnSync("docker", ["inspect", now[0] ?? ""], { encoding: "utf8" });
      if (now.length !== 1 || seen.status !== 0) return false;
      const { HostConfig, NetworkSettings, Name, State } = (JSON.parse(seen.stdout) as any[])[0]; // eslint-disable-line -- as above
      if (State.Status !== "running" || State.Paused === true) return false;
      if (HostConfig.Memory !== 64 << 20 || !String(Name).includes("beige-dev") || Object.keys(NetworkSettings.Networks).join() !== "none")
        return false;
      return (await works("dev")) && (await ready("dev")).status === "True";
    },
    60_000,
    `the agent serves again after it was ${what}`,
  );
  expect(boxes("dev2")).toEqual(other);
  const differs = await gateway.beige("get", "agent", "dev", "-o", "jsonpath={.status.conditions[?(@.type=='Drifted')].status}");
  expect(differs.out).not.toContain("True");
});

test("a command that is over its time, and one whose caller leaves, leave no process and say so in the audit (P61)", async () => {
  const [id = ""] = boxes("dev");
  const late = await exec("dev", "sleep 97 & sleep 97", 1);
  expect(late).toMatchObject({ success: false, outcome: "timeout" });
  await until(() => !sleeping(id), 2000, "nothing sleeps after a timeout");
  const cli = spawn(process.execPath, [join(root, "bin/beige.cjs"), "exec", "dev", "--", "setsid sleep 97 & sleep 97"], {
    env: { ...process.env, BEIGE_HOME: gateway.home },
    stdio: "ignore",
  });
  await until(() => sleeping(id), 10_000, "the command runs");
  cli.kill("SIGKILL");
  await until(() => !sleeping(id), 3000, "nothing sleeps after the caller left");
  const outcomes = (what: string) =>
    rows()
      .filter((row) => row.phase !== "begin" && row.tool === "exec" && String(row.args).includes(what))
      .map((row) => row.outcome);
  expect(outcomes("sleep 97")).toEqual(["timeout", "cancelled"]);
});

test("of what runs when the gateway is killed, the turn's command is taken up again and the others are ended (P61)", async () => {
  const [id = ""] = boxes("dev");
  const cut = [
    gateway.stream("/api/agents/dev/prompt", { text: "use it", session: "api:pain" }),
    gateway.stream("/api/agents/dev/exec", { command: "sleep 98 & sleep 98", timeout: 300 }),
  ];
  await until(() => sleeping(id) && sleeping(id, "sleep 98"), 10_000, "both commands run");
  await gateway.kill();
  await Promise.all(cut);
  await gateway.start({ PAINS_SECRET: SECRET });
  await until(() => !sleeping(id, "sleep 98"), 45_000, "what nobody waits for is ended");
  expect(sleeping(id)).toBe(true);
  expect(await gateway.beige("session", "abort", "dev", "api:pain")).toMatchObject({ code: 0 });
  await until(() => !sleeping(id), 5000, "the turn's command ends with its turn");
  const outcome = (what: string) =>
    rows().findLast((row) => row.phase === "end" && row.tool === "exec" && String(row.args).includes(what))?.outcome;
  await until(() => outcome("sleep 97") === "cancelled" && outcome("sleep 98") === "unknown", 10_000, "both are on the record");
}, 90_000);

test("after kill -9 of the gateway the running container's tools work again, with the same container (P59)", async () => {
  const before = [...boxes("dev"), ...boxes("dev2")];
  for (let round = 0; round < 3; round += 1) {
    await gateway.kill();
    await gateway.start({ PAINS_SECRET: SECRET });
    await until(() => works("dev"), 10_000, "the tool works");
    await until(() => works("dev2"), 10_000, "the other's too");
  }
  expect([...boxes("dev"), ...boxes("dev2")]).toEqual(before);
});

test("a command that runs out of memory says so, also where a pipeline hides it (P67)", async () => {
  const commands = [
    "tail -c 100000000 /dev/zero | wc -c",
    "x=$(tail -c 100000000 /dev/zero); echo ${#x}",
    "tail -c 100000000 /dev/zero >/dev/null; true",
  ];
  for (const command of commands) {
    const ran = await exec("dev", command);
    expect([command, ran.success, ran.outcome], JSON.stringify(ran)).toEqual([command, false, "oom"]);
  }
  const { items } = (await gateway.request("GET", "/api/events?kind=Agent&name=dev")).body as { items: Row[] };
  const told = items.filter(({ reason }) => reason === "OutOfMemory");
  expect(told).toMatchObject([{ type: "Warning", count: commands.length, message: expect.stringContaining("64Mi") as string }]);
  expect((await gateway.beige("describe", "agent", "dev")).out).toContain("OutOfMemory");
  expect(rows().findLast((row) => row.tool === "exec")).toMatchObject({ outcome: "oom", error: expect.stringMatching(/memory/) as string });
  expect(await works("dev")).toBe(true);
});

test("a secret that a command or a denied call names is in no record, and records are private (P113)", async () => {
  await exec("dev", `export KEY=${SECRET}; echo $KEY >/dev/null`);
  await gateway.request("POST", "/api/agents/dev/exec", {
    tool: "nothing",
    args: [`export KEY=${SECRET}`, Buffer.from(SECRET).toString("base64")],
  });
  await gateway.beige("exec", "dev", "--", "sh", "-c", `cat <<< "${encodeURIComponent(SECRET)}"`);
  const logs = join(gateway.home, "logs");
  for (const name of readdirSync(logs)) {
    const text = readFileSync(join(logs, name), "utf8");
    expect([name, text.includes(SECRET), text.includes(Buffer.from(SECRET).toString("base64"))]).toEqual([name, false, false]);
    expect([name, statSync(join(logs, name)).mode & 0o077]).toEqual([name, 0]);
  }
  expect(rows().some((row) => row.decision === "denied" && row.tool === "nothing")).toBe(true);
});

test("only the content of a text file changed: it is a difference, and it is applied without another container (P37, P41)", async () => {
  writeFileSync(join(folder, "role.md"), "You are one.\n");
  const file = join(folder, "role.yaml");
  writeFileSync(file, agent("role", "instructions: {file: ./role.md}").slice(4));
  const beige = (verb: string, ...more: string[]) => gateway.beige(verb, "-f", file, "--set", "role", ...more);
  expect(await beige("apply")).toMatchObject({ code: 0 });
  const before = boxes("role");
  const changes: [string, () => void][] = [
    ["instructions", () => writeFileSync(join(folder, "role.md"), "You are two.\n")],
    ["instructions", () => writeFileSync(join(folder, "role.md"), "You are two. \n")],
    ["model.id", () => writeFileSync(file, readFileSync(file, "utf8").replace("echo-1", "echo-2"))],
    [
      "plugins",
      () => writeFileSync(file, readFileSync(file, "utf8").replace("tools: [memory]", "tools: [memory]\n  plugins: {memory: {size: 3}}")),
    ],
    ["tools", () => writeFileSync(file, readFileSync(file, "utf8").replace("tools: [memory]", "tools: []"))],
  ];
  for (const [field, change] of changes) {
    expect((await beige("diff")).code).toBe(0);
    change();
    const diff = await beige("diff");
    expect([field, diff.code, diff.out.includes(field)], diff.out + diff.err).toEqual([field, 1, true]);
    expect((await beige("apply")).code).toBe(0);
  }
  const { spec } = (await gateway.request("GET", "/apis/beige.dev/v1/namespaces/default/agents/role")).body;
  expect(spec).toMatchObject({ instructions: "You are two. \n", model: { id: "echo-2" }, tools: [], plugins: { memory: { size: 3 } } });
  expect(boxes("role")).toEqual(before);
  expect((await exec("role", "memory list")).exitCode).not.toBe(0);
}, 180_000);

test("what is not ours stays, whatever its name and labels, over deletes and restarts (P47, P55)", async () => {
  const make = (...args: string[]): string => {
    const id = docker("run", "-d", "--network", "none", ...args, "beige-tiny:1", "sleep", "1000");
    foreign.push(id);
    return id;
  };
  const name = inspect(boxes("dev")[0] ?? "").Name.slice(1) as string;
  const strangers = [
    make("--name", name.replace("dev", "dev3")),
    make("--name", `${name}x`, "--label", "beige.dev/name=dev", "--label", "beige.dev/kind=Agent"),
    make(
      "--label",
      "beige.dev/store=00000000-0000-4000-8000-000000000000",
      "--label",
      "beige.dev/name=dev",
      "--label",
      "beige.dev/kind=Agent",
    ),
  ];
  const kept = boxes("dev2");
  expect(await gateway.beige("delete", "agent", "dev")).toMatchObject({ code: 0 });
  await gateway.beige("wait", "agent/dev", "--for=delete", "--timeout", "30s");
  await gateway.stop();
  await gateway.start({ PAINS_SECRET: SECRET });
  await until(() => works("dev2"), 15_000, "the neighbour works");
  expect(boxes("dev2")).toEqual(kept);
  expect(boxes("dev")).toEqual([]);
  expect(strangers.map(state)).toEqual(strangers.map(() => "running false"));
});

test("an agent that is deleted and made again at once gets its name, again and again (P57)", async () => {
  const make = () => gateway.apply(agent("phoenix"), { set: "phoenix" });
  await make();
  const { Name } = inspect(boxes("phoenix")[0] ?? "");
  for (let round = 0; round < 4; round += 1) {
    expect(await gateway.beige("delete", "agent", "phoenix", "--yes")).toMatchObject({ code: 0 });
    await make();
    expect(boxes("phoenix").map((id) => inspect(id).Name as string)).toEqual([Name]);
    expect((await ready("phoenix")).status).toBe("True");
  }
});

test("thirty turns that run out of time or lose their reader leave no descriptor behind (P103)", async () => {
  const open = (): number => readdirSync(`/proc/${gateway.pid()}/fd`).length;
  const turn = async (i: number): Promise<void> => {
    const ran = spawn(process.execPath, [join(root, "bin/beige.cjs"), "prompt", "dev2", "slow", "--session", `s${i}`], {
      env: { ...process.env, BEIGE_HOME: gateway.home },
      stdio: "ignore",
    });
    await pause(1500);
    ran.kill("SIGKILL");
  };
  await Promise.all([turn(100), turn(101)]);
  await pause(500);
  const before = open();
  for (let round = 0; round < 6; round += 1) await Promise.all([1, 2, 3, 4, 5].map((i) => turn(round * 5 + i)));
  await until(() => open() <= before + 3, 10_000, `descriptors fall back to ${before}, now ${open()}`);
});

test("SIGTERM during a turn ends it with a last event, and the gateway within 11 s with 0 (P127)", async () => {
  const events: { type: string; message?: string }[] = [];
  const asked = gateway.stream("/api/agents/dev2/prompt", { text: "slow one" }, (line) => events.push(line));
  await until(() => events.some((event) => event.type === "session"), 10_000, "the turn has begun");
  const begun = performance.now();
  const code = await gateway.stop();
  expect([code, performance.now() - begun < 11_500]).toEqual([0, true]);
  await asked;
  expect(events.at(-1)).toMatchObject({ type: "error" });
  await gateway.start({ PAINS_SECRET: SECRET });
  expect(await works("dev2")).toBe(true);
});

test("twelve agents are made and deleted together, far from one grace after the other (P129)", async () => {
  const names = Array.from({ length: 12 }, (_, i) => `crowd${i}`);
  await gateway.apply(names.map((name) => agent(name)).join(""), { set: "crowd", timeoutMs: 120_000 });
  const begun = performance.now();
  expect((await gateway.beige("delete", ...names.map((name) => `agent/${name}`), "--yes")).code).toBe(0);
  await until(() => names.every((name) => boxes(name).length === 0), 60_000, "all are gone");
  expect(performance.now() - begun).toBeLessThan(30_000);
}, 240_000);
