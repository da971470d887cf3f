// An engine that is ended or killed under running commands: with live-restore each is whole, without it each is lost and said to be.
import { execFileSync, spawnSync } from "node:child_process";
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as pause } from "node:timers/promises";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { finish } from "../contract/sandbox.ts";
import { engineScript, openGround } from "./ground.ts";
import { killing, sha } from "./kills.ts";

const LINES = 100;
const SCRIPT = `i=0; while [ $i -lt ${LINES} ]; do head -c 30000 /dev/zero | tr '\\0' 'x'; echo "line $i"; echo "err $i" >&2; i=$((i+1)); sleep 0.1; done; exit 7`;
const lines = (of: (i: number) => string): string => sha(Array.from({ length: LINES }, (_, i) => of(i)).join(""));
const WHOLE = {
  key: "a",
  exit: { kind: "code", code: 7 },
  stdout: lines((i) => `${"x".repeat(30_000)}line ${i}\n`),
  stderr: lines((i) => `err ${i}\n`),
};
/** The gateway that is to die does so just before the engine. */
const LIFE_MS = 400;
const CASES = (["attach", "dial"] as const).flatMap((carrier) => [false, true].map((dies) => ({ carrier, dies })));

/** A private engine in a network of its own: the machine's own is never touched. */
function openEngine() {
  let args = "--live-restore";
  const root = mkdtempSync(join(tmpdir(), "beige-restore-"));
  const socket = join(root, "docker.sock");
  const engine = (word: string): void => {
    const env = { ...process.env, BEIGE_ENGINE_ROOT: root, BEIGE_ENGINE_ARGS: args };
    const { status } = spawnSync(engineScript, [word], { env, stdio: ["ignore", "ignore", "inherit"] });
    if (status !== 0) throw new Error(`engine.sh ${word}: ${status}`);
  };
  engine("ensure");
  const ground = openGround(socket);
  return {
    ground,
    socket,
    docker: (...words: string[]): string => execFileSync("docker", ["-H", `unix://${socket}`, ...words], { encoding: "utf8" }).trim(),
    start: () => engine("ensure"),
    /** Another one on the same images. */
    async without(): Promise<void> {
      await this.end("SIGTERM");
      args = "";
      engine("ensure");
    },
    async end(signal: "SIGTERM" | "SIGKILL"): Promise<void> {
      const pid = Number(readFileSync(join(root, "docker.pid"), "utf8"));
      process.kill(pid, signal);
      for (let left = 600; left > 0 && runs(pid); left--) await pause(50);
      expect(runs(pid)).toBe(false);
    },
    async close(): Promise<void> {
      await ground.cleanup();
      engine("stop");
      rmSync(root, { recursive: true, force: true });
    },
  };
}
function runs(pid: number): boolean {
  try {
    return !/^State:\s+Z/m.test(readFileSync(`/proc/${pid}/status`, "utf8"));
  } catch {
    return false;
  }
}

/** Four gateways, one for each case, and the engine that goes while all their commands run. */
async function under(engine: ReturnType<typeof openEngine>, signal: "SIGTERM" | "SIGKILL", back: (ids: readonly string[]) => void) {
  const ids = await Promise.all(CASES.map(() => engine.ground.up({ memoryBytes: 64 << 20 })));
  const opened = CASES.map(() => Promise.withResolvers<void>());
  const there = Promise.withResolvers<number>();
  const all = CASES.map(({ carrier, dies }, i) =>
    killing({
      socketPath: engine.socket,
      container: ids[i] ?? "",
      keys: ["a"],
      command: ["sh", "-c", SCRIPT],
      carrier,
      most: dies ? 1 : 0,
      lifeMs: () => LIFE_MS,
      deadMs: () => there.promise,
      opened: () => opened[i]?.resolve(),
    }),
  );
  const results = Promise.allSettled(all);
  await Promise.race([Promise.all(opened.map(({ promise }) => promise)), results]);
  await pause(LIFE_MS * 2);
  await engine.end(signal);
  await pause(1500);
  engine.start();
  back(ids);
  there.resolve(0);
  const done = await Promise.all(all);
  for (const id of ids) await engine.ground.sandbox.remove(id);
  return done.map(
    ({ results: [result], kills, dialled }, i) => ({ result, killed: kills > 0, dialled: dialled > 0, ...CASES[i] }) as const,
  );
}
const expected = (result: unknown): readonly object[] =>
  CASES.map(({ carrier, dies }) => ({ result, killed: dies, dialled: carrier === "dial", carrier, dies }));

let engine: ReturnType<typeof openEngine>;
beforeAll(() => {
  engine = openEngine();
}, 180_000);
afterAll(() => engine?.close(), 60_000);

describe("with live-restore", () => {
  for (const signal of ["SIGTERM", "SIGKILL"] as const) {
    test(`${signal} for the engine, the gateway alive and killed too, over both carriers: every byte once, and the exit`, async () => {
      expect(await under(engine, signal, () => undefined)).toStrictEqual(expected(WHOLE));
    }, 110_000);
  }

  test("a supervisor that has dialled goes on while the engine is down: output comes, and a new command runs", async () => {
    const { ground } = engine;
    const id = await ground.up();
    const handle = await ground.sandbox.exec(id, { command: ["sh", "-c", "while :; do echo x; sleep 0.05; done"], timeoutMs: 60_000 });
    let bytes = 0;
    const reading = (async () => {
      for await (const { data } of handle.output) bytes += data.length;
    })();
    await pause(500);
    await engine.end("SIGKILL");
    const before = bytes;
    await pause(500);
    expect(bytes).toBeGreaterThan(before);
    const done = await finish(await ground.sandbox.exec(id, { command: ["echo", "here"], timeoutMs: 9000 }));
    expect([done.stdout.toString(), done.exit]).toStrictEqual(["here\n", { kind: "code", code: 0 }]);
    engine.start();
    handle.kill();
    await reading;
    expect(await handle.exit).toStrictEqual({ kind: "cancelled" });
  }, 60_000);
});

describe("without live-restore", () => {
  beforeAll(() => engine.without(), 60_000);

  for (const signal of ["SIGTERM", "SIGKILL"] as const) {
    test(`${signal} for the engine: each command is lost, also where its sandbox runs again at once`, async () => {
      const done = await under(engine, signal, (ids) => void engine.docker("start", ...ids));
      for (const { result } of done) expect(result).toMatchObject({ key: "a", exit: { kind: "lost", reason: expect.stringMatching(/./) } });
      expect(done.map(({ killed }) => killed)).toStrictEqual(CASES.map(({ dies }) => dies));
    }, 110_000);
  }
});
