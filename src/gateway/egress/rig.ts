// A way out with real sockets for tests: the proxy on its unix socket, hosts on 127.0.0.1 behind names of a fake resolver.
import { once } from "node:events";
import { mkdtempSync, rmSync } from "node:fs";
import { createServer as createHttp, request, type RequestListener } from "node:http";
import { createServer as createHttps } from "node:https";
import { connect, createServer as createNet, type AddressInfo, type Server, type Socket } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { Duplex } from "node:stream";
import { connect as connectTls, type TLSSocket } from "node:tls";
import type { AgentSpec } from "../../../schemas/types.ts";
import type { Clock } from "../../core/world.ts";
import type { Audit } from "../../core/audit.ts";
import type { AgentId } from "../../core/call.ts";
import { egressPath } from "../../core/paths.ts";
import type { Agent } from "../../core/resource.ts";
import { createEgress } from "../egress.ts";
import type { EgressLimits, Network } from "./network.ts";

type Net = AgentSpec["sandbox"]["network"];

export interface Rig {
  readonly home: string;
  readonly agent: AgentId;
  readonly egress: ReturnType<typeof createEgress>;
  allow(...allow: NonNullable<Net["allow"]>): void;
  set(network: Net): void;
  /** Addresses by name; every question is counted. */
  readonly names: Map<string, readonly string[]>;
  readonly asked: string[];
  readonly host: { egress: { private: string[] } };
  /** A raw connection to the proxy. */
  dial(): Promise<Socket>;
  /** All bytes that come until the end, or until the text is there. */
  say(text: string | Buffer, until?: RegExp): Promise<string>;
  connect(target: string): Promise<{ readonly status: number; readonly socket: Socket; readonly body: string }>;
  /** An HTTPS request through the proxy. */
  https(target: string, options: { readonly ca: string; readonly servername?: string; readonly headers?: string }): Promise<string>;
  http(
    url: string,
    options?: { readonly method?: string; readonly headers?: Record<string, string>; readonly body?: string },
  ): Promise<{ readonly status: number; readonly body: string; readonly headers: NodeJS.Dict<string | string[]> }>;
  serve(listener: RequestListener, tls?: { readonly key: string; readonly cert: string }): Promise<number>;
  raw(onSocket: (socket: Socket) => void): Promise<number>;
  close(): Promise<void>;
}

export interface RigParts {
  readonly clock: Clock;
  readonly audit: Pick<Audit, "begin" | "end" | "denied">;
  /** The adapter's, over the rig's resolver. */
  readonly network: (home: string, resolve: (host: string) => Promise<readonly string[]>) => Network;
  readonly secrets?: Readonly<Record<string, string>>;
  readonly limits?: Partial<EgressLimits>;
}

const silent = { debug() {}, info() {}, warn() {}, error() {} };

export function readAll(stream: Duplex, until?: RegExp): Promise<string> {
  return new Promise((done) => {
    let text = "";
    const end = (): void => done(text);
    stream.on("data", (part: Buffer) => {
      text += part.toString("latin1");
      if (until?.test(text) === true) end();
    });
    stream.once("end", end).once("close", end).once("error", end);
  });
}

const listening = async (server: Server): Promise<number> => {
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  return (server.address() as AddressInfo).port;
};

export async function openRig(parts: RigParts): Promise<Rig> {
  const home = mkdtempSync(join(tmpdir(), "beige-egress-"));
  const agent: AgentId = { namespace: "default", name: "travel", uid: "0123456789abcdef" };
  const names = new Map<string, readonly string[]>();
  const asked: string[] = [];
  const host = { egress: { private: [] as string[] } };
  const servers: Server[] = [];
  const sockets = new Set<{ destroy(): unknown }>();
  let network: Net = { mode: "none" };
  const resolve = async (name: string): Promise<readonly string[]> => {
    asked.push(name);
    const found = names.get(name);
    if (found === undefined) throw Object.assign(new Error("no such name"), { code: "ENOTFOUND" });
    return found;
  };
  let id = 0;
  const egress = createEgress({
    home,
    directory: {
      agentByUid: (uid) =>
        uid === agent.uid ? ({ metadata: { ...agent }, spec: { sandbox: { network, env: {} } } } as unknown as Agent) : undefined,
    },
    host: () => host,
    network: parts.network(home, resolve),
    audit: parts.audit,
    secrets: {
      resolve: async (ref, at) => {
        const value = parts.secrets?.[`${ref.secret} ${at}`];
        if (value === undefined) throw new Error(`secret ${ref.secret} may not be sent to ${at}`);
        return value;
      },
    },
    clock: parts.clock,
    random: { uuid: () => `call-${++id}` },
    log: silent,
    ...(parts.limits === undefined ? {} : { limits: parts.limits }),
  });
  const inner = {
    seen: () => ({ listening: true, hellos: [] }),
    open: async () => {},
    close: async () => {},
    names: async () => [],
    closeAll: async () => {},
  };
  const outer = egress.sockets(inner);
  await outer.open(agent, { uid: process.getuid?.() ?? 0, gid: process.getgid?.() ?? 0 });
  const path = egressPath(home, agent.uid);
  const keep = <T extends { destroy(): unknown }>(socket: T): T => {
    sockets.add(socket);
    return socket;
  };
  const dial = async (): Promise<Socket> => {
    const socket = keep(connect(path));
    socket.on("error", () => undefined);
    await once(socket, "connect");
    return socket;
  };
  const open: Rig["connect"] = async (target) => {
    const socket = await dial();
    socket.write(`CONNECT ${target} HTTP/1.1\r\nHost: ${target}\r\n\r\n`);
    const head = await new Promise<string>((done) => {
      let text = "";
      const take = (part: Buffer): void => {
        text += part.toString("latin1");
        const size = Number(/content-length: (\d+)/i.exec(text)?.[1] ?? 0);
        if (text.includes("\r\n\r\n") && text.length >= text.indexOf("\r\n\r\n") + 4 + size) {
          socket.off("data", take);
          socket.pause();
          done(text);
        }
      };
      socket.on("data", take).once("close", () => done(text));
    });
    return { status: Number(/^HTTP\/1\.1 (\d+)/.exec(head)?.[1] ?? 0), socket, body: head.slice(head.indexOf("\r\n\r\n") + 4) };
  };
  return {
    home,
    agent,
    egress,
    names,
    asked,
    host,
    allow: (...allow) => (network = { mode: "allowlist", allow }),
    set: (now) => (network = now),
    dial,
    say: async (text, until) => {
      const socket = await dial();
      socket.write(text);
      return await readAll(socket, until);
    },
    connect: open,
    https: async (target, { ca, servername, headers }) => {
      const { status, socket, body } = await open(target);
      if (status !== 200) return `${status} ${body}`;
      const host1 = target.replace(/:\d+$/, "");
      const secure: TLSSocket = keep(connectTls({ socket, ca, servername: servername ?? host1 }));
      let failed = "";
      secure.on("error", (error) => (failed = error.message));
      secure.write(`GET /x HTTP/1.1\r\nHost: ${target}\r\nConnection: close\r\n${headers ?? ""}\r\n`);
      const text = await readAll(secure);
      return failed === "" ? text : `error ${failed}`;
    },
    http: (url, options = {}) =>
      new Promise((done, fail) => {
        const { host: authority } = new URL(url);
        const sent = request(
          { socketPath: path, path: url, method: options.method ?? "GET", headers: { host: authority, ...options.headers } },
          (answer) => {
            void readAll(answer as unknown as Duplex).then((body) =>
              done({ status: answer.statusCode ?? 0, body, headers: answer.headers }),
            );
          },
        );
        sent.on("error", fail);
        sent.end(options.body);
      }),
    serve: async (listener, tls) => {
      const server = tls === undefined ? createHttp(listener) : createHttps(tls, listener);
      servers.push(server);
      server.on("connection", keep);
      return listening(server);
    },
    raw: async (onSocket) => {
      const server = createNet((socket) => {
        keep(socket).on("error", () => undefined);
        onSocket(socket);
      });
      servers.push(server);
      return listening(server);
    },
    close: async () => {
      await outer.closeAll();
      for (const socket of sockets) socket.destroy();
      await Promise.all(servers.map((server) => new Promise((done) => server.close(done))));
      rmSync(home, { recursive: true, force: true });
    },
  };
}
