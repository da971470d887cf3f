// A sandbox without walls for tests of the gateway: commands run on this machine, /workspace is a temporary folder, the guest is the real one.
import { spawn } from "node:child_process";
import { mkdirSync, symlinkSync } from "node:fs";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import type { ExecExit, ExecHandle, ExecRequest } from "../../src/core/sandbox.ts";

const root = join(dirname(fileURLToPath(import.meta.url)), "../..");
export const guestBinary = join(root, `sandbox/guest/bin/beige-guest-${process.arch === "arm64" ? "arm64" : "x64"}`);

type Chunk = { readonly stream: "stdout" | "stderr"; readonly data: Uint8Array };

export interface LocalSandbox {
  readonly workspace: string;
  /** Every request, as it came. */
  readonly requests: (ExecRequest & { readonly id: string })[];
  /** Thrown by the next exec. */
  failure: Error | undefined;
  exec(id: string, request: ExecRequest, signal?: AbortSignal): Promise<ExecHandle>;
}

function handleOf(child: ReturnType<typeof spawn>, timeoutMs: number, signal: AbortSignal | undefined): ExecHandle {
  const chunks: Chunk[] = [];
  let wake = Promise.withResolvers<void>();
  let closed = false;
  let why: ExecExit | undefined;
  const sweep = (): void => {
    try {
      process.kill(-(child.pid ?? 0), "SIGKILL");
    } catch {
      // It has ended.
    }
  };
  const end = (exit: ExecExit): void => {
    why ??= exit;
    sweep();
  };
  const timer = setTimeout(() => end({ kind: "timeout" }), timeoutMs);
  const stop = (): void => end({ kind: "cancelled" });
  signal?.addEventListener("abort", stop);
  for (const stream of ["stdout", "stderr"] as const) {
    child[stream]?.on("data", (data: Buffer) => {
      chunks.push({ stream, data });
      wake.resolve();
    });
  }
  child.stdin?.on("error", () => undefined);
  // The supervisor ends the whole tree with its first process.
  child.on("exit", sweep);
  const exit = new Promise<ExecExit>((done) => {
    child.on("close", (code, name) => {
      clearTimeout(timer);
      signal?.removeEventListener("abort", stop);
      closed = true;
      wake.resolve();
      done(why ?? (name === null ? { kind: "code", code: code ?? 0 } : { kind: "signal", signal: 9 }));
    });
  });
  const output = (async function* (): AsyncGenerator<Chunk> {
    for (;;) {
      for (let next = chunks.shift(); next !== undefined; next = chunks.shift()) yield next;
      if (closed) return;
      await wake.promise;
      wake = Promise.withResolvers<void>();
    }
  })();
  const write = (data?: Uint8Array): Promise<void> =>
    new Promise((done, fail) => {
      const told = (error?: Error | null): void => (error === undefined || error === null ? done() : fail(error));
      if (data === undefined) child.stdin?.end(() => done());
      else child.stdin?.write(data, told);
    });
  return { output, exit, write, end: () => write(), kill: () => end({ kind: "cancelled" }) };
}

export function localSandbox(folder: string): LocalSandbox {
  const workspace = join(folder, "workspace");
  mkdirSync(workspace, { recursive: true });
  const client = join(folder, "tool-client");
  symlinkSync(guestBinary, client);
  const mapped = (word: string): string => (word.startsWith("/workspace") ? workspace + word.slice("/workspace".length) : word);
  const local: LocalSandbox = {
    workspace,
    requests: [],
    failure: undefined,
    exec: async (id, request, signal) => {
      local.requests.push({ ...request, id });
      if (local.failure !== undefined) throw local.failure;
      signal?.throwIfAborted();
      const [program = "", ...args] = request.command;
      const isGuest = program === "/beige/tool-client";
      const child = spawn(isGuest ? client : program, isGuest ? args.map(mapped) : args, {
        cwd: mapped(request.cwd ?? "/workspace"),
        env: { PATH: process.env["PATH"] ?? "", ...request.env },
        detached: true,
        stdio: ["pipe", "pipe", "pipe"],
      });
      await new Promise<void>((done, fail) => child.once("spawn", done).once("error", fail));
      return handleOf(child, request.timeoutMs, signal);
    },
  };
  return local;
}
