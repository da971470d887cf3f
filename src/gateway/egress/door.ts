// The proxy that one agent's sandbox talks to: CONNECT and plain HTTP in absolute form, nothing else.
import { Agent as HttpAgent, createServer, type IncomingMessage, type Server, type ServerResponse } from "node:http";
import type { Socket } from "node:net";
import type { AgentId } from "../../core/call.ts";
import { parseTarget, targetText, type Target } from "../../core/egress.ts";
import { asBeigeError } from "../../core/errors.ts";
import { forward, say, type Onward } from "./forward.ts";
import type { EgressDeps } from "./network.ts";
import { EgressRefused } from "./judge.ts";
import type { Passage, Traffic } from "./passage.ts";
import { ESTABLISHED, tunnel } from "./tunnel.ts";

const HEADERS_MS = 10_000;
const KEEP_ALIVE_MS = 15_000;
const CHECK_MS = 2_000;
const HEADERS_MAX = 200;
const HTTP = 80;

const refused = (error: unknown): EgressRefused => {
  if (error instanceof EgressRefused) return error;
  return new EgressRefused(502, asBeigeError(error).message, "try again");
};

const textOf = ({ message, hint }: EgressRefused): string => `beige: ${message}\nfix: ${hint}\n`;

const WORD: Readonly<Record<number, string>> = { 400: "Bad Request", 403: "Forbidden", 502: "Bad Gateway", 503: "Service Unavailable" };

function turnAway(socket: Socket, error: EgressRefused): void {
  const body = textOf(error);
  const lines = [
    `HTTP/1.1 ${error.status} ${WORD[error.status] ?? "Refused"}`,
    "content-type: text/plain; charset=utf-8",
    `content-length: ${Buffer.byteLength(body)}`,
    "x-beige-egress: 1",
    "connection: close",
  ];
  socket.end(`${lines.join("\r\n")}\r\n\r\n${body}`);
}

/** Host and path of an absolute address; nothing that two parsers could read in two ways. */
function absolute(url: string): { readonly target: Target; readonly path: string; readonly authority: string } | undefined {
  const match = /^http:\/\/([^/?#\\@]{1,300})((?:[/?][\x21\x22\x24-\x7e]*)?)$/i.exec(url);
  const authority = match?.[1] ?? "";
  const target = parseTarget(authority, HTTP);
  if (target === undefined) return undefined;
  const path = match?.[2] ?? "";
  return {
    target,
    authority: target.port === HTTP ? targetText(target).replace(/:80$/, "") : targetText(target),
    path: path.startsWith("/") ? path : `/${path}`,
  };
}

async function injectionOf(deps: EgressDeps, { rule, target }: Passage): Promise<Onward["injection"]> {
  if (rule.injection === undefined) return undefined;
  const value = await deps.secrets.resolve({ secret: rule.injection.secret }, targetText(target));
  return { rule: rule.injection, value };
}

/** Over TLS that ends here, so that the secret can be put in; the host is held to its own certificate. */
async function intercepted(deps: EgressDeps, passage: Passage, ends: { readonly client: Socket; readonly head: Buffer }): Promise<void> {
  const { client, head } = ends;
  const { target } = passage;
  client.write(ESTABLISHED);
  if (head.length > 0) client.unshift(head);
  const secure = await deps.network.intercept(client, target.host);
  passage.holds(secure);
  const named: unknown = (secure as { readonly servername?: unknown }).servername;
  const name = typeof named === "string" ? named.toLowerCase() : undefined;
  if (name === undefined ? !target.literal : name !== target.host) {
    secure.destroy();
    passage.finish({ error: `the client's TLS hello names ${name ?? "no host"}, not ${target.host}`, denied: true });
    return;
  }
  const agent = new HttpAgent({ keepAlive: true, maxSockets: 1 });
  agent.createConnection = (_options, made) => {
    passage
      .dial()
      .then((socket) => deps.network.secure(socket, target.host))
      .then(
        (socket) => made?.(null, socket),
        (error: unknown) => made?.(error instanceof Error ? error : new Error(String(error)), secure),
      );
    return undefined;
  };
  secure.on("error", () => undefined);
  secure.once("close", () => {
    agent.destroy();
    passage.finish();
  });
  const authority = target.port === 443 ? targetText(target).replace(/:443$/, "") : targetText(target);
  inner(deps, async (request, response) => {
    const asked = parseTarget(request.headers.host ?? "", target.port);
    if (asked === undefined || asked.host !== target.host || asked.port !== target.port || request.url?.startsWith("/") !== true) {
      return say(response, 421, `beige: this connection is for ${authority}\n`);
    }
    const injection = await injectionOf(deps, passage);
    await forward(request, response, {
      path: request.url,
      host: authority,
      by: { agent },
      ...(injection === undefined ? {} : { injection }),
    });
  }).emit("connection", secure);
}

/** HTTP as strict as Node's parser is, and bounded. */
function inner(deps: EgressDeps, serve: (request: IncomingMessage, response: ServerResponse) => Promise<unknown>): Server {
  const { headerBytes } = { headerBytes: 16 * 1024, ...deps.limits };
  const server = createServer({
    maxHeaderSize: headerBytes,
    headersTimeout: HEADERS_MS,
    requestTimeout: 0,
    keepAliveTimeout: KEEP_ALIVE_MS,
    connectionsCheckingInterval: CHECK_MS,
    insecureHTTPParser: false,
    noDelay: true,
  });
  server.maxHeadersCount = HEADERS_MAX;
  server.on("request", (request, response) => {
    serve(request, response).catch((error: unknown) => {
      const refusal = refused(error);
      say(response, refusal.status, textOf(refusal));
    });
  });
  return server;
}

interface Asker {
  readonly deps: EgressDeps;
  readonly traffic: Traffic;
  readonly agent: AgentId;
}

/** A request for http://HOST/...: a passage of its own, whatever came before on the same connection. */
async function plainRequest({ deps, traffic, agent }: Asker, request: IncomingMessage, response: ServerResponse): Promise<void> {
  const at = absolute(request.url ?? "");
  if (at === undefined) {
    throw new EgressRefused(400, "this is a proxy: it takes CONNECT HOST:PORT, or a request for http://HOST/...", "https goes by CONNECT");
  }
  const passage = await traffic.open(agent, at.target, "http");
  passage.holds(response);
  try {
    const injection = await injectionOf(deps, passage);
    const socket = await passage.dial();
    const onward = { path: at.path, host: at.authority, by: { socket }, ...(injection === undefined ? {} : { injection }) };
    const error = await forward(request, response, onward);
    passage.finish(error === undefined ? undefined : { error });
  } catch (error) {
    const refusal = refused(error);
    say(response, refusal.status, textOf(refusal));
    passage.finish({ error: refusal.message });
  }
}

async function connected(
  { deps, traffic, agent }: Asker,
  request: IncomingMessage,
  ends: { readonly client: Socket; readonly head: Buffer },
): Promise<void> {
  const { client, head } = ends;
  const target = parseTarget(request.url ?? "");
  if (target === undefined) throw new EgressRefused(400, "CONNECT takes HOST:PORT", "CONNECT api.example.com:443");
  const passage = await traffic.open(agent, target, "connect");
  passage.holds(client);
  try {
    if (client.destroyed) return passage.finish({ error: "the client has left" });
    if (passage.rule.injection !== undefined) return await intercepted(deps, passage, { client, head });
    const upstream = await passage.dial();
    await tunnel({ client, head, upstream }, passage, { clock: deps.clock, ms: traffic.limits.helloMs });
  } catch (error) {
    // An answer instead of the tunnel, unless the tunnel stands already.
    if (client.bytesWritten === 0) turnAway(client, refused(error));
    else client.destroy();
    passage.finish({ error: refused(error).message });
  }
}

export interface Door {
  readonly server: Server;
  /** Ends every connection. */
  end(): void;
}

export function createDoor(deps: EgressDeps, traffic: Traffic, agent: AgentId): Door {
  const { log } = deps;
  const clients = new Set<Socket>();
  const asker = { deps, traffic, agent };
  const server = inner(deps, (request, response) => plainRequest(asker, request, response));
  server.on("connect", (request, socket, head) => {
    const client = socket as Socket;
    client.on("error", () => undefined);
    connected(asker, request, { client, head }).catch((error: unknown) => turnAway(client, refused(error)));
  });
  server.on("clientError", (error: NodeJS.ErrnoException, socket) => {
    const status = error.code === "HPE_HEADER_OVERFLOW" ? 431 : 400;
    if (socket.writable) socket.end(`HTTP/1.1 ${status} Bad Request\r\nconnection: close\r\ncontent-length: 0\r\n\r\n`);
    else socket.destroy();
  });
  server.on("connection", (socket: Socket) => {
    // As many as may wait for an answer beside those that have a connection.
    if (clients.size >= 2 * traffic.limits.connections) {
      socket.destroy();
      return;
    }
    clients.add(socket);
    socket.once("close", () => clients.delete(socket));
    socket.setTimeout(traffic.limits.idleMs, () => socket.destroy());
  });
  server.on("error", (error) => log.warn("egress socket of agent failed", { agent: agent.name, error: error.message }));
  return {
    server,
    end: () => {
      for (const socket of clients) socket.destroy();
    },
  };
}
