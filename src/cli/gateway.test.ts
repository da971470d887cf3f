import { type ChildProcess, spawn } from "node:child_process";
import { existsSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, expect, test } from "vitest";
import type { Context } from "./flags.ts";
import { runningPid, startTime, stopGateway, writePid } from "./gateway.ts";
import { paper } from "./harness.ts";

let home = "";
const children: ChildProcess[] = [];
beforeEach(() => {
  home = mkdtempSync(join(tmpdir(), "beige-gateway-"));
});
afterEach(() => {
  for (const child of children.splice(0)) child.kill("SIGKILL");
  rmSync(home, { recursive: true, force: true });
});

const context = (): Context => ({ home, env: {}, out: paper(), signal: new AbortController().signal }) as unknown as Context;
async function program(code: string): Promise<ChildProcess> {
  const child = spawn(process.execPath, ["-e", `${code}; console.log("up"); setInterval(() => {}, 1000)`], {
    stdio: ["ignore", "pipe", "ignore"],
  });
  children.push(child);
  await new Promise((done) => child.stdout?.once("data", done));
  return child;
}

test("stop ends the process that was started, and waits for its end", async () => {
  const child = await program("process.on('SIGTERM', () => setTimeout(() => process.exit(0), 200))");
  writePid(home, child.pid ?? 0);
  expect(runningPid(home)).toBe(child.pid);
  expect(await stopGateway(context(), 5000)).toBe(true);
  expect(runningPid(home)).toBeUndefined();
  expect(existsSync(join(home, "gateway.pid"))).toBe(false);
});

test("a gateway that does not end is said, with the command that ends it", async () => {
  const child = await program("process.on('SIGTERM', () => {})");
  writePid(home, child.pid ?? 0);
  await expect(stopGateway(context(), 200)).rejects.toMatchObject({
    code: "timeout",
    hint: expect.stringContaining(`kill -9 ${child.pid ?? 0}`) as string,
  });
  expect(child.exitCode).toBeNull();
});

test("a process number that was given to another program is left alone", async () => {
  const child = await program("0");
  writeFileSync(join(home, "gateway.pid"), JSON.stringify({ pid: child.pid, start: `${Number(startTime(child.pid ?? 0)) - 1}` }));
  expect(runningPid(home)).toBeUndefined();
  expect(await stopGateway(context(), 200)).toBe(false);
  expect(child.exitCode).toBeNull();
});

test.each(["", "{", "[]", '{"pid":1,"start":""}', '{"pid":-1,"start":""}', '{"pid":"x"}', '{"pid":0}'])(
  "a pid file that holds %s names no process",
  async (text) => {
    writeFileSync(join(home, "gateway.pid"), text);
    expect(runningPid(home)).toBeUndefined();
    expect(await stopGateway(context(), 200)).toBe(false);
  },
);
