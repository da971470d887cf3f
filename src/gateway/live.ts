// A file of the workspace that a command's output goes to while it runs, for whoever looks meanwhile: bounded, and written inside.
import type { ExecHandle } from "../core/sandbox.ts";
import type { Clock } from "../core/world.ts";
import { limited } from "./deadline.ts";
import { type Inside, WORKSPACE } from "./inside.ts";
import { WHOLE_BYTES_MAX } from "./output.ts";

const WRITE_MS = 10_000;
/** What was there is another file from now on: an older writer may hold it yet. */
const ANEW = 'mkdir -p .beige/output && rm -f "$1" && exec cat > "$1"';
const ADD = 'mkdir -p .beige/output && exec cat >> "$1"';

export interface LiveFile {
  /** Below the workspace. */
  readonly path: string;
  readonly bytes: () => number;
  open(): Promise<void>;
  /** Never throws: a full workspace must not end the command. */
  write(data: Uint8Array): Promise<void>;
  /** Adds a last line. */
  finish(line: string): Promise<void>;
}

export interface LiveFileOptions {
  readonly inside: Inside;
  readonly clock: Pick<Clock, "after">;
  readonly call: string;
  readonly timeoutMs: number;
  /** What is there stays. */
  readonly adds?: boolean;
}

export const livePath = (call: string): string => `.beige/output/${call}.txt`;

export function openLiveFile({ inside, clock, call, timeoutMs, adds = false }: LiveFileOptions): LiveFile {
  const path = livePath(call);
  let opened: Promise<{ readonly handle: ExecHandle; readonly drained: Promise<void> }> | undefined;
  let [bytes, broken] = [0, false];
  const stop = new AbortController();
  const open = async () => {
    const command = ["sh", "-c", adds ? ADD : ANEW, "sh", path];
    const handle = await inside.exec({ command, cwd: WORKSPACE, timeoutMs }, stop.signal);
    const drained = (async () => {
      for await (const { data } of handle.output) if (data.length === 0) continue;
    })();
    return { handle, drained };
  };
  const attempt = async (work: (handle: ExecHandle) => Promise<void>): Promise<void> => {
    if (broken) return;
    try {
      opened ??= open();
      const ready = opened;
      await limited(clock, { ms: WRITE_MS, what: "writing output" }, async () => work((await ready).handle));
    } catch {
      broken = true;
      stop.abort(new Error("output is not kept"));
      void opened?.then(({ handle }) => handle.kill()).catch(() => undefined);
    }
  };
  return {
    path,
    bytes: () => bytes,
    open: () => attempt(() => Promise.resolve()),
    async write(data) {
      const part = data.subarray(0, Math.max(0, WHOLE_BYTES_MAX - bytes));
      bytes += data.length;
      if (part.length > 0) await attempt((handle) => handle.write(part));
    },
    finish: (line) =>
      attempt(async (handle) => {
        const over = bytes > WHOLE_BYTES_MAX ? `\n[${bytes - WHOLE_BYTES_MAX} bytes more are not kept]` : "";
        await handle.write(Buffer.from(`${over}\n[${line}]\n`));
        await handle.end();
        await (
          await opened
        )?.drained;
      }),
  };
}
