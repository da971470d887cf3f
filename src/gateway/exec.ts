// Runs a shell command inside the sandbox.
import type { CallStreams } from "../core/call.ts";
import type { ExecHandle } from "../core/sandbox.ts";
import type { Clock } from "../core/world.ts";
import { endOf, type Inside, type ToolOutcome } from "./inside.ts";
import { HeadAndTail, WholeFile } from "./output.ts";

export interface ExecParams {
  readonly command: string;
  readonly timeoutMs: number;
  readonly cwd: string;
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

export async function exec(inside: Inside, params: ExecParams, context: ExecContext, signal: AbortSignal): Promise<ToolOutcome> {
  const { command, timeoutMs, cwd } = params;
  context.keep?.(timeoutMs);
  const key = context.keep === undefined ? {} : { key: context.call };
  const handle = await inside.exec(
    { command: ["sh", "-c", command], cwd, env: { ...context.env, BEIGE_CALL: context.token }, timeoutMs, ...key },
    signal,
  );
  const closed = feed(handle, context.streams?.input);
  // Somebody may sit at a command's input beyond its end.
  const sent = context.streams?.input === undefined ? closed : undefined;
  return collect(handle, { ...context, inside, timeoutMs, ...(sent === undefined ? {} : { sent }) });
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
  for await (const { stream, data } of handle.output) {
    await context.streams?.output(stream, data);
    const before = kept.cut || kept.total + data.length <= context.capBytes ? undefined : kept.render(() => "");
    kept.add(data);
    // Whoever sits at the streams has had it all.
    if (context.streams !== undefined) continue;
    if (before !== undefined) await whole.write(before);
    if (kept.cut) await whole.write(data);
  }
  const exit = await handle.exit;
  await context.sent;
  const where = whole.started ? await whole.finish() : "";
  const note = (leftOut: number): string => `\n[${leftOut} bytes left out${where === "" ? "" : `; ${where}`}]\n`;
  const output = kept.render(note);
  return { ...endOf(exit, timeoutMs), output, ...(kept.cut ? { truncated: true } : {}) };
}

/** Without an input nothing is sent: a command that reads ends instead of waiting. A command that is gone takes no more. */
async function feed(handle: ExecHandle, input: AsyncIterable<Uint8Array> = nothing()): Promise<void> {
  try {
    for await (const data of input) await handle.write(data);
    await handle.end();
  } catch {
    // How the command ended is told by its exit.
  }
}

async function* nothing(): AsyncIterable<Uint8Array> {}
