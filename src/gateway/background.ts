// A command that goes on behind its answer: its output in a file of the workspace, its end in the audit, whichever gateway is there then.
import type { ExecExit, ExecHandle } from "../core/sandbox.ts";
import type { Clock } from "../core/world.ts";
import type { Ask } from "./ask.ts";
import { limited, messageOf } from "./deadline.ts";
import { feed, inputOf } from "./exec.ts";
import { endOf, failure, type Inside, success, type ToolOutcome } from "./inside.ts";
import { type LiveFile, livePath, openLiveFile } from "./live.ts";
import { WHOLE_BYTES_MAX } from "./output.ts";

/** What is one agent's at once. */
export const BACKGROUND_MAX = 8;
const PID_MS = 15_000;
const PID_CHARS_MAX = 16;
/** A command that fails at once is told as one in the foreground is. */
const SAID_BYTES_MAX = 4_096;
/** The writer of the file outlasts the command. */
const WRITER_MS = 60_000;

/** Its pid is its first line; the shell becomes the command's. */
const SCRIPT = 'echo $$; exec sh -c "$1"';

/** What the gateway knows of one. */
export interface BackgroundSeat {
  /** Committed: the next gateway finds it. */
  keep(timeoutMs: number): void;
  /** It has ended. */
  leave(): void;
}

export interface BackgroundContext {
  /** Undefined when too many of this agent run. */
  readonly enter: () => BackgroundSeat | undefined;
  /** Its sandbox goes. Whoever asked for it may go at any time. */
  readonly cut: AbortSignal;
  /** The gateway ends: what is heard of a command from now on is not its end. */
  readonly stopped: () => boolean;
}

interface Following {
  /** Undefined when it ended without one. */
  readonly pid: Promise<string | undefined>;
  readonly end: Promise<ToolOutcome>;
  /** Its first words. */
  readonly said: () => string;
}

interface Reader {
  readonly file: LiveFile;
  readonly timeoutMs: number;
  readonly stopped: () => boolean;
}

/** Splits the pid off the beginning of what it says. */
function pidSplitter(found: (pid: string) => void) {
  let head = Buffer.alloc(0);
  let done = false;
  return (stream: "stdout" | "stderr", data: Uint8Array): Uint8Array => {
    if (done || stream === "stderr") return data;
    head = Buffer.concat([head, data]);
    const end = head.indexOf(10);
    if (end < 0 && head.length <= PID_CHARS_MAX) return new Uint8Array();
    done = true;
    const pid = head.toString("latin1", 0, Math.max(end, 0));
    const whole = /^\d+$/.test(pid);
    // Something that is loaded into the shell speaks first.
    found(whole ? pid : "unknown");
    return whole ? head.subarray(end + 1) : head;
  };
}

const endWords = (end: Omit<ToolOutcome, "output">): string => end.error ?? "command exited with code 0";

/** Reads a command to its end. Its end stays open when the gateway ends first: the next one reads it again from the first byte. */
export function follow(handle: ExecHandle, { file, timeoutMs, stopped }: Reader): Following {
  const pid = Promise.withResolvers<string | undefined>();
  const end = Promise.withResolvers<ToolOutcome>();
  const split = pidSplitter(pid.resolve);
  let said = Buffer.alloc(0);
  const read = async (): Promise<ExecExit> => {
    for await (const { stream, data } of handle.output) {
      const rest = split(stream, data);
      if (said.length < SAID_BYTES_MAX) said = Buffer.concat([said, rest]).subarray(0, SAID_BYTES_MAX);
      await file.write(rest);
    }
    return handle.exit;
  };
  const finish = async (exit: ExecExit): Promise<void> => {
    if (stopped()) return;
    const ended = endOf(exit, timeoutMs);
    await file.finish(endWords(ended));
    end.resolve({ ...ended, output: new Uint8Array(), outputBytes: file.bytes(), background: true });
  };
  void read()
    .catch((error: unknown): ExecExit => ({ kind: "lost", reason: messageOf(error) }))
    .then(finish)
    .finally(() => pid.resolve(undefined));
  return { pid: pid.promise, end: end.promise, said: () => said.toString("utf8") };
}

export interface StartContext extends BackgroundContext {
  readonly call: string;
  readonly token: string;
  readonly env: Readonly<Record<string, string>>;
  readonly inside: Inside;
  readonly clock: Pick<Clock, "after">;
}

async function begin(ask: Ask, context: StartContext, seat: BackgroundSeat): Promise<ExecHandle> {
  const { call, token, inside, cut } = context;
  const { command, cwd, timeoutMs } = ask;
  const env = { ...context.env, BEIGE_CALL: token };
  try {
    seat.keep(timeoutMs);
    return await inside.exec({ command: ["sh", "-c", SCRIPT, "sh", command], cwd, env, timeoutMs, key: call }, cut);
  } catch (error) {
    seat.leave();
    throw error;
  }
}

function answerOf(ask: Ask, call: string, pid: string): string {
  const path = livePath(call);
  return [
    `started in the background: call ${call}, pid ${pid}`,
    `its output goes to ${path} (the first ${WHOLE_BYTES_MAX / 1024 / 1024} MiB), whose last line will say how it ended`,
    `it is ended after ${ask.timeoutMs / 1000} s; kill ${pid} ends it before`,
  ].join("\n");
}

/** Answers when it runs. `later` of the answer is its end. */
export async function startBackground(ask: Ask, context: StartContext, signal: AbortSignal): Promise<ToolOutcome> {
  const { call, inside, clock, stopped, cut } = context;
  signal.throwIfAborted();
  const seat = context.enter();
  if (seat === undefined)
    return failure(`${BACKGROUND_MAX} commands of this agent run in the background: end one with kill, or wait until one has ended`, 75);
  const handle = await begin(ask, context, seat);
  void feed(handle, inputOf(ask.stdin));
  const file = openLiveFile({ inside, clock, call, timeoutMs: ask.timeoutMs + WRITER_MS });
  // The file is there before anybody is told of it.
  await file.open();
  const { pid, end, said } = follow(handle, { file, timeoutMs: ask.timeoutMs, stopped });
  const later = end.then((last) => {
    seat.leave();
    return last.outcome === "cancelled" && cut.aborted ? { ...last, error: messageOf(cut.reason) } : last;
  });
  try {
    const found = await limited(clock, { ms: PID_MS, what: "the command" }, () => pid, signal);
    if (found !== undefined) return { ...success(answerOf(ask, call, found)), later };
  } catch (error) {
    handle.kill();
    await later;
    throw error;
  }
  // It ended without having run.
  return { ...(await later), output: Buffer.from(said()), background: false };
}
