import { mkdtempSync, readdirSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, expect, test } from "vitest";
import { localSandbox, type LocalSandbox } from "../../test/fakes/local.ts";
import { systemClock } from "../adapters/clock.ts";
import type { CallStreams } from "../core/call.ts";
import { exec } from "./exec.ts";
import { insideOf } from "./inside.ts";

let folder = "";
let sandbox: LocalSandbox;
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), "beige-streams-"));
  sandbox = localSandbox(folder);
});
afterEach(() => rmSync(folder, { recursive: true, force: true }));

const never = new AbortController().signal;
const run = (command: string, streams: CallStreams, capBytes = 1000) =>
  exec(
    insideOf(sandbox, "box1"),
    { command, timeoutMs: 10_000, cwd: sandbox.workspace },
    { call: "c", token: "t", capBytes, clock: systemClock, streams },
    never,
  );

async function* sent(...parts: readonly string[]): AsyncIterable<Uint8Array> {
  for (const part of parts) yield Buffer.from(part);
}

function collector() {
  const kept = { stdout: "", stderr: "" };
  const output: CallStreams["output"] = async (stream, data) => void (kept[stream] += Buffer.from(data).toString());
  return { kept, output };
}

test("a command's streams are handed on as they come, and its input is what was sent", async () => {
  const { kept, output } = collector();
  const outcome = await run("cat; echo err >&2; exit 4", { output, input: sent("one\n", "two\n") });
  expect(kept).toEqual({ stdout: "one\ntwo\n", stderr: "err\n" });
  expect(outcome).toMatchObject({ exitCode: 4 });
});

test("without an input a command that reads ends instead of waiting", async () => {
  const { kept, output } = collector();
  expect(await run("cat; echo done", { output })).toMatchObject({ exitCode: 0 });
  expect(kept.stdout).toBe("done\n");
});

test("a command that ends while its input is open is not waited for", async () => {
  const { output } = collector();
  let release = (): void => undefined;
  async function* open(): AsyncIterable<Uint8Array> {
    await new Promise<void>((resolve) => (release = resolve));
    yield Buffer.from("too late");
  }
  expect(await run("exit 2", { output, input: open() })).toMatchObject({ exitCode: 2 });
  release();
});

test("whoever sits at the streams has it all: nothing is kept in the workspace, and the result is capped", async () => {
  const { kept, output } = collector();
  const outcome = await run("seq 1 5000", { output }, 1000);
  expect(kept.stdout.length).toBeGreaterThan(20_000);
  expect(outcome.output.length).toBeLessThan(1_200);
  expect(outcome.truncated).toBe(true);
  expect(readdirSync(sandbox.workspace)).toEqual([]);
});

test("a slow reader slows the command", async () => {
  let most = 0;
  let now = 0;
  const output = async (): Promise<void> => {
    now += 1;
    most = Math.max(most, now);
    await systemClock.sleep(2);
    now -= 1;
  };
  await run("for i in 1 2 3 4 5; do echo $i; done", { output });
  expect(most).toBe(1);
});
