// For tests: a gateway on real sockets in a temporary folder, before an engine in memory, and clients for it.
import { mkdtempSync, rmSync } from "node:fs";
import { request as httpRequest, type IncomingHttpHeaders } from "node:http";
import { connect, type Socket } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as timer } from "node:timers";
import type { CallRequest, CallResult } from "../core/call.ts";
import type { Agent } from "../core/resource.ts";
import type { TurnEvent, TurnRequest } from "../core/turn.ts";
import type { Clock, Log } from "../core/world.ts";
import { createApi, type Api } from "./api.ts";
import type { ApiDeps } from "./deps.ts";
import { fakeControl, type FakeControl } from "./fake.ts";

export const realClock: Clock = {
  now: () => Date.parse("2026-03-05T00:01:00Z"),
  monotonic: () => performance.now(),
  sleep: (ms) => new Promise((resolve) => void timer(resolve, ms)),
  after(ms, run) {
    const t = timer(run, Math.min(ms, 2 ** 31 - 1)).unref();
    return { cancel: () => void t.ref().close() };
  },
};

export interface Rig {
  readonly api: Api;
  readonly control: FakeControl;
  readonly socket: string;
  readonly port: number;
  readonly token: string;
  readonly folder: string;
  readonly logged: string[];
  /** Requests over the unix socket unless `tcp`; with the token unless headers say otherwise. */
  ask(line: string, options?: AskOptions): Promise<Answer>;
  /** A bare connection over TCP or the unix socket. */
  dial(door: "tcp" | "socket"): Socket;
  end(): Promise<void>;
}

export interface AskOptions {
  readonly body?: unknown;
  readonly headers?: Readonly<Record<string, string>>;
  readonly tcp?: boolean;
  readonly type?: string;
}

export interface Answer {
  readonly status: number;
  readonly headers: IncomingHttpHeaders;
  readonly text: string;
  /** Whether the end of the answer was really sent. */
  readonly complete: boolean;
  readonly json: any; // eslint-disable-line typescript/no-explicit-any -- answers are looked into freely by tests
}

export async function rig(over: Partial<ApiDeps> = {}): Promise<Rig> {
  const folder = mkdtempSync(join(tmpdir(), "beige-api-"));
  const control = fakeControl();
  const logged: string[] = [];
  const log: Log = {
    debug: () => undefined,
    info: () => undefined,
    warn: (m) => void logged.push(m),
    error: (m, f) => void logged.push(`${m} ${JSON.stringify(f)}`),
  };
  const token = "t0ken-".repeat(6);
  const directory = {
    agent: (namespace: string, name: string) =>
      control.list("Agent", { namespace }).items.find((a) => a.metadata.name === name) as Agent | undefined,
  };
  const api = createApi({
    control,
    directory: directory as ApiDeps["directory"],
    call: async (r) => echoCall(r),
    turn: echoTurn,
    token,
    version: "0.1.0",
    home: folder,
    clock: realClock,
    log,
    health: () => ({ ready: true, engine: "ok" }),
    ...over,
    limits: { drainMs: 300, ...over.limits },
  });
  const socket = join(folder, "beige.sock");
  const { url = "" } = await api.listen({ socket, port: 0 });
  const port = Number(url.split(":").at(-1));
  return {
    api,
    control,
    socket,
    port,
    token,
    folder,
    logged,
    ask: (line, options = {}) => ask({ socket, port, token }, line, options),
    dial: (door) => (door === "tcp" ? connect({ host: "127.0.0.1", port }) : connect({ path: socket })).on("error", () => undefined),
    async end() {
      await api.close();
      rmSync(folder, { recursive: true, force: true });
    },
  };
}

function ask(
  at: { readonly socket: string; readonly port: number; readonly token: string },
  line: string,
  options: AskOptions,
): Promise<Answer> {
  const [method = "", path = ""] = line.split(" ");
  const body =
    options.body === undefined
      ? undefined
      : typeof options.body === "string" || Buffer.isBuffer(options.body)
        ? options.body
        : JSON.stringify(options.body);
  const headers = {
    ...(options.tcp === true && { authorization: `Bearer ${at.token}` }),
    ...(body !== undefined && { "content-type": options.type ?? "application/json", "content-length": String(Buffer.byteLength(body)) }),
    ...options.headers,
  };
  const where = options.tcp === true ? { host: "127.0.0.1", port: at.port } : { socketPath: at.socket };
  return new Promise((resolve, reject) => {
    const sent = httpRequest({ ...where, method, path, headers, agent: false }, (response) => {
      const chunks: Buffer[] = [];
      response.on("data", (chunk: Buffer) => chunks.push(chunk));
      response.on("error", () => undefined);
      response.on("close", () => {
        const text = Buffer.concat(chunks).toString();
        resolve({ status: response.statusCode ?? 0, headers: response.headers, text, complete: response.complete, json: parsed(text) });
      });
    });
    sent.on("error", reject);
    sent.end(body);
  });
}

function parsed(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}

function echoCall(request: CallRequest): CallResult {
  return { call: "c1", success: true, output: new TextEncoder().encode(JSON.stringify(request.input)), exitCode: 0, outcome: "ok" };
}

async function* echoTurn(request: TurnRequest): AsyncIterable<TurnEvent> {
  const cost = { input: 0, output: 0, cacheRead: 0, cacheWrite: 0, total: 0 };
  yield { type: "session", session: request.session ?? "cli:default", inbox: "i1" };
  yield { type: "text", delta: request.text };
  yield {
    type: "done",
    text: request.text,
    stop: "stop",
    provider: "echo",
    model: "echo",
    usage: { input: 0, output: 0, cacheRead: 0, cacheWrite: 0, totalTokens: 0, cost },
  };
}
