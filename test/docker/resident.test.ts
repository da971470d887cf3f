// The supervisor as PID 1 of a real container: nothing stays behind, whatever ends a command, and a terminal is one.
import { readdirSync, readFileSync } from "node:fs";
import { execFileSync } from "node:child_process";
import { afterAll, beforeAll, expect, test } from "vitest";
import { openDocker, openGround, type Ground } from "./ground.ts";
import { finish } from "../contract/sandbox.ts";

let ground: Ground;
let id: string;
beforeAll(async () => {
  ground = openGround();
  id = await ground.up({ memoryBytes: 512 << 20, pids: 512 });
});
afterAll(() => ground?.cleanup());

const hostPid = (): string => execFileSync("docker", ["inspect", "-f", "{{.State.Pid}}", id], { encoding: "utf8" }).trim();
const rssKb = (): number => Number(/VmRSS:\s+(\d+)/.exec(readFileSync(`/proc/${hostPid()}/status`, "utf8"))?.[1]);
const descriptors = (): number => readdirSync(`/proc/${hostPid()}/fd`).length;

async function many(count: number, atOnce: number, run: (i: number) => Promise<unknown>): Promise<void> {
  let next = 0;
  await Promise.all(
    Array.from({ length: atOnce }, async () => {
      while (next < count) await run(next++);
    }),
  );
}

test("a thousand commands that leave a grandchild, 500 limits and 500 readers that leave: no process, descriptor or memory stays", async () => {
  const leave = "(setsid sleep 991 >/dev/null 2>&1 &)";
  const rounds = async (scale: number): Promise<void> => {
    await many(1000 * scale, 16, () => ground.run(id, `${leave}; echo done`));
    await many(500 * scale, 32, async () => {
      const done = await ground.run(id, `trap '' TERM; ${leave}; sleep 991`, { timeoutMs: 100 });
      expect(done.exit).toStrictEqual({ kind: "timeout" });
    });
    await many(500 * scale, 32, async () => {
      const handle = await ground.sandbox.exec(id, { command: ["sh", "-c", `${leave}; echo x; sleep 991`], timeoutMs: 60_000 });
      for await (const piece of handle.output) if (piece.data.length > 0) break;
      expect(await handle.exit).toStrictEqual({ kind: "cancelled" });
    });
  };
  await rounds(0.05);
  const before = { rss: rssKb(), fds: descriptors() };
  await rounds(1);
  await expect.poll(() => ground.processes(id), { timeout: 5000 }).toStrictEqual([]);
  const after = { rss: rssKb(), fds: descriptors() };
  expect(after.fds).toBe(before.fds);
  expect(after.rss - before.rss).toBeLessThan(512);
  expect(after.rss).toBeLessThan(1024);
}, 110_000);

test("a command has a terminal of its size inside the hardened container, and signals reach it", async () => {
  const terminal = { rows: 31, columns: 97 };
  const command = ["sh", "-c", "trap 'echo got; exit 3' USR1; test -t 0 && test -t 2 && stty size; while :; do sleep 0.1; done"];
  const handle = await ground.sandbox.exec(id, { command, timeoutMs: 20_000, terminal });
  let said = "";
  for await (const { data } of handle.output) {
    said += Buffer.from(data).toString();
    if (said.includes("31 97") && !said.includes("got")) handle.signal?.(10);
  }
  expect(said).toMatch(/^31 97\r\n[\s\S]*got\r\n$/);
  expect(await handle.exit).toStrictEqual({ kind: "code", code: 3 });
}, 30_000);

test("a command that stops its keeper, or ends it, is ended with all that it left", async () => {
  expect((await ground.run(id, "kill -STOP $PPID; sleep 992", { timeoutMs: 400 })).exit).toStrictEqual({ kind: "timeout" });
  const killed = await ground.run(id, "(setsid sh -c 'while :; do sleep 992 & sleep 993; done' &) ; kill -KILL $PPID; sleep 992");
  expect(killed.exit).toMatchObject({ kind: "lost" });
  await expect.poll(() => ground.processes(id), { timeout: 5000 }).toStrictEqual([]);
}, 30_000);

test("of two gateways the older one is fenced off and the newer one goes on", async () => {
  const older = ground.sandbox.exec(id, { command: ["sleep", "20"], timeoutMs: 30_000 }).then((handle) => finish(handle));
  await ground.run(id, "true");
  const newer = openDocker();
  expect((await finish(await newer.exec(id, { command: ["echo", "new"], timeoutMs: 9000 }))).stdout.toString()).toBe("new\n");
  expect((await older).exit.kind).not.toBe("code");
  await expect(ground.sandbox.exec(id, { command: ["true"], timeoutMs: 9000 })).rejects.toMatchObject({ code: "unavailable" });
}, 40_000);
