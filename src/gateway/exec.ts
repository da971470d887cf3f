// Runs a shell command inside the sandbox.
import type { CallStreams, CallTerminal } from "../core/call.ts";
import type { ExecHandle } from "../core/sandbox.ts";
import type { Clock } from "../core/world.ts";
import { endOf, failure, type Inside, type ToolOutcome } from "./inside.ts";
import { HeadAndTail, WholeFile } from "./output.ts";

export interface ExecParams {
  readonly command: string;
  readonly timeoutMs: number;
  readonly cwd: string;
  readonly stdin?: Uint8Array;
}

export interface ExecContext {
  readonly call: string;
  /** Attributes launcher calls inside the command. */
  readonly token: string;
  readonly env?: Readonly<Record<string, string>>;
  /** Longest output to the caller, in bytes. */
  readonly capBytes: number;
  readonly clock: Pick<Clock, "after">;
  readonly streams?: CallStreams;
  /** Called before the command starts; with it the next gateway can take the command up again. */
  readonly keep?: (timeoutMs: number) => void;
}

export const EXEC_DEFAULT_MS = 120_000;
export const EXEC_MAX_MS = 3_600_000;
/** Somebody at a terminal thinks, eats and sleeps; whoever leaves ends the command anyway. */
const TERMINAL_MS = 24 * 3_600_000;

export async function exec(inside: Inside, params: ExecParams, context: ExecContext, signal: AbortSignal): Promise<ToolOutcome> {
  const { command, cwd } = params;
  const terminal = context.streams?.terminal;
  const timeoutMs = terminal === undefined ? params.timeoutMs : TERMINAL_MS;
  context.keep?.(timeoutMs);
  const key = context.keep === undefined ? {} : { key: context.call };
  const env = { ...context.env, BEIGE_CALL: context.token, ...(terminal !== undefined && { TERM: terminal.term }) };
  const size = terminal === undefined ? {} : { terminal: { rows: terminal.rows, columns: terminal.columns } };
  const handle = await inside.exec({ command: ["sh", "-c", command], cwd, env, timeoutMs, ...key, ...size }, signal);
  if (terminal !== undefined && !follow(handle, terminal)) return failure(NO_TERMINAL, 2);
  const closed = feed(handle, context.streams?.input ?? inputOf(params.stdin));
  // Somebody may sit at a command's input beyond its end; a text need not be read to its own.
  const sent = context.streams?.input === undefined && params.stdin === undefined ? closed : undefined;
  return collect(handle, { ...context, inside, timeoutMs, ...(sent === undefined ? {} : { sent }) });
}

const INPUT_CHUNK = 64 * 1024;

const NO_TERMINAL = "this sandbox is of an older beige and has no terminals: beige rollout restart agent/NAME makes a new one";

/** False where the backend knows no terminals: the command is ended, since it would run without what it needs. */
function follow(handle: ExecHandle, terminal: CallTerminal): boolean {
  if (handle.resize === undefined) {
    handle.kill();
    return false;
  }
  terminal.onSize((size) => handle.resize?.(size));
  return true;
}

export interface Collecting extends Pick<ExecContext, "call" | "capBytes" | "clock" | "streams"> {
  readonly inside: Inside;
  readonly timeoutMs: number;
  /** Resolves when the command has all of its input. */
  readonly sent?: Promise<void>;
}

/** Reads a command to its end: what of its output a caller gets, and how it ended. */
export async function collect(handle: ExecHandle, context: Collecting): Promise<ToolOutcome> {
  const { inside, timeoutMs } = context;
  const kept = new HeadAndTail(context.capBytes);
  const whole = new WholeFile(inside, context.clock, context.call);
  for await (const { stream, data, free } of handle.output) {
    await context.streams?.output(stream, data);
    const before = kept.cut || kept.total + data.length <= context.capBytes ? undefined : kept.render(() => "");
    kept.add(data);
    // Whoever sits at the streams has had it all.
    if (context.streams !== undefined) continue;
    if (before !== undefined) await whole.write(before);
    if (kept.cut) await whole.write(data);
    free?.();
  }
  const exit = await handle.exit;
  await context.sent;
  const where = whole.started ? await whole.finish() : "";
  const note = (leftOut: number): string => `\n[${leftOut} bytes left out${where === "" ? "" : `; ${where}`}]\n`;
  const output = kept.render(note);
  return { ...endOf(exit, timeoutMs), output, ...(kept.cut ? { truncated: true } : {}) };
}

/** Without an input nothing is sent: a command that reads ends instead of waiting. A command that is gone takes no more. */
export async function feed(handle: ExecHandle, input: AsyncIterable<Uint8Array>): Promise<void> {
  try {
    for await (const data of input) await handle.write(data);
    await handle.end();
  } catch {
    // How the command ended is told by its exit.
  }
}

/** Text that was there from the start, in parts; or nothing. */
export async function* inputOf(text: Uint8Array = new Uint8Array()): AsyncIterable<Uint8Array> {
  for (let at = 0; at < text.length; at += INPUT_CHUNK) yield text.subarray(at, at + INPUT_CHUNK);
}
