// A real gateway in a process of its own on a home of its own, for journeys, acceptance and benchmarks.
import { type ChildProcess, spawn, spawnSync } from "node:child_process";
import { existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { request as httpRequest } from "node:http";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { NODE_FLAGS } from "../src/cli/gateway.ts";

export const root = join(dirname(fileURLToPath(import.meta.url)), "..");

export interface Ran {
  readonly code: number;
  readonly out: string;
  readonly err: string;
}

export interface Gateway {
  readonly home: string;
  readonly pid: () => number;
  /** A POST whose answer is one JSON object a line; resolves with all of them when the stream ends, cut or not. */
  stream(path: string, body: unknown, onLine?: (line: any) => void): Promise<readonly any[]>; // eslint-disable-line -- tests look into arbitrary answers
  /** Applies manifests through the API and waits; throws what went wrong. */
  apply(text: string, more?: Readonly<Record<string, unknown>>): Promise<readonly any[]>; // eslint-disable-line -- as above
  /** Runs the command line against this home. */
  beige(...args: string[]): Promise<Ran>;
  /** One request on the unix socket; the body is parsed when it is JSON. */
  request(method: string, path: string, body?: unknown): Promise<{ readonly status: number; readonly body: any }>; // eslint-disable-line -- tests look into arbitrary answers
  start(env?: Readonly<Record<string, string>>): Promise<void>;
  /** SIGTERM, and waits. */
  stop(): Promise<number | null>;
  /** SIGKILL, and waits. */
  kill(): Promise<void>;
  /** Ids of the containers that carry this home's store label. */
  containers(): readonly string[];
  /** Ends the gateway, removes its containers and its home. */
  clean(): Promise<void>;
}

export const pause = (ms: number): Promise<void> => new Promise((done) => setTimeout(done, ms));

/** Asks again until the answer is truthy; throws after `ms`. */
export async function until<T>(ask: () => Promise<T> | T, ms: number, what: string): Promise<NonNullable<T>> {
  const end = Date.now() + ms;
  for (;;) {
    const answer = await ask();
    if (answer) return answer;
    if (Date.now() > end) throw new Error(`not within ${ms} ms: ${what}`);
    await pause(50);
  }
}

function send(socket: string, method: string, path: string, body?: unknown): Promise<{ status: number; body: unknown }> {
  return new Promise((done, fail) => {
    const text = body === undefined ? undefined : JSON.stringify(body);
    const headers = text === undefined ? {} : { "content-type": "application/json", "content-length": Buffer.byteLength(text) };
    const sent = httpRequest({ socketPath: socket, method, path, headers, timeout: 120_000 }, (answer) => {
      const parts: Buffer[] = [];
      answer.on("data", (part: Buffer) => parts.push(part));
      answer.on("error", fail);
      answer.on("end", () => {
        const whole = Buffer.concat(parts).toString();
        let parsed: unknown = whole;
        try {
          parsed = JSON.parse(whole);
        } catch {
          // NDJSON and plain text stay text.
        }
        done({ status: answer.statusCode ?? 0, body: parsed });
      });
    });
    sent.on("error", fail);
    sent.end(text);
  });
}

/** Lines of a streamed answer as they come; what was cut off is dropped. */
function lines(socket: string, path: string, body: unknown, onLine: (line: unknown) => void): Promise<readonly unknown[]> {
  return new Promise((done) => {
    const text = JSON.stringify(body);
    const seen: unknown[] = [];
    const headers = { "content-type": "application/json", "content-length": Buffer.byteLength(text) };
    const sent = httpRequest({ socketPath: socket, method: "POST", path, headers }, (answer) => {
      let rest = "";
      answer.on("data", (part: Buffer) => {
        const all = (rest + part.toString()).split("\n");
        rest = all.pop() ?? "";
        for (const line of all.filter((each) => each.trim() !== "")) {
          const value: unknown = JSON.parse(line);
          seen.push(value);
          onLine(value);
        }
      });
      answer.on("error", () => done(seen));
      answer.on("close", () => done(seen));
    });
    sent.on("error", () => done(seen));
    sent.end(text);
  });
}

function run(command: string, args: readonly string[], env: NodeJS.ProcessEnv): Promise<Ran> {
  return new Promise((done) => {
    const child = spawn(command, args, { cwd: root, env, stdio: ["ignore", "pipe", "pipe"] });
    let out = "";
    let err = "";
    child.stdout.on("data", (part: Buffer) => (out += part.toString()));
    child.stderr.on("data", (part: Buffer) => (err += part.toString()));
    child.on("close", (code) => done({ code: code ?? -1, out, err }));
  });
}

const docker = (...args: string[]): string => spawnSync("docker", args, { encoding: "utf8" }).stdout ?? "";

/** A gateway that is not started yet. */
export function makeGateway(
  options: {
    readonly home?: string;
    readonly env?: Readonly<Record<string, string>>;
    readonly args?: readonly string[];
    /** Folder of a built package, to run that instead of the sources. */
    readonly program?: string;
  } = {},
): Gateway {
  const program = options.program ?? root;
  const daemon = join(program, options.program === undefined ? "src/daemon.ts" : "dist/src/daemon.js");
  const home = options.home ?? mkdtempSync(join(tmpdir(), "beige-"));
  const env = { ...process.env, BEIGE_HOME: home, BEIGE_LISTEN: "none", NO_COLOR: "1", ...options.env };
  const socket = join(home, "beige.sock");
  let child: ChildProcess | undefined;
  let store: string | undefined;

  const request = (method: string, path: string, body?: unknown) => send(socket, method, path, body);
  const ended = (): Promise<number | null> =>
    new Promise((done) =>
      !child || child.exitCode !== null || child.signalCode ? done(child?.exitCode ?? null) : child.once("exit", (code) => done(code)),
    );

  const gateway: Gateway = {
    home,
    pid: () => child?.pid ?? 0,
    beige: (...args) => run(process.execPath, [join(program, "bin/beige.cjs"), ...args], env),
    request,
    stream: (path, body, onLine = () => {}) => lines(socket, path, body, onLine),
    async apply(text, more = {}) {
      const files = [{ name: "stack.yaml", folder: home, text, vars: {}, files: {} }];
      const body = { files, set: "default", dryRun: false, forceConflicts: false, prune: false, wait: true, timeoutMs: 60_000, ...more };
      const seen = (await lines(socket, "/api/apply", body, () => {})) as { type: string; exit?: number }[];
      const end = seen.at(-1);
      if (end?.type !== "end" || end.exit !== 0) throw new Error(`apply: ${JSON.stringify(seen.slice(-3))}`);
      return seen;
    },
    async start(more = {}) {
      const log = join(home, "daemon.err");
      child = spawn(process.execPath, [...NODE_FLAGS, daemon, "--schedules", ...(options.args ?? [])], {
        env: { ...env, ...more },
        stdio: ["ignore", "ignore", "pipe"],
        cwd: root,
      });
      let err = "";
      child.stderr?.on("data", (part: Buffer) => {
        err = (err + part.toString()).slice(-20_000);
        writeFileSync(log, err);
      });
      const answer = await until(
        async () => {
          if (child?.exitCode !== null && child?.exitCode !== undefined)
            throw new Error(`the gateway ended with ${child.exitCode}: ${err}`);
          return existsSync(socket)
            ? request("GET", "/api/health").then(
                (a) => (a.status === 200 ? a : undefined),
                () => undefined,
              )
            : undefined;
        },
        30_000,
        "the gateway answers",
      );
      store = (answer.body as { store?: string }).store ?? store;
    },
    async stop() {
      child?.kill("SIGTERM");
      return ended();
    },
    async kill() {
      child?.kill("SIGKILL");
      await ended();
    },
    containers: () =>
      store === undefined
        ? []
        : docker("ps", "-aq", "--no-trunc", "--filter", `label=beige.dev/store=${store}`).split("\n").filter(Boolean),
    async clean() {
      await gateway.kill();
      const ids = gateway.containers();
      if (ids.length > 0) docker("rm", "-f", ...ids);
      if (options.home === undefined) rmSync(home, { recursive: true, force: true });
    },
  };
  return gateway;
}

/** The last lines of a home's gateway log, for a failed test's message. */
export const logTail = (gateway: Gateway): string => {
  const path = join(gateway.home, "logs/gateway.log");
  return existsSync(path) ? readFileSync(path, "utf8").slice(-4000) : "";
};
