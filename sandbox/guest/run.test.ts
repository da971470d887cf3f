// The guest's supervisor of one command, run as a plain process.
import { execFileSync } from "node:child_process";
import { createHash } from "node:crypto";
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect, test } from "vitest";
import { guestPath } from "../guest.ts";
import { framed, type Running } from "./fixture.ts";

const sh = (script: string, ...options: readonly string[]): Running => framed([...options, "--", "sh", "-c", script]);
const text = (parts: readonly Buffer[]): string => Buffer.concat(parts).toString();
const alive = (word: string): boolean =>
  execFileSync("ps", ["-eo", "args"], { encoding: "utf8" })
    .split("\n")
    .some((line) => line === word);

test("output, error output and exit code of a command are told apart", async () => {
  const run = sh("printf out; printf err >&2; exit 5");
  expect(await run.exit).toStrictEqual({ kind: "code", code: 5 });
  expect([text(run.stdout), text(run.stderr), run.child.exitCode]).toStrictEqual(["out", "err", 5]);
});

test("a signal that ends a command is named", async () => {
  expect(await sh("kill -15 $$").exit).toStrictEqual({ kind: "signal", signal: 15 });
  expect(await sh("kill 0; sleep 9").exit).toStrictEqual({ kind: "signal", signal: 15 });
});

test("input goes through by credit, and its end is the command's end of file", async () => {
  const run = framed(["--", "cat"]);
  const data = Buffer.alloc(60_000, "abc");
  for (let i = 0; i < 4; i++) run.send(0, data);
  run.send(1);
  expect(await run.exit).toStrictEqual({ kind: "code", code: 0 });
  expect(Buffer.concat(run.stdout).equals(Buffer.concat([data, data, data, data]))).toBe(true);
  expect(run.credits[0]).toBe(262_144);
  expect(run.credits.slice(1).reduce((sum, bytes) => sum + bytes, 0)).toBe(240_000);
});

test("a client that sends more than its credit is cut off and its command ended", async () => {
  const run = framed(["--", "sleep", "971"]);
  for (let i = 0; i < 40; i++) run.send(0, Buffer.alloc(65_536));
  await run.exit;
  expect(alive("sleep 971")).toBe(false);
});

test("frames that are none end the command", async () => {
  for (const bytes of [Buffer.from([9, 0, 0, 0, 0]), Buffer.from([0, 255, 255, 255, 255]), Buffer.from([2, 0, 0, 0, 1, 7])]) {
    const run = framed(["--", "sleep", "972"]);
    run.child.stdin.write(bytes);
    await run.exit;
    expect(run.child.exitCode).toBe(130);
  }
  expect(alive("sleep 972")).toBe(false);
});

test("a limit, a cancel and a client that leaves each end the whole tree within a second", async () => {
  const script = (n: number): string => `trap '' TERM HUP; setsid sleep ${n} & (setsid setsid sleep ${n} &); sleep ${n}`;
  const began = performance.now();
  const limited = sh(script(981), "--timeout-ms", "300");
  expect(await limited.exit).toMatchObject({ kind: "timeout", tree: true });
  const cancelled = sh(script(982));
  cancelled.send(2);
  expect(await cancelled.exit).toMatchObject({ kind: "cancelled", tree: true });
  const left = sh(script(983));
  await new Promise((resolve) => setTimeout(resolve, 100));
  left.child.stdin.destroy();
  left.child.stdout.destroy();
  await left.exit;
  expect(performance.now() - began).toBeLessThan(3000);
  expect([981, 982, 983].filter((n) => alive(`sleep ${n}`))).toStrictEqual([]);
});

test("a command that handles TERM gets the time to end well", async () => {
  const run = sh("trap 'echo bye; exit 0' TERM; echo up; while :; do sleep 0.02; done", "--timeout-ms", "200");
  expect(await run.exit).toMatchObject({ kind: "timeout" });
  expect(text(run.stdout)).toBe("up\nbye\n");
});

test("a background child does not hold the end, and its supervisor ends it", async () => {
  const began = performance.now();
  const run = sh("sleep 991 & yes & echo done >&2");
  expect(await run.exit).toStrictEqual({ kind: "code", code: 0 });
  expect(performance.now() - began).toBeLessThan(2000);
  expect(text(run.stderr)).toBe("done\n");
  expect([alive("sleep 991"), alive("yes")]).toStrictEqual([false, false]);
});

test("the last bytes are there however the reader dawdles, and the exit comes after them", async () => {
  const run = sh("head -c 3000000 /dev/zero; printf END");
  run.child.stdout.pause();
  await new Promise((resolve) => setTimeout(resolve, 900));
  run.child.stdout.resume();
  expect(await run.exit).toStrictEqual({ kind: "code", code: 0 });
  const all = Buffer.concat(run.stdout);
  expect([all.length, all.subarray(-3).toString()]).toStrictEqual([3_000_003, "END"]);
});

test("a command cannot end or stop its supervisor with ordinary signals", async () => {
  const run = sh("kill -TERM $PPID; kill -INT $PPID; kill -HUP $PPID; kill -USR1 $PPID; kill -PIPE $PPID; sleep 0.1; echo on");
  expect(await run.exit).toStrictEqual({ kind: "code", code: 0 });
  expect(text(run.stdout)).toBe("on\n");
});

test("a command inherits nothing but its three streams, its own session and no blocked signals", async () => {
  const run = sh("ls /proc/$$/fd; cut -d' ' -f6 /proc/$$/stat; echo $$");
  await run.exit;
  const lines = text(run.stdout).trim().split("\n");
  expect(lines.slice(0, 3)).toStrictEqual(["0", "1", "2"]);
  expect(lines[3]).toBe(lines[4]);
  const signals = framed(["--", "grep", "-E", "SigBlk|SigIgn", "/proc/self/status"]);
  await signals.exit;
  expect(text(signals.stdout)).toBe("SigBlk:\t0000000000000000\nSigIgn:\t0000000000000000\n");
});

test("what cannot be started is said with the shell's exit codes", async () => {
  const said = async (...args: readonly string[]): Promise<readonly unknown[]> => {
    const run = framed(args);
    return [await run.exit, text(run.stderr)];
  };
  expect(await said("--", "no-such-program")).toStrictEqual([{ kind: "code", code: 127 }, "beige: no-such-program: command not found\n"]);
  expect(await said("--", "/etc/passwd")).toStrictEqual([
    { kind: "code", code: 126 },
    "beige: /etc/passwd: cannot be run: Permission denied\n",
  ]);
  expect(await said("--cwd", "/none", "--", "true")).toStrictEqual([
    { kind: "code", code: 126 },
    "beige: cannot enter /none: No such file or directory\n",
  ]);
  expect((await said("--timeout-ms", "x", "--", "true"))[0]).toBeUndefined();
  expect((await said("--"))[0]).toBeUndefined();
});

/** The compiler that the committed binaries were made with: another one gives other bytes. */
const COMMITTED_WITH = "12.2.0";

test("the committed binary is what the sources give, bit for bit and each time", () => {
  const out = mkdtempSync(join(tmpdir(), "beige-guest-"));
  try {
    const hash = (path: string): string => createHash("sha256").update(readFileSync(path)).digest("hex");
    const [first, second] = ["1", "2"].map((round) => {
      execFileSync(new URL("build.sh", import.meta.url).pathname, ["x64"], { env: { ...process.env, OUT: join(out, round) } });
      return hash(join(out, round, "beige-guest-x64"));
    });
    expect(second).toBe(first);
    const compiler = execFileSync("gcc", ["-dumpfullversion"], { encoding: "utf8" }).trim();
    if (compiler === COMMITTED_WITH && process.arch === "x64") expect(first).toBe(hash(guestPath("x64")));
  } finally {
    rmSync(out, { recursive: true, force: true });
  }
}, 60_000);

test("a CPU without a guest is said, not guessed", () => {
  expect(() => guestPath("s390x")).toThrow("no guest program for the CPU s390x");
  expect(guestPath("arm64")).toMatch(/beige-guest-arm64$/);
});
