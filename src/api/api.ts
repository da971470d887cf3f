// The gateway's HTTP API: one router behind two doors, and its orderly end.
import { setMaxListeners } from "node:events";
import type { Server } from "node:http";
import type { ApiDeps, RouteDeps } from "./deps.ts";
import { httpServer, openPort, openSocket } from "./doors.ts";
import { drain } from "./drain.ts";
import { hostsOf, refusal, type Door } from "./gate.ts";
import { LIMITS } from "./limits.ts";
import { onClientError, turnAway } from "./refuse.ts";
import { router } from "./router.ts";
import { Refusal } from "./status.ts";

export interface ListenOptions {
  readonly socket: string;
  /** A loopback name; 127.0.0.1 when absent. */
  readonly host?: string;
  /** 7433 when absent; 0 takes a free one. */
  readonly port?: number | "none";
}

export interface Api {
  /** A port that is taken is a warning; a socket that is taken throws. */
  listen(options: ListenOptions): Promise<{ readonly socket: string; readonly url?: string; readonly warning?: string }>;
  /** Takes no more requests, ends watches, lets turns and calls go on for a while, then ends them too. */
  close(): Promise<void>;
}

const DEFAULT_PORT = 7433;
/** After the last signal, before connections are cut. */
const LAST_WORDS_MS = 1_000;

export function createApi(given: ApiDeps): Api {
  const limits = { ...LIMITS, ...given.limits };
  const closing = new AbortController();
  const stopped = new AbortController();
  // Every stream and call listens to them.
  setMaxListeners(0, closing.signal, stopped.signal);
  const deps: RouteDeps = { ...given, limits, closing: closing.signal, stopped: stopped.signal };
  const open = opener(deps);
  return {
    async listen(options) {
      await open.app.ready();
      await open.socket(options.socket);
      if (options.port === "none") return { socket: options.socket };
      const tcp =
        deps.token === ""
          ? { warning: "there is no token: serving on the unix socket only" }
          : await open.port(options.host ?? "127.0.0.1", options.port ?? DEFAULT_PORT);
      return { socket: options.socket, ...tcp };
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

const closingDown = (): Refusal => new Refusal(503, "ServiceUnavailable", "the gateway is stopping", "beige gateway start");

/** Makes the doors: every request passes the gate, then goes to the one router. */
function opener(deps: RouteDeps) {
  const cameBy = new WeakMap<object, Door>();
  const app = router(deps, (raw) => cameBy.get(raw) ?? "tcp");
  const gate = { hosts: new Set<string>() as ReadonlySet<string>, token: deps.token, home: deps.home, bodyBytes: deps.limits.bodyBytes };
  const servers: Server[] = [];
  let forget = (): void => undefined;

  const open = (door: Door): Server => {
    const server = httpServer(deps.limits, door, (request, response) => {
      const { method = "", url = "", headers, rawHeaders } = request;
      const no = deps.closing.aborted ? closingDown() : refusal({ door, method, url, headers, rawHeaders }, gate);
      cameBy.set(request, door);
      if (no === undefined) app.routing(request, response);
      else void turnAway(request, response, { error: no, clock: deps.clock });
    });
    server.on("clientError", onClientError);
    return server;
  };

  return {
    app,
    servers,
    async socket(path: string): Promise<void> {
      const server = open("socket");
      forget = await openSocket(server, path);
      servers.push(server);
    },
    async port(host: string, port: number): Promise<{ readonly url: string } | { readonly warning: string }> {
      const server = open("tcp");
      const opened = await openPort(server, host, port);
      if ("warning" in opened) return opened;
      servers.push(server);
      gate.hosts = hostsOf(opened.port);
      return { url: `http://${host.includes(":") ? `[${host}]` : host}:${opened.port}` };
    },
    shut(): Promise<unknown> {
      forget();
      return Promise.all(servers.map((server) => new Promise<void>((resolve) => void server.close(() => resolve()))));
    },
  };
}
