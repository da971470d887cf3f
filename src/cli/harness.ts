// For the tests of the command line: a small API on a socket in a home of its own, and the real program run against it.
import { type ChildProcess, spawn } from "node:child_process";
import { mkdtempSync, rmSync } from "node:fs";
import { createServer, type IncomingMessage, type Server, type ServerResponse } from "node:http";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import type { Output } from "./output.ts";

const main = join(dirname(fileURLToPath(import.meta.url)), "main.ts");

export interface Ran {
  readonly code: number | null;
  readonly signal: NodeJS.Signals | null;
  readonly out: string;
  readonly err: string;
}

export interface Asked {
  readonly request: IncomingMessage;
  readonly response: ServerResponse;
  readonly url: URL;
  readonly body: unknown;
}

export interface Stand {
  readonly home: string;
  /** Paths that were asked for, with their method, in order. */
  readonly asked: readonly string[];
  run(
    args: readonly string[],
    options?: { readonly stdin?: string; readonly env?: Readonly<Record<string, string>>; readonly cwd?: string },
  ): Promise<Ran>;
  /** The process itself, for signals and readers that leave. */
  start(args: readonly string[], env?: Readonly<Record<string, string>>): ChildProcess;
  close(): Promise<void>;
}

export const json = (response: ServerResponse, value: unknown, status = 200): void => {
  response.writeHead(status, { "content-type": "application/json" }).end(JSON.stringify(value));
};
export const ndjson = (response: ServerResponse, values: readonly unknown[]): void => {
  response.writeHead(200, { "content-type": "application/x-ndjson" });
  for (const value of values) response.write(`${JSON.stringify(value)}\n`);
  response.end();
};

async function bodyOf(request: IncomingMessage): Promise<unknown> {
  const parts: Buffer[] = [];
  for await (const part of request) parts.push(part as Buffer);
  const text = Buffer.concat(parts).toString();
  return text === "" ? undefined : (JSON.parse(text) as unknown);
}

/** Routes by `METHOD /path`; anything else is a 404 Status. Without routes nothing listens. */
export async function stand(routes?: Readonly<Record<string, (asked: Asked) => void>>): Promise<Stand> {
  const home = mkdtempSync(join(tmpdir(), "beige-cli-"));
  const asked: string[] = [];
  const children = new Set<ChildProcess>();
  let server: Server | undefined;
  if (routes) {
    server = createServer((request, response) => {
      const url = new URL(request.url ?? "/", "http://localhost");
      asked.push(`${request.method ?? ""} ${request.url ?? ""}`);
      void bodyOf(request).then((body) => {
        const route = routes[`${request.method ?? ""} ${url.pathname}`];
        if (route) route({ request, response, url, body });
        else json(response, { kind: "Status", reason: "NotFound", message: `${url.pathname} not found`, code: 404 }, 404);
      });
    });
    await new Promise<void>((done) => server?.listen(join(home, "beige.sock"), done));
  }
  const start = (args: readonly string[], env: Readonly<Record<string, string>> = {}, cwd?: string): ChildProcess => {
    const base = { PATH: process.env["PATH"] ?? "", HOME: home, BEIGE_HOME: home, LANG: "C.UTF-8" };
    const child = spawn(process.execPath, [main, ...args], {
      env: { ...base, ...env },
      stdio: ["pipe", "pipe", "pipe"],
      ...(cwd !== undefined && { cwd }),
    });
    children.add(child);
    child.stdin?.on("error", () => undefined);
    return child;
  };
  return {
    home,
    asked,
    start,
    run: (args, options = {}) =>
      new Promise((done) => {
        const child = start(args, options.env, options.cwd ?? home);
        const out: Buffer[] = [];
        const err: Buffer[] = [];
        child.stdout?.on("data", (part: Buffer) => out.push(part));
        child.stderr?.on("data", (part: Buffer) => err.push(part));
        child.on("close", (code, signal) => done({ code, signal, out: Buffer.concat(out).toString(), err: Buffer.concat(err).toString() }));
        child.stdin?.end(options.stdin ?? "");
      }),
    async close() {
      for (const child of children) child.kill("SIGKILL");
      server?.closeAllConnections();
      await new Promise<void>((done) => (server ? server.close(() => done()) : done()));
      rmSync(home, { recursive: true, force: true });
    },
  };
}

/** An output that keeps what is written. */
export function paper(
  options: Partial<Pick<Output, "tty" | "live" | "columns" | "unicode">> = {},
): Output & { readonly out: () => string; readonly err: () => string } {
  const out: string[] = [];
  const err: string[] = [];
  return {
    tty: false,
    terminal: options.tty ?? false,
    live: false,
    columns: 100,
    unicode: true,
    ...options,
    paint: (_, text) => text,
    write: async (text) => void out.push(typeof text === "string" ? text : Buffer.from(text).toString()),
    note: (text) => void err.push(`${text}\n`),
    raw: (text) => void err.push(text),
    flushed: () => Promise.resolve(),
    out: () => out.join(""),
    err: () => err.join(""),
  };
}
