// Runs the guest binary as a plain process for its tests, and speaks its frames.
import { spawn, type ChildProcessWithoutNullStreams } from "node:child_process";
import { guestPath } from "../guest.ts";
import { createGuestFrames, frameIn } from "../docker/frames.ts";

export interface Outcome {
  readonly stdout: Buffer;
  readonly stderr: Buffer;
  readonly code: number | null;
}

/** A mode of the guest that is not framed. */
export async function plain(
  args: readonly string[],
  options: { input?: Uint8Array; env?: NodeJS.ProcessEnv; argv0?: string; cwd?: string } = {},
): Promise<Outcome> {
  const child = spawn(guestPath(), args, {
    env: options.env ?? {},
    argv0: options.argv0 ?? "tool-client",
    ...(options.cwd ? { cwd: options.cwd } : {}),
  });
  child.stdin.on("error", () => undefined);
  child.stdin.end(options.input ?? "");
  const out: Buffer[] = [];
  const err: Buffer[] = [];
  child.stdout.on("data", (data: Buffer) => out.push(data));
  child.stderr.on("data", (data: Buffer) => err.push(data));
  const code = await new Promise<number | null>((resolve, reject) => child.on("close", resolve).on("error", reject));
  return { stdout: Buffer.concat(out), stderr: Buffer.concat(err), code };
}

export interface Running {
  readonly child: ChildProcessWithoutNullStreams;
  readonly stdout: Buffer[];
  readonly stderr: Buffer[];
  readonly credits: number[];
  /** JSON of the exit frame; undefined when the guest ended without one. */
  readonly exit: Promise<unknown>;
  send(type: 0 | 1 | 2, data?: Uint8Array): void;
}

/** The guest's `run`. Output is read as it comes. */
export function framed(args: readonly string[], env: NodeJS.ProcessEnv = process.env): Running {
  const child = spawn(guestPath(), ["run", ...args], { env, argv0: "tool-client" });
  child.stdin.on("error", () => undefined);
  const read = createGuestFrames();
  const running = { child, stdout: [] as Buffer[], stderr: [] as Buffer[], credits: [] as number[] };
  let exit: unknown;
  child.stdout.on("data", (chunk: Buffer) => {
    for (const frame of read(chunk)) {
      if (frame.type === "credit") running.credits.push(frame.bytes);
      else if (frame.type === "exit") exit = JSON.parse(frame.json);
      else running[frame.piece.stream].push(Buffer.from(frame.piece.data));
    }
  });
  return {
    ...running,
    exit: new Promise((resolve) => child.on("close", () => resolve(exit))),
    send: (type, data) => void child.stdin.write(frameIn(type, data)),
  };
}
