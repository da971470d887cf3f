// The listeners: a unix socket that only the operator can open, and ports on loopback, with TLS or without.
import { chmodSync, lstatSync, renameSync, unlinkSync } from "node:fs";
import { connect, type Server as NetServer } from "node:net";
import { createServer, type IncomingMessage, type RequestListener, type Server } from "node:http";
import { createServer as createTlsServer, type Server as TlsServer } from "node:https";
import { dirname, join } from "node:path";
import { BeigeError } from "../core/errors.ts";
import { SOCKET_PATH_MAX } from "../core/paths.ts";
import type { Door } from "./gate.ts";
import type { Limits } from "./limits.ts";

const LOOPBACK: readonly string[] = ["127.0.0.1", "::1", "localhost"];

export type AnyServer = Server | TlsServer;

/** Key and certificate of a door with TLS, in PEM. */
export interface Identity {
  readonly key: string;
  readonly cert: string;
}

export interface DoorOptions {
  readonly limits: Limits;
  readonly door: Door;
  /** Which requests leave HTTP; every other upgrade is answered as the plain request that it is. */
  readonly upgrades: (request: IncomingMessage) => boolean;
  readonly identity?: Identity;
}

const HANDSHAKE_MS = 10_000;

export function httpServer({ limits, door, upgrades, identity }: DoorOptions, listener: RequestListener): AnyServer {
  const options = {
    maxHeaderSize: limits.headerBytes,
    headersTimeout: Math.min(limits.headersMs, limits.requestMs),
    requestTimeout: limits.requestMs,
    keepAliveTimeout: limits.keepAliveMs,
    connectionsCheckingInterval: Math.min(1_000, limits.headersMs),
    requireHostHeader: true,
    insecureHTTPParser: false,
    shouldUpgradeCallback: upgrades,
  };
  const tls = { ...identity, minVersion: "TLSv1.2", handshakeTimeout: HANDSHAKE_MS } as const;
  const server = identity === undefined ? createServer(options, listener) : createTlsServer({ ...options, ...tls }, listener);
  server.maxConnections = door === "socket" ? limits.socketConnections : limits.tcpConnections;
  return server;
}

/**
 * Listens with mode 0600 from the first moment on. A socket that nobody serves any more is replaced; anything else in
 * its place is refused. Bound under another name first: the runtime removes the bound name when it closes, and by then
 * the real name may be a successor's. Answers what removes the file.
 */
export async function openSocket(server: AnyServer, path: string): Promise<() => void> {
  const bytes = Buffer.byteLength(path);
  if (bytes > SOCKET_PATH_MAX)
    throw new BeigeError("invalid", `the socket path ${path} has ${bytes} bytes, and ${SOCKET_PATH_MAX} are allowed`, {
      hint: "export BEIGE_HOME=/a/shorter/path",
    });
  await clear(path);
  const bound = join(dirname(path), `.${process.pid}`);
  await clear(bound);
  const before = process.umask(0o177);
  let listening: Promise<void>;
  try {
    // Binds before it returns, so that no other file gets this mask.
    listening = listen(server, () => server.listen({ path: bound }));
  } finally {
    process.umask(before);
  }
  await listening;
  chmodSync(bound, 0o600);
  const { ino } = lstatSync(bound);
  renameSync(bound, path);
  return () => {
    // Only our own: another gateway may have put its socket there since.
    if (lstatSync(path, { throwIfNoEntry: false })?.ino === ino) unlinkSync(path);
  };
}

async function clear(path: string): Promise<void> {
  const seen = lstatSync(path, { throwIfNoEntry: false });
  if (seen === undefined) return;
  if (!seen.isSocket())
    throw new BeigeError("conflict", `${path} is in the way and is not a socket`, { hint: `look at it, then: rm ${path}` });
  if (await answers(path)) throw new BeigeError("conflict", `another gateway serves ${path}`, { hint: "beige gateway status" });
  unlinkSync(path);
}

const answers = (path: string): Promise<boolean> =>
  new Promise((resolve) => {
    const probe = connect({ path });
    const settle = (alive: boolean) => (): void => {
      probe.destroy();
      resolve(alive);
    };
    probe.once("connect", settle(true));
    probe.once("error", settle(false));
  });

/** The port it listens on; an answer in words when the port cannot be had. */
export async function openPort(
  server: AnyServer,
  host: string,
  port: number,
  flag = "--listen",
): Promise<{ readonly port: number } | { readonly warning: string }> {
  if (!LOOPBACK.includes(host))
    throw new BeigeError("invalid", `the API listens on loopback only, not on ${host}`, {
      hint: "reach it from elsewhere through ssh -L 7433:127.0.0.1:7433",
    });
  try {
    await listen(server, () => server.listen({ host, port, exclusive: true }));
  } catch (error) {
    const code = error instanceof Error && "code" in error ? String(error.code) : "";
    if (code !== "EADDRINUSE" && code !== "EACCES" && code !== "EADDRNOTAVAIL") throw error;
    const why = code === "EADDRINUSE" ? "is taken" : `cannot be had (${code})`;
    return { warning: `port ${port} on ${host} ${why}: serving on the unix socket only; choose another with ${flag}, or none` };
  }
  const address = server.address();
  return { port: typeof address === "object" && address !== null ? address.port : port };
}

function listen(server: NetServer, start: () => void): Promise<void> {
  return new Promise((resolve, reject) => {
    server.once("error", reject);
    server.once("listening", () => {
      server.off("error", reject);
      resolve();
    });
    start();
  });
}
