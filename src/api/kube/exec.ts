// kubectl exec: a WebSocket whose first byte is a channel, in front of the one door that every tool call goes through.
import type { IncomingMessage } from "node:http";
import type { Duplex } from "node:stream";
import { WebSocketServer, type RawData, type WebSocket } from "ws";
import type { AgentId, CallResult, CallStreams, CallTerminal, Principal } from "../../core/call.ts";
import { nsName } from "../../core/resource.ts";
import type { ExecTerminal } from "../../core/sandbox.ts";
import { checkScope } from "../agents.ts";
import type { RouteDeps } from "../deps.ts";
import { byOf, requestIdOf } from "../exchange.ts";
import { badRequest, failure, Refusal, type Status } from "../status.ts";
import { checkName } from "../target.ts";
import { Inbox } from "./inbox.ts";
import { checkContainer } from "./logs.ts";
import { createSizes, SIZE_WAIT_MS, type Sizes, USUAL } from "./size.ts";
import { createTap } from "./tap.ts";

const PATH = /^\/api\/v1\/namespaces\/([^/]+)\/pods\/([^/]+)\/exec$/;
/** Newest first; only the newer one can say that standard input has ended. */
const PROTOCOLS = ["v5.channel.k8s.io", "v4.channel.k8s.io"];
const CHANNEL = { stdin: 0, stdout: 1, stderr: 2, error: 3, resize: 4, close: 255 } as const;
const FRAME_MAX_BYTES = 1024 * 1024;
const WORDS_MAX = 1024;
const TIMEOUT_SECONDS = 3600;

/** Only these requests leave HTTP; every other upgrade is answered as the plain request that it is. */
export const upgrades = ({ headers, url }: Pick<IncomingMessage, "headers" | "url">): boolean =>
  headers.upgrade?.toLowerCase() === "websocket" && PATH.test((url ?? "").split("?", 1)[0] ?? "");

interface Wanted {
  readonly principal: Principal;
  readonly agent: AgentId;
  readonly request: string;
  readonly command: string;
  readonly stdin: boolean;
  readonly stdout: boolean;
  readonly stderr: boolean;
  /** Where to run, and how long at most; of our own command line. */
  readonly more: Readonly<Record<string, unknown>>;
  /** With a terminal, which understands this, as in TERM. */
  readonly term?: string;
}

export function createExec(deps: RouteDeps) {
  const open = new Set<WebSocket>();
  const server = new WebSocketServer({
    noServer: true,
    clientTracking: false,
    perMessageDeflate: false,
    maxPayload: FRAME_MAX_BYTES,
    handleProtocols: (offered) => PROTOCOLS.find((protocol) => offered.has(protocol)) ?? false,
  });
  deps.stopped.addEventListener("abort", () => {
    for (const socket of open) socket.terminate();
  });
  return {
    /** For a request that passed the gate. Refuses by throwing, before anything is upgraded. */
    accept(request: IncomingMessage, socket: Duplex, head: Buffer): void {
      const wanted = wantedOf(deps, request);
      server.handleUpgrade(request, socket, head, (ws) => {
        open.add(ws);
        ws.on("close", () => open.delete(ws));
        void serve(deps, ws, wanted);
      });
    },
  };
}

function wantedOf(deps: RouteDeps, request: IncomingMessage): Wanted {
  const url = new URL(request.url ?? "/", "http://localhost");
  const offered = (request.headers["sec-websocket-protocol"] ?? "").split(",").map((word) => word.trim());
  if (!PROTOCOLS.some((protocol) => offered.includes(protocol)))
    throw badRequest("this client offers no exec protocol that is spoken here", `one of: ${PROTOCOLS.join(", ")}`);
  const [, ns, pod] = PATH.exec(url.pathname) ?? [];
  const [namespace, name] = [checkName(ns, "namespace"), checkName(pod, "name")];
  const { principal } = byOf(request);
  checkScope(principal, nsName(namespace, name));
  const agent = deps.directory.agent(namespace, name);
  if (agent === undefined) throw new Refusal(404, "NotFound", `pods ${JSON.stringify(name)} not found`, "kubectl get agents -A");
  checkContainer(url.searchParams.get("container") ?? undefined);
  const on = (key: string): boolean => ["1", "true"].includes(url.searchParams.get(key) ?? "");
  const command = url.searchParams.getAll("command");
  if (command.length === 0 || command.length > WORDS_MAX) throw badRequest(`give a command of 1 to ${WORDS_MAX} words`);
  const id = { namespace, name, uid: agent.metadata.uid };
  return {
    principal,
    agent: id,
    request: requestIdOf(request),
    command: quote(command),
    stdin: on("stdin"),
    stdout: on("stdout"),
    stderr: on("stderr"),
    more: moreOf(url.searchParams),
    ...(on("tty") && { term: termOf(url.searchParams.get("term")) }),
  };
}

function moreOf(query: URLSearchParams): Readonly<Record<string, unknown>> {
  const [cwd, timeout] = [query.get("cwd"), query.get("timeout")];
  if (timeout !== null && !/^\d{1,6}$/.test(timeout)) throw badRequest("timeout must be a number of seconds");
  return { timeout: timeout === null ? TIMEOUT_SECONDS : Number(timeout), ...(cwd !== null && { cwd }) };
}

/** Clients of Kubernetes do not say; ours does. */
const termOf = (given: string | null): string => (given !== null && /^[\w.+-]{1,64}$/.test(given) ? given : "xterm");

/** Words as a shell command that means just these words. */
export const quote = (words: readonly string[]): string =>
  words.map((word) => (/^[\w@%+=:,./-]+$/.test(word) && !word.includes("=") ? word : `'${word.replaceAll("'", `'\\''`)}'`)).join(" ");

async function serve(deps: RouteDeps, ws: WebSocket, wanted: Wanted): Promise<void> {
  const left = new AbortController();
  const inbox = new Inbox(createTap(ws, deps.clock));
  const sizes = wanted.term === undefined ? undefined : createSizes();
  ws.on("close", () => {
    inbox.end();
    left.abort(new DOMException("the client has left", "AbortError"));
  });
  ws.on("error", () => ws.terminate());
  // What nobody will read is dropped, not kept.
  ws.on("message", (data, binary) => {
    if (binary) receive(bytesOf(data), { sizes, ...(wanted.stdin && { inbox }) });
  });
  const signal = AbortSignal.any([left.signal, deps.stopped]);
  const terminal = sizes === undefined ? {} : { terminal: await terminalOf(deps, sizes, wanted.term) };
  const streams: CallStreams = {
    ...terminal,
    ...(wanted.stdin && { input: inbox.chunks() }),
    output: async (stream, data) => {
      if (wanted[stream]) await post(deps, ws, CHANNEL[stream], data);
    },
  };
  const input = { params: { command: wanted.command, ...wanted.more } };
  const call = { principal: wanted.principal, agent: wanted.agent, request: wanted.request, tool: "exec", input, streams };
  const status = await deps.call(call, signal).then(statusOf, (error: unknown) => failure(error));
  if (ws.readyState !== ws.OPEN) return;
  await post(deps, ws, CHANNEL.error, Buffer.from(JSON.stringify(status)));
  // A paused socket would not hear the answer to this.
  ws.resume();
  ws.close(1000);
}

const bytesOf = (data: RawData): Buffer => (Array.isArray(data) ? Buffer.concat(data) : Buffer.isBuffer(data) ? data : Buffer.from(data));

interface Receivers {
  readonly inbox?: Inbox;
  readonly sizes: Sizes | undefined;
}

function receive(frame: Buffer, { inbox, sizes }: Receivers): void {
  const [channel, closed] = frame;
  if (channel === CHANNEL.stdin && frame.length > 1) inbox?.push(frame.subarray(1));
  else if (channel === CHANNEL.resize) sizes?.take(frame.subarray(1));
  else if (channel === CHANNEL.close && closed === CHANNEL.stdin) inbox?.end();
}

/** Waits a moment for the client's size, so that a program that looks once at its start sees the right one. */
async function terminalOf(deps: RouteDeps, sizes: Sizes, term = ""): Promise<CallTerminal> {
  const usual = Promise.withResolvers<ExecTerminal>();
  const timer = deps.clock.after(SIZE_WAIT_MS, () => usual.resolve(USUAL));
  const size = await Promise.race([sizes.first, usual.promise]);
  timer.cancel();
  return { ...size, term, onSize: (listener) => sizes.onSize(listener) };
}

/** Resolves when the bytes have left; a client that does not read is cut, since the command waits for it. */
async function post(deps: RouteDeps, ws: WebSocket, channel: number, data: Uint8Array): Promise<void> {
  if (ws.readyState !== ws.OPEN) return;
  await new Promise<void>((resolve) => {
    const timer = deps.clock.after(deps.limits.stallMs, () => {
      deps.log.warn("slow reader cut", { afterMs: deps.limits.stallMs });
      ws.terminate();
    });
    ws.send(Buffer.concat([Uint8Array.of(channel), data]), { binary: true }, () => {
      timer.cancel();
      resolve();
    });
  });
}

/** How the command ended, as clients of Kubernetes read it. */
export function statusOf(result: CallResult): Status {
  if (result.success) return { kind: "Status", apiVersion: "v1", metadata: {}, status: "Success", code: 200 };
  const said = result.error === undefined || result.error === "" ? `command terminated with exit code ${result.exitCode}` : result.error;
  if (result.outcome === "denied") return failure(new Refusal(403, "Forbidden", said, "kubectl describe agent NAME"));
  const causes = [{ reason: "ExitCode", message: String(result.exitCode) }];
  const base = { kind: "Status", apiVersion: "v1", metadata: {}, status: "Failure" } as const;
  return { ...base, reason: "NonZeroExitCode", message: said, details: { causes }, code: 500 };
}
