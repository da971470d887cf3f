// Runs commands inside an agent's container and says how they ended, in the words of a call.
import { BeigeError } from "../core/errors.ts";
import type { CallResult } from "../core/call.ts";
import type { ExecExit, ExecHandle, ExecRequest, Sandbox } from "../core/sandbox.ts";

/** The container that serves an agent, for the length of one call. */
export interface Inside {
  exec(request: ExecRequest, signal: AbortSignal): Promise<ExecHandle>;
}

export const insideOf = (sandbox: Pick<Sandbox, "exec">, container: string): Inside => ({
  exec: (request, signal) => sandbox.exec(container, request, signal),
});

/** What a tool did, before it has a call id. */
export interface ToolOutcome extends Omit<CallResult, "call" | "success"> {
  /** Bytes of output where it is not here. */
  readonly outputBytes?: number;
  /** The end of a command that had its answer when it began. */
  readonly background?: boolean;
  /** The real end of what goes on behind this answer. Never rejects; stays open when the gateway ends first. */
  readonly later?: Promise<ToolOutcome>;
}

/** What came out of it: output as it is kept, and pictures. */
export function bytesOf({ output, images = [], outputBytes }: ToolOutcome): number {
  return outputBytes ?? images.reduce((sum, { data }) => sum + Buffer.byteLength(data, "base64"), output.length);
}

export const WORKSPACE = "/workspace";
const GUEST = "/beige/tool-client";
const PATH_MAX = 4_096;
const FILE_TIMEOUT_MS = 60_000;
const STDERR_MAX = 4_096;
const STDIN_CHUNK = 64 * 1024;

/** Inside, everything may be named: the sandbox is the wall, not this. */
export function pathInside(path: string): string {
  if (path === "" || path.includes("\0") || Buffer.byteLength(path) > PATH_MAX)
    throw new BeigeError("invalid", "path must be text of 1 to 4096 bytes without NUL");
  return path.startsWith("/") ? path : `${WORKSPACE}/${path}`;
}

export const failure = (error: string, exitCode = 1): ToolOutcome => ({ output: new Uint8Array(), exitCode, error, outcome: "failed" });
export const success = (text: string): ToolOutcome => ({ output: Buffer.from(text), exitCode: 0, outcome: "ok" });

/** The end of a command, without its output. */
export function endOf(exit: ExecExit, timeoutMs: number): Omit<ToolOutcome, "output"> {
  if (exit.kind === "code" && exit.code === 0) return { exitCode: 0, outcome: "ok" };
  switch (exit.kind) {
    case "code":
      return { exitCode: exit.code, outcome: "failed", error: `command exited with code ${exit.code}` };
    case "signal":
      return { exitCode: 128 + exit.signal, outcome: "failed", error: `command was ended by signal ${exit.signal}` };
    case "timeout":
      return { exitCode: 124, outcome: "timeout", error: `command was ended: it ran longer than ${timeoutMs / 1000} s` };
    case "cancelled":
      return { exitCode: 130, outcome: "cancelled", error: "command was cancelled" };
    case "oom":
      return { exitCode: 137, outcome: "oom", error: "command ran out of memory: spec.sandbox.resources.memory limits it" };
    default:
      return { exitCode: 255, outcome: "lost", error: `command's end is unknown: ${exit.reason}` };
  }
}

async function send(handle: ExecHandle, data: Uint8Array): Promise<void> {
  for (let from = 0; from < data.length; from += STDIN_CHUNK) await handle.write(data.subarray(from, from + STDIN_CHUNK));
  await handle.end();
}

export interface GuestRun {
  /** Arguments of the guest binary. */
  readonly args: readonly string[];
  readonly stdin?: Uint8Array;
  /** Called with standard output; false: enough, the rest is not wanted. */
  readonly take?: (data: Uint8Array) => boolean;
}

/** File access by the guest binary. Answers undefined when it ended well, or when enough was taken. */
export async function runGuest(inside: Inside, run: GuestRun, signal: AbortSignal): Promise<ToolOutcome | undefined> {
  const handle = await inside.exec({ command: [GUEST, ...run.args], timeoutMs: FILE_TIMEOUT_MS }, signal);
  let said = "";
  let enough = false;
  // A guest that refuses early closes its input: its own words are the error then.
  const sending = run.stdin === undefined ? handle.end() : send(handle, run.stdin);
  const sent = sending.catch(() => undefined);
  for await (const { stream, data } of handle.output) {
    if (stream === "stderr") said = (said + Buffer.from(data).toString("utf8")).slice(0, STDERR_MAX);
    else if (!enough && run.take?.(data) === false) {
      enough = true;
      handle.kill();
    }
  }
  const exit = await handle.exit;
  await sent;
  if (enough) return undefined;
  const end = endOf(exit, FILE_TIMEOUT_MS);
  if (end.outcome === "ok") return undefined;
  return {
    ...end,
    output: new Uint8Array(),
    error: end.outcome === "failed" && said !== "" ? said.trim().replace(/^beige: /, "") : (end.error ?? "failed"),
  };
}
