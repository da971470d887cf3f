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
  /** Longest output to the caller, in bytes. */
  readonly capBytes: number;
  readonly clock: Pick<Clock, "after">;
  readonly streams?: CallStreams;
}

export const EXEC_DEFAULT_MS = 120_000;
export const EXEC_MAX_MS = 3_600_000;

export async function exec(inside: Inside, params: ExecParams, context: ExecContext, signal: AbortSignal): Promise<ToolOutcome> {
  const { command, timeoutMs, cwd } = params;
  const handle = await inside.exec({ command: ["sh", "-c", command], cwd, env: { BEIGE_CALL: context.token }, timeoutMs }, signal);
  const closed = feed(handle, context.streams?.input);
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
  // Somebody may sit at a command's input beyond its end.
  if (context.streams?.input === undefined) await closed;
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
