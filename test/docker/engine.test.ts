// The script that makes an engine, and the Sandbox port while an engine dies and comes back. Private engines only.
import { execFileSync, spawn, spawnSync, type SpawnSyncReturns } from "node:child_process";
import { existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, expect, test } from "vitest";
import { codeOf, finish } from "../contract/sandbox.ts";
import { engineScript, openDocker, openGround, type Ground } from "./ground.ts";

let root: string;
let ground: Ground;
const socket = (): string => join(root, "docker.sock");
const pidFile = (): string => join(root, "docker.pid");
const enginePid = (): number => Number(readFileSync(pidFile(), "utf8"));
const script = (word: string, env: NodeJS.ProcessEnv = {}, more: { uid?: number; gid?: number } = {}): SpawnSyncReturns<string> =>
  spawnSync(engineScript, [word], { env: { ...process.env, BEIGE_ENGINE_ROOT: root, ...env }, encoding: "utf8", ...more });
const start = (): Promise<{ code: number | null; out: string }> =>
  new Promise((resolve) => {
    const child = spawn(engineScript, [], { env: { ...process.env, BEIGE_ENGINE_ROOT: root }, stdio: ["ignore", "pipe", "pipe"] });
    let out = "";
    child.stdout.on("data", (data: Buffer) => (out += data.toString()));
    child.on("close", (code) => resolve({ code, out }));
  });
const processes = (word: string): number =>
  execFileSync("ps", ["-eo", "stat,args"], { encoding: "utf8" })
    .split("\n")
    .filter((line) => line.includes(word) && !line.startsWith("Z")).length;
const killEngine = async (): Promise<void> => {
  process.kill(enginePid(), "SIGKILL");
  await expect.poll(() => processes(`dockerd --data-root ${root}/`)).toBe(0);
};
const elapsed = async (work: () => Promise<unknown>): Promise<number> => {
  const began = performance.now();
  await work();
  return performance.now() - began;
};

beforeAll(() => {
  root = mkdtempSync(join(tmpdir(), "beige-engine-"));
});
afterAll(async () => {
  await ground?.cleanup().catch(() => undefined);
  script("stop");
  rmSync(root, { recursive: true, force: true });
});

test("without an engine the status says so and nothing is changed", () => {
  const { status, stdout } = script("status");
  expect([status, stdout]).toStrictEqual([5, `engine: none answers at ${socket()}\n`]);
  expect(script("images").status).toBe(5);
  expect(script("stop").status).toBe(5);
  expect(existsSync(pidFile())).toBe(false);
});

test("two processes at once make one engine with both images, and the bridge of the first engine stays", async () => {
  const bridge = existsSync("/sys/class/net/docker0");
  const ends = await Promise.all([start(), start()]);
  for (const { code, out } of ends) {
    expect(code).toBe(0);
    expect(out).toMatch(/^engine: Docker \S+ at .*docker\.sock; images: beige-tiny:1 beige-base:1/);
  }
  expect(processes(`dockerd --data-root ${root}/`)).toBe(1);
  expect(existsSync("/sys/class/net/docker0")).toBe(bridge);
});

test("a second call does nothing: the same engine, nothing made, nothing said but the status", () => {
  const before = enginePid();
  const { status, stdout, stderr } = script("ensure");
  expect([status, stdout.startsWith("engine: Docker "), stderr]).toStrictEqual([0, true, ""]);
  expect(enginePid()).toBe(before);
});

test("an engine that is killed makes everything unavailable, a command lost, and the watch comes back by itself", async () => {
  ground = openGround(socket());
  const id = await ground.up();
  const log: string[] = [];
  const stop = new AbortController();
  const watching = ground.sandbox.watch(
    { hint: () => undefined, relist: () => log.push("relist"), down: () => log.push("down") },
    stop.signal,
  );
  await expect.poll(() => log).toStrictEqual(["relist"]);
  const handle = await ground.sandbox.exec(id, { command: ["sleep", "401"], timeoutMs: 3000 });
  await killEngine();
  expect((await finish(handle)).exit).toMatchObject({ kind: "lost" });
  expect(await codeOf(ground.sandbox.list(ground.store))).toBe("unavailable");
  expect(await codeOf(ground.sandbox.inspect(id))).toBe("unavailable");
  await expect.poll(() => log).toStrictEqual(["relist", "down"]);
  expect((await start()).code).toBe(0);
  await expect.poll(() => log, { timeout: 15_000 }).toStrictEqual(["relist", "down", "relist"]);
  // The next engine ended what the last one left running; it is seen and can go on.
  expect((await ground.sandbox.inspect(id))?.state).toBe("exited");
  await ground.sandbox.start(id);
  expect((await ground.run(id, "echo back")).stdout.toString()).toBe("back\n");
  stop.abort();
  await watching;
});

test("a pid file that names a stranger, a dead socket, an orphaned containerd and garbage do not keep an engine from coming up", async () => {
  const stranger = spawn("sleep", ["411"]);
  try {
    for (const left of [`${stranger.pid}`, `${process.pid}`, "999999999", "garbage", "", String(enginePid())]) {
      await killEngine();
      writeFileSync(pidFile(), left);
      expect([left, (await start()).code]).toStrictEqual([left, 0]);
    }
    expect(stranger.exitCode).toBeNull();
    expect(processes(`containerd --config ${root}/exec`)).toBe(1);
    expect(await openDocker(socket()).ping()).toMatchObject({ rootless: false });
  } finally {
    stranger.kill();
  }
});

test("a frozen engine meets a deadline instead of holding its caller, and is replaced by the script", async () => {
  const old = enginePid();
  process.kill(old, "SIGSTOP");
  const signal = AbortSignal.timeout(300);
  expect(
    await elapsed(() =>
      openDocker(socket())
        .ping(signal)
        .catch(() => undefined),
    ),
  ).toBeLessThan(1000);
  const end = script("ensure", { BEIGE_ENGINE_WAIT: "1" });
  expect([end.status, end.stderr]).toStrictEqual([0, expect.stringContaining(`${old} does not answer; ending it`)]);
  expect(enginePid()).not.toBe(old);
}, 60_000);

test("a frozen engine that the script did not start is left alone, with a word on what to do", () => {
  const old = enginePid();
  const mark = readFileSync(join(root, "started"));
  writeFileSync(join(root, "started"), "1 1\n");
  process.kill(old, "SIGSTOP");
  try {
    const end = script("ensure", { BEIGE_ENGINE_WAIT: "1" });
    expect([end.status, end.stderr]).toStrictEqual([5, expect.stringContaining(`kill ${old}`)]);
    expect(enginePid()).toBe(old);
  } finally {
    process.kill(old, "SIGCONT");
    writeFileSync(join(root, "started"), mark);
  }
}, 60_000);

test("somebody who is not root and has no engine is told exactly what to run", () => {
  const home = mkdtempSync(join(tmpdir(), "beige-nobody-"));
  try {
    execFileSync("chown", ["65534:65534", home]);
    const env = { BEIGE_ENGINE_ROOT: "", HOME: home, BEIGE_HOME: join(home, ".beige") };
    const none = script("ensure", { ...env, DOCKER_HOST: `unix://${home}/none.sock` }, { uid: 65_534, gid: 65_534 });
    expect([none.status, none.stderr]).toStrictEqual([5, expect.stringContaining(`sudo ${engineScript}`)]);
    const shut = script("ensure", { ...env, DOCKER_HOST: `unix://${socket()}` }, { uid: 65_534, gid: 65_534 });
    expect([shut.status, shut.stderr]).toStrictEqual([5, expect.stringMatching(/usermod -aG docker|only root can start one/)]);
    expect(script("ensure", { ...env, DOCKER_HOST: "tcp://x:1" }).status).toBe(5);
  } finally {
    rmSync(home, { recursive: true, force: true });
  }
});

test("an engine that is not there is unavailable with the command that starts one", async () => {
  const nobody = openDocker("/tmp/beige-no-such.sock");
  await expect(nobody.ping()).rejects.toMatchObject({ code: "unavailable", hint: expect.stringContaining("engine.sh") as string });
  expect(await codeOf(nobody.list("x"))).toBe("unavailable");
  expect(await codeOf(nobody.exec("x", { command: ["true"], timeoutMs: 1 }))).toBe("unavailable");
});

test("a word that is none is a usage error", () => {
  expect(script("nonsense").status).toBe(2);
});

test("stopping ends the engine, its containerd and its containers, leaves no mount, and no other engine is touched", async () => {
  await ground.up({ name: "beige-test-left-running" });
  const others = processes("dockerd") - processes(`dockerd --data-root ${root}/`);
  expect(script("stop").status).toBe(0);
  expect([processes(`${root}/`), processes("dockerd")]).toStrictEqual([0, others]);
  expect(readFileSync("/proc/mounts", "utf8")).not.toContain(root);
  expect(script("stop").status).toBe(5);
}, 60_000);

test("in the place of the machine's own engine a lost bridge is brought back after a crash", () => {
  // Everything that such an engine touches is given to it anew: network, processes, /run and its data. There is no way out of it,
  // so the busybox comes along.
  const place = mkdtempSync(join(tmpdir(), "beige-place-"));
  const busybox = execFileSync("docker", ["run", "--rm", "beige-tiny:1", "cat", "/bin/busybox"], { maxBuffer: 16 << 20 });
  writeFileSync(join(place, "busybox"), busybox, { mode: 0o755 });
  const inner = `set -e
    export PATH=${place}:$PATH
    mount --make-rprivate / && mount -t tmpfs none /run && mkdir -p /var/lib/docker && mount -t tmpfs none /var/lib/docker && ip link set lo up
    ${engineScript} ensure 9>&- && ip link show docker0 >/dev/null && echo first
    kill -9 $(cat /var/run/docker.pid) && sleep 0.3 && ip link del docker0
    ${engineScript} ensure && ip link show docker0 >/dev/null && echo again
    docker run --rm --network bridge beige-tiny:1 ip link show eth0 >/dev/null && echo networked
    ip link del docker0 && ${engineScript} ensure && docker run --rm --network bridge beige-tiny:1 ip link show eth0 >/dev/null && echo mended
    ${engineScript} stop && ! docker version >/dev/null 2>&1 && echo stopped`;
  try {
    const env = { ...process.env, BEIGE_ENGINE_ROOT: "", DOCKER_HOST: "" };
    const end = spawnSync("unshare", ["--net", "--mount", "--pid", "--fork", "--mount-proc", "sh", "-c", inner], {
      env,
      encoding: "utf8",
      cwd: place,
    });
    expect(
      end.stdout.split("\n").filter((line) => /^[a-z]+$/.test(line)),
      end.stderr,
    ).toStrictEqual(["first", "again", "networked", "mended", "stopped"]);
  } finally {
    rmSync(place, { recursive: true, force: true });
  }
}, 120_000);
