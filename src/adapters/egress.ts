// The way out to other hosts: names to addresses, connections to just those, TLS on either side.
import { lookup } from "node:dns";
import { existsSync, mkdirSync, readFileSync, renameSync, writeFileSync } from "node:fs";
import { connect, isIP, type Socket } from "node:net";
import { dirname } from "node:path";
import type { Duplex } from "node:stream";
import { connect as connectTls, TLSSocket } from "node:tls";
import { BeigeError } from "../core/errors.ts";
import type { Clock } from "../core/world.ts";
import { createAuthority } from "./egress/authority.ts";

const RESOLVE_MS = 5_000;
const CONNECT_MS = 10_000;
const HANDSHAKE_MS = 10_000;
/** The system's resolver works in the threads that files are read in: names of sandboxes take a part of them. */
const RESOLVING_MAX = 2;
const WAITING_MAX = 256;

export interface OutwardOptions {
  readonly home: string;
  readonly clock: Pick<Clock, "now" | "after">;
  /** Authorities of hosts, PEM; the machine's own when absent. */
  readonly ca?: string;
  /** The system's resolver when absent. */
  readonly resolve?: (host: string) => Promise<readonly string[]>;
}

const resolveHost = (host: string): Promise<readonly string[]> =>
  new Promise((done, fail) => {
    lookup(host, { all: true, order: "verbatim" }, (error, found) =>
      error === null ? done(found.map(({ address }) => address)) : fail(error),
    );
  });

/** Rejects after so long; what `run` makes later is handed to `late`. */
function within<T>(
  clock: Pick<Clock, "after">,
  limit: { readonly ms: number; readonly what: string },
  run: Promise<T>,
  late?: (made: T) => void,
): Promise<T> {
  return new Promise((done, fail) => {
    let over = false;
    const timer = clock.after(limit.ms, () => {
      over = true;
      fail(new BeigeError("timeout", `${limit.what} took longer than ${limit.ms / 1000} s`));
    });
    run.then(
      (made) => {
        timer.cancel();
        if (over) late?.(made);
        else done(made);
      },
      (error: unknown) => {
        timer.cancel();
        fail(error instanceof Error ? error : new Error(String(error)));
      },
    );
  });
}

const codeOf = (error: unknown): string => {
  const { code, message } = error as NodeJS.ErrnoException;
  return code ?? message ?? String(error);
};

function resolver({ clock, resolve = resolveHost }: OutwardOptions): (host: string) => Promise<readonly string[]> {
  let running = 0;
  const waiting: (() => void)[] = [];
  const next = (): void => {
    running--;
    waiting.shift()?.();
  };
  const turn = (): Promise<void> =>
    new Promise((done, fail) => {
      const start = (): void => {
        running++;
        done();
      };
      if (running < RESOLVING_MAX) start();
      else if (waiting.length >= WAITING_MAX) fail(new BeigeError("exhausted", "too many names are being resolved"));
      else waiting.push(start);
    });
  const ask = async (host: string): Promise<readonly string[]> => {
    await turn();
    // A resolver that hangs keeps its place until it answers.
    return await resolve(host).finally(next);
  };
  return async (host) => {
    if (isIP(host) !== 0) return [host];
    try {
      return await within(clock, { ms: RESOLVE_MS, what: `resolving ${host}` }, ask(host));
    } catch (error) {
      if (error instanceof BeigeError) throw error;
      throw new BeigeError("unavailable", `${host} cannot be resolved (${codeOf(error)})`, { hint: `getent hosts ${host}` });
    }
  };
}

/** To one of these addresses and no other; the name is not asked again. */
function dial(addresses: readonly string[], port: number): { readonly socket: Socket; readonly open: Promise<Socket> } {
  const found = addresses.map((address) => ({ address, family: isIP(address) }));
  const socket = connect({
    host: "pinned.invalid",
    port,
    noDelay: true,
    allowHalfOpen: true,
    autoSelectFamily: true,
    lookup: (_host, options, answer) => {
      if (options.all === true) answer(null, found);
      else answer(null, found[0]?.address ?? "", found[0]?.family ?? 4);
    },
  });
  const open = new Promise<Socket>((done, fail) => {
    socket.once("error", fail);
    socket.once("connect", () => {
      socket.off("error", fail);
      done(socket);
    });
  });
  return { socket, open };
}

const unreached = (what: string, error: unknown): BeigeError =>
  error instanceof BeigeError ? error : new BeigeError("unavailable", `${what} failed (${codeOf(error)})`);

function secured(socket: Duplex, made: TLSSocket, event: "secure" | "secureConnect"): Promise<TLSSocket> {
  return new Promise((done, fail) => {
    const gone = (): void => fail(new Error("closed"));
    made.once("error", fail);
    made.once("close", gone);
    socket.once("close", gone);
    made.once(event, () => {
      made.off("error", fail);
      made.off("close", gone);
      socket.off("close", gone);
      done(made);
    });
  });
}

export function createOutward(options: OutwardOptions) {
  const { clock, ca } = options;
  const authority = createAuthority(options.home, clock);
  const written = new Set<string>();
  const waitFor = async (made: TLSSocket, ready: Promise<TLSSocket>, what: string): Promise<TLSSocket> => {
    try {
      return await within(clock, { ms: HANDSHAKE_MS, what }, ready);
    } catch (error) {
      made.on("error", () => undefined);
      made.destroy();
      throw unreached(what, error);
    }
  };
  return {
    resolve: resolver(options),
    async connect(addresses: readonly string[], port: number): Promise<Socket> {
      const { socket, open } = dial(addresses, port);
      const what = `connecting to ${addresses.join(", ")} port ${port}`;
      try {
        return await within(clock, { ms: CONNECT_MS, what }, open);
      } catch (error) {
        socket.on("error", () => undefined);
        socket.destroy();
        throw unreached(what, error);
      }
    },
    /** TLS to the host, which must show that it is the host. */
    secure(socket: Socket, host: string): Promise<TLSSocket> {
      const name = isIP(host) === 0 ? { servername: host } : { host };
      const made = connectTls({ socket, ...name, ALPNProtocols: ["http/1.1"], minVersion: "TLSv1.2", ...(ca === undefined ? {} : { ca }) });
      return waitFor(made, secured(socket, made, "secureConnect"), `TLS with ${host}`);
    },
    /** TLS as if we were the host, towards the sandbox. */
    intercept(socket: Socket, host: string): Promise<TLSSocket> {
      const made = new TLSSocket(socket, { isServer: true, secureContext: authority.context(host), ALPNProtocols: ["http/1.1"] });
      return waitFor(made, secured(socket, made, "secure"), `TLS with the sandbox for ${host}`);
    },
    /** Puts the authorities where a sandbox reads them. */
    writeBundle(path: string): void {
      if (written.has(path) && existsSync(path)) return;
      const bundle = authority.bundle();
      mkdirSync(dirname(path), { recursive: true, mode: 0o711 });
      if (read(path) !== bundle) {
        writeFileSync(`${path}.new`, bundle, { mode: 0o444 });
        renameSync(`${path}.new`, path);
      }
      written.add(path);
    },
  };
}

function read(path: string): string | undefined {
  try {
    return readFileSync(path, "utf8");
  } catch {
    return undefined;
  }
}

export type Outward = ReturnType<typeof createOutward>;
