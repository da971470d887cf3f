// The gateway's HTTP API: one router behind its doors, and its orderly end.
import { setMaxListeners } from "node:events";
import type { IncomingMessage, ServerResponse } from "node:http";
import type { Duplex } from "node:stream";
import type { ApiDeps, RouteDeps } from "./deps.ts";
import { httpServer, openPort, openSocket, type AnyServer, type Identity } from "./doors.ts";
import { drain } from "./drain.ts";
import { requestIdOf, setAsker } from "./exchange.ts";
import { createAccess } from "./access.ts";
import { admit, hostsOf, type Admitted, type Door } from "./gate.ts";
import { createExec, upgrades } from "./kube/exec.ts";
import { LIMITS } from "./limits.ts";
import { createLive, type Ending } from "./live.ts";
import { onClientError, turnAway, turnAwayUpgrade } from "./refuse.ts";
import { router } from "./router.ts";
import { Refusal, refusalOf } from "./status.ts";

export interface ListenOptions {
  readonly socket: string;
  /** A loopback name; 127.0.0.1 when absent. */
  readonly host?: string;
  /** 7433 when absent; 0 takes a free one. */
  readonly port?: number | "none";
  /** A door of its own with TLS, for clients of Kubernetes: they send no token over plain HTTP. Absent: none. */
  readonly kube?: { readonly port: number } & Identity;
}

export interface Listening {
  readonly socket: string;
  readonly url?: string;
  /** Of the door with TLS. */
  readonly kube?: string;
  readonly warning?: string;
}

export interface Api {
  /** A port that is taken is a warning; a socket that is taken throws. */
  listen(options: ListenOptions): Promise<Listening>;
  /** Takes no more requests, ends watches, lets turns and calls go on for a while, then ends them too. */
  close(): Promise<void>;
}

const DEFAULT_PORT = 7433;
/** After the last signal, before connections are cut. */
const LAST_WORDS_MS = 500;

export function createApi(given: ApiDeps): Api {
  const limits = { ...LIMITS, ...given.limits };
  const closing = new AbortController();
  const stopped = new AbortController();
  // Every stream and call listens to them.
  setMaxListeners(0, closing.signal, stopped.signal);
  const deps: RouteDeps = { ...given, limits, live: createLive(), closing: closing.signal, stopped: stopped.signal };
  const open = opener(deps);
  return {
    async listen(options) {
      await open.app.ready();
      await open.socket(options.socket);
      const { kube } = options;
      const ports: Port[] = [];
      if (options.port !== "none") ports.push({ as: "url", port: options.port ?? DEFAULT_PORT });
      if (kube !== undefined) ports.push({ as: "kube", port: kube.port, identity: { key: kube.key, cert: kube.cert } });
      return { socket: options.socket, ...(await listenOn(open, ports, { host: options.host ?? "127.0.0.1", token: deps.token })) };
    },
    async close() {
      closing.abort(closingDown());
      const closed = open.shut();
      if (!(await drain(open.servers, closed, { clock: deps.clock, ms: limits.drainMs }))) {
        stopped.abort(closingDown());
        if (!(await drain(open.servers, closed, { clock: deps.clock, ms: LAST_WORDS_MS })))
          for (const server of open.servers) server.closeAllConnections();
      }
      await closed;
      await open.app.close();
    },
  };
}

/** The addresses by name, and what could not be had. */
async function listenOn(
  open: ReturnType<typeof opener>,
  ports: readonly Port[],
  { host, token }: { readonly host: string; readonly token: string },
): Promise<Omit<Listening, "socket">> {
  if (ports.length === 0) return {};
  if (token === "") return { warning: "there is no token: serving on the unix socket only" };
  const warnings: string[] = [];
  const addresses: { url?: string; kube?: string } = {};
  for (const port of ports) {
    const opened = await open.port(host, port);
    if ("warning" in opened) warnings.push(opened.warning);
    else addresses[port.as] = opened.url;
  }
  return { ...addresses, ...(warnings.length > 0 && { warning: warnings.join("\n") }) };
}

const closingDown = (): Refusal => new Refusal(503, "ServiceUnavailable", "the gateway is stopping", "beige gateway start");

interface Port {
  /** Under which name the address is told. */
  readonly as: "url" | "kube";
  readonly port: number;
  /** With it the door has TLS. */
  readonly identity?: Identity;
}

/** Makes the doors: every request passes the gate, then goes to the one router. */
function opener(deps: RouteDeps) {
  const app = router(deps);
  const access = deps.access === undefined ? undefined : createAccess({ ...deps, ...deps.access });
  const exec = createExec(deps);
  const servers: AnyServer[] = [];
  let forget = (): void => undefined;

  const open = (door: Door, identity?: Identity) => {
    const gate = {
      hosts: new Set<string>() as ReadonlySet<string>,
      token: deps.token,
      ...(deps.keys !== undefined && { keys: deps.keys }),
      home: deps.home,
      bodyBytes: deps.limits.bodyBytes,
    };
    const admitted = (request: IncomingMessage): Admitted => {
      const { method = "", url = "", headers, rawHeaders } = request;
      const found = deps.closing.aborted ? { no: closingDown() } : admit({ door, method, url, headers, rawHeaders }, gate);
      if (found.by !== undefined) setAsker(request, { ...found.by, request: requestIdOf(request) });
      return found;
    };
    const held = ({ by }: Admitted, end: Ending): void => {
      if (by !== undefined && "key" in by.principal && by.principal.key !== undefined) deps.live.hold(by.principal.key, end);
    };
    /** Tells of the request when it is over; `status` is of one that leaves HTTP. */
    const visit = (request: IncomingMessage, { by }: Admitted, over: { readonly end: Ending; readonly status?: () => number }): void => {
      if (access === undefined) return;
      const began = deps.clock.monotonic();
      const { method = "", url = "" } = request;
      over.end.once("close", () => {
        const status = over.status?.() ?? (over.end as ServerResponse).statusCode;
        access.note({
          method,
          url,
          door,
          request: requestIdOf(request),
          status,
          ms: deps.clock.monotonic() - began,
          ...(by !== undefined && { by }),
        });
      });
    };
    const listener = (request: IncomingMessage, response: ServerResponse): void => {
      const found = admitted(request);
      const { no } = found;
      response.setHeader("x-request-id", requestIdOf(request));
      visit(request, found, { end: response });
      held(found, response);
      if (no === undefined) app.routing(request, response);
      else void turnAway(request, response, { error: no, clock: deps.clock });
    };
    const server = httpServer({ limits: deps.limits, door, upgrades, ...(identity !== undefined && { identity }) }, listener);
    server.on("clientError", onClientError);
    server.on("upgrade", (request: IncomingMessage, socket: Duplex, head: Buffer) => {
      const found = admitted(request);
      let status = found.no?.http ?? 101;
      visit(request, found, { end: socket, status: () => status });
      held(found, socket);
      socket.on("error", () => socket.destroy());
      if (found.no !== undefined) turnAwayUpgrade(socket, found.no);
      else
        try {
          exec.accept(request, socket, head);
        } catch (error) {
          status = refusalOf(error).http;
          turnAwayUpgrade(socket, error);
        }
    });
    return { server, gate };
  };

  return {
    app,
    servers,
    async socket(path: string): Promise<void> {
      const { server } = open("socket");
      forget = await openSocket(server, path);
      servers.push(server);
    },
    async port(host: string, { as, port, identity }: Port): Promise<{ readonly url: string } | { readonly warning: string }> {
      const { server, gate } = open(identity === undefined ? "tcp" : "kube", identity);
      const opened = await openPort(server, host, port, as === "url" ? "--listen" : "--kube-listen");
      if ("warning" in opened) return opened;
      servers.push(server);
      gate.hosts = hostsOf(opened.port);
      return { url: `${identity === undefined ? "http" : "https"}://${host.includes(":") ? `[${host}]` : host}:${opened.port}` };
    },
    shut(): Promise<unknown> {
      forget();
      return Promise.all(servers.map((server) => new Promise<void>((resolve) => void server.close(() => resolve()))));
    },
  };
}
