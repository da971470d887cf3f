import { type ChildProcess, spawn } from "node:child_process";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, expect, test } from "vitest";
import { systemClock } from "./clock.ts";
import { createLock, takeLock } from "./lock.ts";

let folder = "";
const children: ChildProcess[] = [];
beforeEach(() => (folder = mkdtempSync(join(tmpdir(), "beige-lock-"))));
afterEach(() => {
  // One that a failed test left behind would hold the test runner's standard error open.
  for (const child of children.splice(0)) child.kill("SIGKILL");
  rmSync(folder, { recursive: true, force: true });
});

const module = new URL("./lock.ts", import.meta.url).href;

/** A process that holds the lock until it is killed. */
async function holder(path: string): Promise<{ kill(): Promise<void> }> {
  const code = `const { takeLock } = await import(${JSON.stringify(module)}); takeLock(${JSON.stringify(path)}); console.log("held"); setInterval(() => {}, 1e6);`;
  const child = spawn(process.execPath, ["--input-type=module", "-e", code], { stdio: ["ignore", "pipe", "inherit"] });
  children.push(child);
  await new Promise((done) => child.stdout.once("data", done));
  const gone = new Promise<void>((done) => child.once("exit", () => done()));
  return {
    kill: () => {
      child.kill("SIGKILL");
      return gone;
    },
  };
}

test("a second process is refused, and a killed holder leaves the lock free", async () => {
  const path = join(folder, "a/lock.db");
  const other = await holder(path);
  expect(() => takeLock(path)).toThrow(expect.objectContaining({ code: "conflict" }));
  await other.kill();
  const lock = takeLock(path);
  expect(() => takeLock(path)).toThrow(expect.objectContaining({ code: "conflict" }));
  lock.release();
  lock.release();
  takeLock(path).release();
});

test("a lock whose handle was thrown away is held all the same", async () => {
  const path = join(folder, "lock.db");
  const code = `const { takeLock } = await import(${JSON.stringify(module)}); takeLock(${JSON.stringify(path)}); for (let at = 0; at < 20; at += 1) { gc(); await null; } console.log("held"); setInterval(() => {}, 1e6);`;
  const child = spawn(process.execPath, ["--expose-gc", "--input-type=module", "-e", code], { stdio: ["ignore", "pipe", "inherit"] });
  children.push(child);
  await new Promise((done) => child.stdout.once("data", done));
  expect(() => takeLock(path)).toThrow(expect.objectContaining({ code: "conflict" }));
  const gone = new Promise((done) => child.once("exit", done));
  child.kill("SIGKILL");
  await gone;
});

test("a lock for moments is held by one at a time", async () => {
  const path = join(folder, "lock.db");
  const locks = Array.from({ length: 4 }, () => createLock(path, systemClock));
  let inside = 0;
  let most = 0;
  const work = async (): Promise<void> => {
    inside += 1;
    most = Math.max(most, inside);
    await systemClock.sleep(2);
    inside -= 1;
  };
  await Promise.all(
    locks.map(async (lock) => {
      for (let at = 0; at < 10; at += 1) await lock.hold(work);
    }),
  );
  expect(most).toBe(1);
  await expect(locks[0]?.hold(() => Promise.reject(new Error("x")))).rejects.toThrow("x");
  await locks[1]?.hold(work);
  for (const lock of locks) lock.close();
});
