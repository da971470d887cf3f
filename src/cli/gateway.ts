// The gateway's process as the command line sees it: is it there, start it, stop it.
import { closeSync, existsSync, mkdirSync, openSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { setTimeout as pause } from "node:timers/promises";
import { BeigeError } from "../core/errors.ts";
import { createClient, reach } from "./client.ts";
import type { Context } from "./flags.ts";
import { daemonFile, socketOf } from "./place.ts";

export interface Health {
  /** The whole answer of /api/health; absent when nothing answers. */
  readonly body?: Readonly<Record<string, unknown>>;
  readonly up: boolean;
  /** Whether the first pass over every object is over. */
  readonly settled: boolean;
  readonly error?: BeigeError;
}

export async function health(home: string, signal?: AbortSignal): Promise<Health> {
  try {
    const answer = await createClient(socketOf(home), signal).ask({ path: "/api/health", idleMs: 5_000 });
    return { up: true, settled: answer.status === 200, body: await answer.json<Record<string, unknown>>() };
  } catch (error) {
    return { up: false, settled: false, ...(error instanceof BeigeError && { error }) };
  }
}

interface PidFile {
  readonly pid: number;
  /** When the kernel says the process began, so that a reused number is not taken for it. */
  readonly start: string;
}

const pidPath = (home: string): string => join(home, "gateway.pid");

/** Field 22 of /proc/PID/stat; empty where there is no /proc. */
export function startTime(pid: number): string {
  try {
    const stat = readFileSync(`/proc/${pid}/stat`, "utf8");
    return stat.slice(stat.lastIndexOf(")") + 2).split(" ")[19] ?? "";
  } catch {
    return "";
  }
}

function alive(file: PidFile): boolean {
  try {
    process.kill(file.pid, 0);
  } catch (error) {
    return (error as NodeJS.ErrnoException).code === "EPERM";
  }
  const stat = startTime(file.pid);
  // A zombie still has a number.
  const zombie = stat !== "" && /\) Z /.test(readFileSync(`/proc/${file.pid}/stat`, "utf8"));
  return !zombie && (file.start === "" || stat === file.start);
}

export function writePid(home: string, pid: number): void {
  mkdirSync(home, { recursive: true, mode: 0o700 });
  writeFileSync(pidPath(home), `${JSON.stringify({ pid, start: startTime(pid) } satisfies PidFile)}\n`, { mode: 0o600 });
}

/** Number of the running gateway's process, if this program started it. */
export function runningPid(home: string): number | undefined {
  try {
    const file = JSON.parse(readFileSync(pidPath(home), "utf8")) as PidFile;
    return Number.isSafeInteger(file.pid) && file.pid > 1 && alive(file) ? file.pid : undefined;
  } catch {
    return undefined;
  }
}

export interface StartOptions {
  readonly schedules: boolean;
  readonly listen?: string;
  /** Port of the door for kubectl. */
  readonly kubeListen?: string;
  readonly timeoutMs: number;
}

export const daemonArgs = (options: Pick<StartOptions, "schedules" | "listen" | "kubeListen">): readonly string[] => [
  ...(options.schedules ? ["--schedules"] : []),
  ...(options.listen === undefined ? [] : ["--listen", options.listen]),
  ...(options.kubeListen === undefined ? [] : ["--kube-listen", options.kubeListen]),
];

/** Node's flags for a gateway, which is idle most of the time: with the usual room for young objects it would take a third more memory. */
export const NODE_FLAGS = ["--max-semi-space-size=8"] as const;

/** The daemon's environment: this one, and its home; `BEIGE_DETACHED` tells it that nobody reads its standard error. */
export const daemonEnv = (context: Context, detached: boolean): NodeJS.ProcessEnv => ({
  ...context.env,
  BEIGE_HOME: context.home,
  ...(detached && { BEIGE_DETACHED: "1" }),
});

const lastLines = (path: string): string =>
  existsSync(path) ? readFileSync(path, "utf8").trimEnd().split("\n").slice(-15).join("\n") : "";

/** Starts a gateway in the background and waits until it answers. Answers its process number. */
export async function startGateway(context: Context, options: StartOptions): Promise<{ readonly pid: number; readonly settled: boolean }> {
  const { home } = context;
  if (Buffer.byteLength(join(home, "run/0123456789/gateway.sock")) > 107) {
    throw new BeigeError("unavailable", `the home ${home} is too long for unix sockets`, { hint: "export BEIGE_HOME=/a/shorter/folder" });
  }
  mkdirSync(join(home, "logs"), { recursive: true, mode: 0o700 });
  // Most commands start nothing, and do not load what starts it.
  const { spawn } = await import("node:child_process");
  const said = join(home, "logs/gateway.out");
  const file = openSync(said, "w", 0o600);
  const child = spawn(process.execPath, [...NODE_FLAGS, daemonFile(), ...daemonArgs(options)], {
    cwd: home,
    detached: true,
    stdio: ["ignore", file, file],
    env: daemonEnv(context, true),
  });
  closeSync(file);
  let ended: string | undefined;
  child.on("error", (error) => (ended = error.message));
  child.on("exit", (code, signal) => (ended = `exit ${code ?? signal ?? "?"}`));
  if (child.pid !== undefined) writePid(home, child.pid);
  const end = performance.now() + options.timeoutMs;
  for (;;) {
    const seen = await health(home, context.signal);
    if (ended !== undefined) {
      rmSync(pidPath(home), { force: true });
      const tail = lastLines(said);
      throw new BeigeError("unavailable", `the gateway did not start (${ended})${tail === "" ? "" : `:\n${tail}`}`, {
        hint: "beige up shows it in the foreground; beige doctor looks for causes",
      });
    }
    const late = performance.now() > end;
    if (seen.settled || (seen.up && late)) {
      child.unref();
      return { pid: child.pid ?? 0, settled: seen.settled };
    }
    if (late || context.signal.aborted) {
      child.unref();
      throw new BeigeError("timeout", `the gateway did not answer within ${Math.round(options.timeoutMs / 1000)} s`, {
        hint: "beige gateway logs",
      });
    }
    await pause(50);
  }
}

/** SIGTERM, and waits for the end. False when there was none. */
export async function stopGateway(context: Context, timeoutMs: number): Promise<boolean> {
  const pid = runningPid(context.home);
  if (pid === undefined) {
    if ((await health(context.home, context.signal)).up) {
      throw new BeigeError("conflict", `the gateway of ${context.home} was not started by "beige gateway start" or "beige up"`, {
        hint: "stop it where it was started",
      });
    }
    rmSync(pidPath(context.home), { force: true });
    return false;
  }
  process.kill(pid, "SIGTERM");
  const end = performance.now() + timeoutMs;
  while (runningPid(context.home) === pid) {
    if (performance.now() > end) {
      throw new BeigeError("timeout", `the gateway (process ${pid}) did not end within ${Math.round(timeoutMs / 1000)} s`, {
        hint: `kill -9 ${pid} ends it; sandboxes stay and nothing durable is lost`,
      });
    }
    if (context.signal.aborted) throw new BeigeError("timeout", "interrupted");
    await pause(50);
  }
  rmSync(pidPath(context.home), { force: true });
  return true;
}

const isAbsent = (error: unknown): boolean => error instanceof BeigeError && error.message.startsWith("no gateway answers");

async function startUnasked(context: Context): Promise<void> {
  context.out.note(
    `no gateway is running for ${context.home}: starting one in the background (schedules do not fire; beige gateway stop ends it)`,
  );
  await startGateway(context, { schedules: false, timeoutMs: 30_000 });
}

/** Makes sure that a gateway answers; starts one in the background where none does. */
export async function ensureGateway(context: Context): Promise<void> {
  if (context.remote) return;
  try {
    return await reach(socketOf(context.home), context.signal);
  } catch (error) {
    if (!isAbsent(error)) throw error;
  }
  await startUnasked(context);
}

/** The events of a request; where no gateway answers it, starts one in the background and asks again. */
export async function* startingGateway<T>(context: Context, ask: () => AsyncIterable<T>): AsyncGenerator<T> {
  try {
    yield* ask();
    return;
  } catch (error) {
    // Only a connection that was refused says so: nothing has been asked yet.
    if (context.remote || !isAbsent(error)) throw error;
  }
  await startUnasked(context);
  yield* ask();
}
