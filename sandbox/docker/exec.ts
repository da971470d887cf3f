// Starts commands through the guest's supervisor, and says what the engine knows of a container's end.
import { BeigeError } from "../../src/core/errors.ts";
import type { ExecHandle, ExecRequest } from "../../src/core/sandbox.ts";
import { ask } from "./ask.ts";
import { openCommand } from "./command.ts";
import { short } from "./containers.ts";
import type { Engine, Inspected } from "./words.ts";

const START_MS = 15_000;
const WHY_MS = 3000;

function notRunning(id: string, error: BeigeError): BeigeError {
  const paused = /paused/i.test(error.message);
  return new BeigeError("unavailable", `sandbox ${short(id)} is ${paused ? "paused" : "not running"}`, {
    hint: `docker ${paused ? "unpause" : "start"} ${short(id)}`,
    cause: error,
  });
}

/** Why the stream of a command may have ended before its exit. */
async function whyEnded(engine: Engine, id: string): Promise<string> {
  try {
    const { State: state } = await ask(engine, "inspect", (s) => engine.door.inspect(id, s), { limitMs: WHY_MS });
    if (!state.Running) return `the sandbox ended with exit code ${state.ExitCode}${state.OOMKilled ? ", out of memory" : ""}`;
    return state.Paused ? "the sandbox is paused" : "the supervisor of the command ended without a word";
  } catch (error) {
    return error instanceof Error ? error.message : String(error);
  }
}

/** The longest single word that Linux passes to a program, in bytes. */
const WORD_MAX = 131_071;

/** Throws `invalid` for what no program can be given. */
export function checkWords({ command, env = {}, cwd = "" }: ExecRequest): void {
  for (const word of [...command, cwd, ...Object.entries(env).map(([name, value]) => `${name}=${value}`)]) {
    if (word.includes("\0")) throw new BeigeError("invalid", "a command cannot hold NUL bytes");
    if (Buffer.byteLength(word) > WORD_MAX) {
      throw new BeigeError("invalid", `a word of a command is longer than ${WORD_MAX} bytes`, {
        hint: "write it to a file and name the file",
      });
    }
  }
}

export async function exec(engine: Engine, id: string, request: ExecRequest, signal?: AbortSignal): Promise<ExecHandle> {
  const timeoutMs = Math.max(1, Math.ceil(request.timeoutMs));
  const guest = ["/beige/tool-client", "run", "--timeout-ms", `${timeoutMs}`, "--cwd", request.cwd ?? "/workspace", "--"];
  const options = {
    Cmd: [...guest, ...request.command],
    Env: Object.entries(request.env ?? {}).map(([name, value]) => `${name}=${value}`),
    // The guest goes to the command's folder itself, with a plain message when it cannot.
    WorkingDir: "/",
    AttachStdin: true,
    AttachStdout: true,
    AttachStderr: true,
  };
  const limit = { signal, limitMs: START_MS };
  try {
    const prepared = await ask(engine, "prepare a command", (s) => engine.door.prepare(id, options, s), limit);
    const stream = await ask(engine, "start a command", (s) => engine.door.run(prepared, s), limit);
    const why = (): Promise<string> => whyEnded(engine, id);
    const command = openCommand({ stream, timeoutMs, clock: engine.clock, why, ...(signal === undefined ? {} : { signal }) });
    const timer = engine.clock.after(START_MS, () => stream.destroy());
    await command.started.finally(() => timer.cancel());
    return command.handle;
  } catch (error) {
    throw error instanceof BeigeError && error.code === "conflict" ? notRunning(id, error) : error;
  }
}

function story({ State: state }: Inspected): readonly string[] {
  const lines = [`state ${state.Status}`, `started ${state.StartedAt}`];
  if (!state.Running) lines.push(`finished ${state.FinishedAt}, exit code ${state.ExitCode}`);
  if (state.OOMKilled) lines.push("the kernel ended a process of it for want of memory");
  if (state.Error !== "") lines.push(`engine: ${state.Error}`);
  return lines;
}

/** PID 1 is silent and no log is kept: what the engine recorded is all that there is. */
export async function logs(
  engine: Engine,
  id: string,
  options: { readonly lines: number; readonly signal?: AbortSignal | undefined },
): Promise<string> {
  const info = await ask(engine, `inspect container ${short(id)}`, (s) => engine.door.inspect(id, s), { signal: options.signal });
  return story(info)
    .slice(-Math.max(0, options.lines))
    .map((line) => `${line}\n`)
    .join("");
}
