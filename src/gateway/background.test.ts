import { createHash } from "node:crypto";
import { existsSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import { openDoor, textOf, UID, type Door } from "../../test/fakes/door.ts";
import { systemClock } from "../adapters/clock.ts";
import type { CallResult } from "../core/call.ts";
import type { ExecExit, ExecHandle } from "../core/sandbox.ts";

const sha = (text: string): string => createHash("sha256").update(text).digest("hex");
const output = (at: Door, { call }: CallResult): string => {
  const path = at.file(`.beige/output/${call}.txt`);
  return existsSync(path) ? readFileSync(path, "utf8") : "";
};
const pidOf = (result: CallResult): number => Number(/pid (\d+)/.exec(textOf(result))?.[1]);
const ends = (at: Door, { call }: CallResult) => at.rows.filter((row) => row.call === call && row.phase === "end");
const ended = (at: Door, result: CallResult) => expect.poll(() => ends(at, result).length, { timeout: 5000 }).toBe(1);

test("a command in the background is answered while it runs; its file grows and then says its end, its end row comes when it ends", async () => {
  await using at = openDoor();
  const result = await at.ask("exec", { command: "echo one; echo two >&2; sleep 0.4; echo three; exit 3", background: true });
  expect(result).toMatchObject({ success: true, exitCode: 0, outcome: "ok" });
  expect(textOf(result)).toMatch(
    new RegExp(`^started in the background: call ${result.call}, pid \\d+\n.*\\.beige/output/${result.call}\\.txt`),
  );
  await expect.poll(() => output(at, result), { interval: 10 }).toMatch(/^(one\ntwo|two\none)\n$/);
  expect(at.rows.filter(({ call }) => call === result.call)).toMatchObject([{ phase: "begin", args: [expect.any(String), "background"] }]);
  expect(at.door.calls.running(UID)).toBe(1);
  await ended(at, result);
  expect(output(at, result)).toMatch(/three\n\n\[command exited with code 3\]\n$/);
  expect(ends(at, result)).toMatchObject([{ outcome: "failed", exitCode: 3, outputBytes: 14, background: true }]);
  expect(ends(at, result)[0]?.durationMs).toBeGreaterThan(350);
  expect(at.door.calls.running(UID)).toBe(0);
  expect(at.shelf.list("background/")).toEqual([]);
});

test("its pid ends it with a plain kill, and it is told as ended by a signal", async () => {
  await using at = openDoor();
  const result = await at.ask("exec", { command: "echo up; sleep 97", background: true });
  await expect.poll(() => output(at, result)).toBe("up\n");
  expect(await at.ask("exec", { command: `kill ${pidOf(result)}` })).toMatchObject({ success: true });
  await ended(at, result);
  expect(output(at, result)).toMatch(/^up\n\n\[command was ended by signal \d+\]\n$/);
});

test("it outlives whoever asked for it, and ends with its sandbox, in the words of whoever took that", async () => {
  await using at = openDoor();
  const turn = new AbortController();
  const result = await at.ask("exec", { command: "sleep 97", background: true }, {}, turn.signal);
  turn.abort(new Error("the turn is over"));
  await new Promise((done) => setTimeout(done, 100));
  expect(at.door.calls.running(UID)).toBe(1);
  at.door.calls.cut(UID, "sandbox replaced, retry");
  await ended(at, result);
  expect(ends(at, result)).toMatchObject([{ outcome: "cancelled", error: "sandbox replaced, retry" }]);
});

test("its limits are an hour when absent and a day at most, and one that runs too long is ended", async () => {
  await using at = openDoor();
  await at.ask("exec", { command: "true", background: true });
  await at.ask("exec", { command: "true", background: true, timeout: 1e9 });
  const limits = at.sandbox.requests.filter(({ key }) => key !== undefined).map(({ timeoutMs }) => timeoutMs);
  expect(limits).toEqual([3_600_000, 86_400_000]);
  const result = await at.ask("exec", { command: "sleep 97", background: true, timeout: 0.3 });
  await ended(at, result);
  expect(ends(at, result)).toMatchObject([{ outcome: "timeout" }]);
  expect(output(at, result)).toContain("[command was ended: it ran longer than 0.3 s]");
});

test("an agent has eight at once; the ninth is refused in words, and has room when one has ended", async () => {
  await using at = openDoor();
  const running = await Promise.all(Array.from({ length: 8 }, () => at.ask("exec", { command: "sleep 97", background: true })));
  expect(running.every(({ success }) => success)).toBe(true);
  expect(await at.ask("exec", { command: "touch ran", background: true })).toMatchObject({
    success: false,
    exitCode: 75,
    error: expect.stringContaining("8 commands of this agent run in the background"),
  });
  await at.ask("exec", { command: `kill ${pidOf(running[0] as CallResult)}` });
  await ended(at, running[0] as CallResult);
  expect(await at.ask("exec", { command: "true", background: true })).toMatchObject({ success: true });
  expect(existsSync(at.file("ran"))).toBe(false);
});

test("its token is known while it runs, and its input and variables reach it", async () => {
  await using at = openDoor();
  const asked = { command: 'cat; echo "$A"; sleep 0.3', background: true, stdin: "in\n", env: { A: "b c" } };
  const result = await at.ask("exec", asked, { session: "cli:default" });
  const token = at.sandbox.requests[0]?.env?.["BEIGE_CALL"];
  expect(at.door.tokens.find(UID, token)).toMatchObject({ call: result.call, session: "cli:default" });
  await ended(at, result);
  expect(at.door.tokens.find(UID, token)).toBeUndefined();
  expect(output(at, result)).toBe("in\nb c\n\n[command exited with code 0]\n");
});

test("output beyond 16 MiB is not kept, the command goes on, and both are said", async () => {
  await using at = openDoor();
  const result = await at.ask("exec", { command: "head -c 17000000 /dev/zero | tr '\\0' x; exit 4", background: true });
  await expect.poll(() => ends(at, result).length, { timeout: 20_000 }).toBe(1);
  expect(ends(at, result)).toMatchObject([{ exitCode: 4, outputBytes: 17_000_000 }]);
  expect(output(at, result).slice(16 * 1024 * 1024)).toBe(
    `\n[${17_000_000 - 16 * 1024 * 1024} bytes more are not kept]\n[command exited with code 4]\n`,
  );
}, 30_000);

test("where the file cannot be written the command runs all the same", async () => {
  await using at = openDoor();
  writeFileSync(at.file(".beige"), "in the way");
  const result = await at.ask("exec", { command: "echo a; sleep 0.2; touch ran", background: true });
  expect(result).toMatchObject({ success: true });
  await ended(at, result);
  expect(existsSync(at.file("ran"))).toBe(true);
});

test("a sandbox that does not start the writer of the file holds nobody up: the command is told of and runs", async () => {
  let writers = 0;
  const at = openDoor();
  const plain = at.sandbox.exec.bind(at.sandbox);
  const gone: (AbortSignal | undefined)[] = [];
  const sandbox: Pick<typeof at.sandbox, "exec"> = {
    exec(id, request, signal) {
      if (!request.command.some((word) => word.includes("cat >"))) return plain(id, request, signal);
      writers += 1;
      gone.push(signal);
      return new Promise(() => undefined);
    },
  };
  await using second = at.next({
    sandbox,
    // What takes ten seconds takes one here.
    clock: { ...systemClock, after: (ms, run) => systemClock.after(ms === 10_000 ? 1_000 : ms, run) },
  });
  const since = performance.now();
  const result = await second.ask("exec", { command: "echo a; sleep 0.2; touch ran", background: true });
  expect(result).toMatchObject({ success: true });
  expect(performance.now() - since).toBeLessThan(5_000);
  await ended(second, result);
  expect([existsSync(second.file("ran")), writers, gone.map((signal) => signal?.aborted)]).toEqual([true, 1, [true]]);
});

test("a caller that leaves before it runs, or a sandbox that cannot start it, leaves nothing behind", async () => {
  await using at = openDoor();
  at.sandbox.failure = new Error("no engine");
  await expect(at.ask("exec", { command: "true", background: true })).rejects.toThrow("no engine");
  expect(at.rows.at(-1)).toMatchObject({ phase: "end", exitCode: 69 });
  expect([at.shelf.list("background/"), at.door.calls.running(UID)]).toEqual([[], 0]);
});

test("a disk that takes nothing takes nobody's place: commands end, are recorded, and have room again", async () => {
  const at = openDoor();
  let full = true;
  const shelf = {
    ...at.shelf,
    set: (key: string, value: string) => {
      if (full) throw new Error("database or disk is full");
      at.shelf.set(key, value);
    },
    delete: () => {
      throw new Error("database or disk is full");
    },
  };
  await using second = at.next({ shelf });
  for (let i = 0; i < 10; i += 1)
    await expect(second.ask("exec", { command: "touch ran", background: true })).rejects.toThrow("disk is full");
  expect([existsSync(second.file("ran")), second.door.calls.running(UID)]).toEqual([false, 0]);
  full = false;
  for (let i = 0; i < 10; i += 1) {
    const result = await second.ask("exec", { command: "sleep 0.01", background: true });
    expect(result).toMatchObject({ success: true });
    await ended(second, result);
  }
  expect(second.door.calls.running(UID)).toBe(0);
});

/** What the supervisor gives again: all output from the first byte, then the end. */
function again(text: string, exit: Promise<ExecExit>): ExecHandle {
  const nothing = (): Promise<void> => Promise.resolve();
  return {
    output: (async function* () {
      yield { stream: "stdout" as const, data: Buffer.from(`77\n${text}`) };
      await exit;
    })(),
    exit,
    write: nothing,
    end: nothing,
    kill: () => undefined,
  };
}

async function restarted(handle: (container: string, key: string) => ExecHandle | undefined) {
  const first = openDoor();
  const result = await first.ask("exec", { command: "echo begun; sleep 97", background: true });
  await expect.poll(() => output(first, result)).toBe("begun\n");
  // The gateway ends, and hears that its connection to the command does.
  first.door.backgrounds.stop();
  first.door.calls.cut(UID, "the gateway ends");
  await new Promise((done) => setTimeout(done, 100));
  expect(ends(first, result)).toEqual([]);
  const begun = first.rows[0];
  const left = { take: (call: string) => (call === result.call ? begun : undefined), close: () => Promise.resolve() };
  const plain = first.sandbox.exec.bind(first.sandbox);
  const sandbox = { exec: plain, rejoin: async (id: string, key: string) => handle(id, key) };
  const second = first.next({ left, sandbox });
  second.door.backgrounds.resume();
  return { second, result };
}

test("over a restart it goes on: the file has all of its output once and its end, the record one end", async () => {
  const asked: unknown[] = [];
  const exit = Promise.withResolvers<ExecExit>();
  const { second, result } = await restarted((...words) => (asked.push(words), again("begun\nmeanwhile\n", exit.promise)));
  await using at = second;
  await expect.poll(() => output(at, result)).toBe("begun\nmeanwhile\n");
  expect(asked).toEqual([["box1", result.call]]);
  expect(at.door.calls.running(UID)).toBe(1);
  exit.resolve({ kind: "code", code: 5 });
  await ended(at, result);
  expect(ends(at, result)).toMatchObject([{ exitCode: 5, background: true, outputBytes: 16 }]);
  expect(output(at, result)).toBe("begun\nmeanwhile\n\n[command exited with code 5]\n");
  expect([at.shelf.list("background/"), at.door.calls.running(UID)]).toEqual([[], 0]);
});

test("one that ended with its sandbox meanwhile is lost: what it had said stays in its file, and its unknown end is added", async () => {
  const lost: ExecExit = { kind: "lost", reason: "the sandbox was started anew" };
  const { second, result } = await restarted(() => again("", Promise.resolve(lost)));
  await using at = second;
  await ended(at, result);
  expect(ends(at, result)).toMatchObject([{ outcome: "lost", background: true }]);
  expect(output(at, result)).toBe("begun\n\n[command's end is unknown: the sandbox was started anew]\n");
});

test("where nobody can take it up again its outcome is unknown, and it is forgotten", async () => {
  const { second, result } = await restarted(() => undefined);
  await using at = second;
  await ended(at, result);
  expect(ends(at, result)).toMatchObject([{ outcome: "unknown", background: true }]);
  await expect.poll(() => at.shelf.list("background/")).toEqual([]);
  expect(output(at, result)).toBe("begun\n\n[command's end is unknown: the gateway ended before it did]\n");
  second.door.backgrounds.resume();
  expect(at.door.calls.running(UID)).toBe(0);
});

test("somebody who sits at a command sits in the foreground", async () => {
  await using at = openDoor();
  const streams = { output: () => Promise.resolve() };
  expect(await at.ask("exec", { command: "touch ran", background: true }, { streams })).toMatchObject({ exitCode: 2, success: false });
  expect(at.sandbox.requests).toEqual([]);
});

test("exec runs with its own variables and input; what the audit keeps of both is hashes", async () => {
  await using at = openDoor();
  const result = await at.ask("exec", {
    command: 'cat; echo "$A-$PATH"',
    stdin: "héllo\n",
    env: { A: "hunter22 x", PATH: "/bin:/usr/bin" },
  });
  expect(textOf(result)).toBe("héllo\nhunter22 x-/bin:/usr/bin\n");
  expect(at.rows[1]?.args).toEqual([
    'cat; echo "$A-$PATH"',
    `env A sha256 ${sha("hunter22 x")}`,
    `env PATH sha256 ${sha("/bin:/usr/bin")}`,
    `stdin sha256 ${sha("héllo\n")} bytes 7`,
  ]);
  expect(textOf(await at.ask("exec", { command: "head -c 3", stdin: "x".repeat(1024 * 1024) }))).toBe("xxx");
  expect(textOf(await at.ask("exec", { command: "wc -c", stdin: "x".repeat(1024 * 1024) })).trim()).toBe("1048576");
  expect(await at.ask("exec", { command: "true", stdin: null, env: null, background: null })).toMatchObject({ success: true });
});

test.each([
  ["a name of the gateway", { env: { BEIGE_CALL: "x" } }, 'exec: env "BEIGE_CALL" must be another name: BEIGE_ is the gateway\'s own'],
  [
    "such a name in small letters",
    { env: { beige_agent: "x" } },
    'exec: env "beige_agent" must be another name: BEIGE_ is the gateway\'s own',
  ],
  ["no name", { env: { "A B": "x" } }, 'exec: env "A B" must be a name of letters, digits and _'],
  ["a number", { env: { A: 5 } }, 'exec: env "A" must be text without NUL'],
  ["a NUL", { env: { A: "a\0b" } }, 'exec: env "A" must be text without NUL'],
  ["a list", { env: ["A=b"] }, "exec: env must be an object of names and text"],
  ["long values", { env: { A: "x".repeat(32 * 1024) } }, "exec: env must be at most 32768 bytes together"],
  [
    "many variables",
    { env: Object.fromEntries(Array.from({ length: 65 }, (_, i) => [`A${i}`, ""])) },
    "exec: env must be at most 64 variables",
  ],
  ["input that is no text", { stdin: 5 }, "exec: stdin must be text"],
  ["long input", { stdin: "x".repeat(1024 * 1024 + 1) }, "exec: stdin must be text of at most 1048576 bytes"],
  ["no flag", { background: "yes" }, "exec: background must be true or false"],
  [
    "parameters that nobody knows",
    { user: "root", a: 1, b: 2, c: 3 },
    'exec does not know "user", "a", "b" and 1 more: its parameters are command, timeout, cwd, env, stdin, background',
  ],
])("what does not fit is refused before anything runs: %s", async (_, more, error) => {
  await using at = openDoor();
  expect(await at.ask("exec", { command: "touch ran", ...more })).toMatchObject({ success: false, exitCode: 2, error });
  expect(at.sandbox.requests).toEqual([]);
});

test.each([
  ["read", { path: "a", lines: 5 }, 'read does not know "lines": its parameters are path, offset, limit'],
  ["write", { path: "a", content: "", mode: "600" }, 'write does not know "mode": its parameters are path, content'],
  [
    "patch",
    { path: "a", find: "b", replace: "c", old_string: "b" },
    'patch does not know "old_string": its parameters are path, find, replace, all',
  ],
])("%s names the parameter that it does not know, and those that it does", async (tool, params, error) => {
  await using at = openDoor();
  expect(await at.ask(tool, params)).toMatchObject({ success: false, exitCode: 2, error });
  expect(existsSync(join(at.sandbox.workspace, "a"))).toBe(false);
});
