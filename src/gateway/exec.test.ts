import { expect, test } from "vitest";
import type { CallStreams, CallTerminal } from "../core/call.ts";
import type { ExecHandle, ExecRequest, ExecTerminal } from "../core/sandbox.ts";
import { exec } from "./exec.ts";

interface Ran {
  readonly requests: ExecRequest[];
  readonly resized: ExecTerminal[];
  killed: number;
}

function inside(ran: Ran, resizes: boolean) {
  const handle: ExecHandle = {
    output: (async function* () {
      yield { stream: "stdout" as const, data: Buffer.from("hello") };
    })(),
    exit: Promise.resolve({ kind: "code", code: 0 }),
    write: () => Promise.resolve(),
    end: () => Promise.resolve(),
    kill: () => void ran.killed++,
    ...(resizes && { resize: (size: ExecTerminal) => void ran.resized.push(size) }),
  };
  return { exec: (request: ExecRequest) => (ran.requests.push(request), Promise.resolve(handle)) };
}

const clock = { after: () => ({ cancel: () => undefined }) };
const fresh = (): Ran => ({ requests: [], resized: [], killed: 0 });
const run = (ran: Ran, resizes: boolean, terminal?: CallTerminal) => {
  const streams: CallStreams = { output: () => Promise.resolve(), ...(terminal && { terminal }) };
  const context = { call: "c", token: "t", env: { TERM: "mine", A: "b" }, capBytes: 100, clock, streams };
  return exec(inside(ran, resizes), { command: "sh", timeoutMs: 1_000, cwd: "/workspace" }, context, new AbortController().signal);
};

test("a terminal has its size and its TERM, hears of new sizes, and outlasts the limit of other commands", async () => {
  const ran = fresh();
  let tell: (size: ExecTerminal) => void = () => undefined;
  const terminal = { rows: 31, columns: 101, term: "screen", onSize: (listener: typeof tell) => void (tell = listener) };
  expect(await run(ran, true, terminal)).toMatchObject({ outcome: "ok", exitCode: 0 });
  tell({ rows: 20, columns: 77 });
  expect(ran.resized).toEqual([{ rows: 20, columns: 77 }]);
  expect(ran.requests).toMatchObject([
    { terminal: { rows: 31, columns: 101 }, env: { TERM: "screen", A: "b", BEIGE_CALL: "t" }, timeoutMs: 86_400_000 },
  ]);
});

test("a sandbox that has no terminals says so, and the command does not run on without one", async () => {
  const ran = fresh();
  const terminal = { rows: 24, columns: 80, term: "xterm", onSize: () => undefined };
  expect(await run(ran, false, terminal)).toMatchObject({
    outcome: "failed",
    exitCode: 2,
    error: expect.stringContaining("beige rollout restart"),
  });
  expect(ran.killed).toBe(1);
});

test("a command without a terminal keeps its limit, whatever the backend can", async () => {
  const ran = fresh();
  expect(await run(ran, true)).toMatchObject({ outcome: "ok" });
  expect(ran.requests[0]).toMatchObject({ timeoutMs: 1_000, env: { TERM: "mine" } });
  expect(ran.requests[0]).not.toHaveProperty("terminal");
});
