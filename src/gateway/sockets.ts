// Listens for each agent on a socket of its own: who comes in by it is that agent, whatever the frames say.
import { lstat, readdir, rmdir } from "node:fs/promises";
import { createServer, type Server } from "node:net";
import type { AgentId, CallTool } from "../core/call.ts";
import { BeigeError } from "../core/errors.ts";
import { socketFolder, socketPath } from "../core/paths.ts";
import { socketUid, type SeatOf } from "../core/seat.ts";
import type { Clock, Log, Sockets } from "../core/world.ts";
import { checkLength, clear, dropSocket, listen, makeFolder, type Owner } from "./listener.ts";
import { Peers } from "./peers.ts";
import type { Tokens } from "./tokens.ts";

export interface SocketDeps {
  readonly home: string;
  readonly call: CallTool;
  readonly tokens: Pick<Tokens, "find">;
  /** PID 1 of a container said that it is up. */
  readonly onHello: (uid: string, container: string) => void;
  /** Agents whose sockets lie in the folder of a seat. */
  readonly seatOf?: SeatOf;
  readonly clock: Clock;
  readonly log: Log;
}

interface Listener {
  readonly agent: AgentId;
  readonly server: Server;
  readonly peers: Peers;
  readonly ino: number;
}

const folderOf = ({ home, seatOf }: SocketDeps, uid: string): string => socketFolder(home, socketUid(uid, seatOf));
const pathOf = ({ home, seatOf }: SocketDeps, uid: string): string => socketPath(home, socketUid(uid, seatOf));

const CLOSING = "gateway closes this socket";

async function openListener(deps: SocketDeps, agent: AgentId, owner: Owner): Promise<Listener> {
  const path = pathOf(deps, agent.uid);
  checkLength(path);
  await makeFolder(folderOf(deps, agent.uid));
  await clear(path);
  const peers = new Peers({ ...deps, agent });
  const server = createServer({ allowHalfOpen: true }, (socket) => peers.add(socket));
  server.on("error", (error) => deps.log.warn("socket of agent failed", { agent: agent.name, error: error.message }));
  try {
    return { agent, server, peers, ino: await listen(server, path, owner) };
  } catch (error) {
    server.close();
    const message = error instanceof Error ? error.message : String(error);
    throw new BeigeError("unavailable", `socket ${path} cannot be opened: ${message}`, { cause: error });
  }
}

async function closeListener(deps: SocketDeps, uid: string, listener: Listener): Promise<void> {
  const closed = new Promise((done) => listener.server.close(done));
  listener.peers.end(CLOSING);
  await closed;
  await dropSocket(pathOf(deps, uid));
}

export function createSockets(deps: SocketDeps): Sockets & { closeAll(): Promise<void> } {
  const listeners = new Map<string, Listener>();
  /** One change of one agent's socket at a time. */
  const turns = new Map<string, Promise<unknown>>();
  const inTurn = <T>(uid: string, work: () => Promise<T>): Promise<T> => {
    const mine = (turns.get(uid) ?? Promise.resolve()).then(work);
    const settled = mine.catch(() => undefined);
    turns.set(uid, settled);
    void settled.then(() => turns.get(uid) === settled && turns.delete(uid));
    return mine;
  };
  const close = (uid: string): Promise<void> =>
    inTurn(uid, async () => {
      const listener = listeners.get(uid);
      listeners.delete(uid);
      if (listener === undefined) await dropSocket(pathOf(deps, uid));
      else await closeListener(deps, uid, listener);
    });
  return {
    seen: (uid) => {
      const listener = listeners.get(uid);
      return { listening: listener?.server.listening === true, hellos: listener?.peers.hellos ?? [] };
    },
    open: (agent, owner) =>
      inTurn(agent.uid, async () => {
        const had = listeners.get(agent.uid);
        const there = await lstat(pathOf(deps, agent.uid)).catch(() => undefined);
        if (had?.server.listening === true && there?.ino === had.ino && there.uid === (process.getuid?.() === 0 ? owner.uid : there.uid))
          return;
        listeners.delete(agent.uid);
        if (had !== undefined) await closeListener(deps, agent.uid, had);
        listeners.set(agent.uid, await openListener(deps, agent, owner));
      }),
    lend: async (seat, agent) => {
      const listener = listeners.get(seat);
      if (listener === undefined) throw new BeigeError("unavailable", `nobody listens for seat ${seat}`);
      await Promise.resolve();
      return () => {
        listeners.delete(seat);
        listeners.set(agent.uid, { ...listener, agent });
        listener.peers.belongTo(agent);
      };
    },
    close: async (uid) => {
      await close(uid);
      // The folder goes when nothing else is in it; it is mounted as long as a container lives.
      await rmdir(folderOf(deps, uid)).catch(() => undefined);
    },
    names: async () => {
      const folders = await readdir(`${deps.home}/run`).catch(() => []);
      const known = new Set([...listeners.keys()].map((uid) => folderOf(deps, uid)));
      return [...listeners.keys(), ...folders.filter((name) => !known.has(`${deps.home}/run/${name}`))];
    },
    closeAll: async () => {
      await Promise.all([...listeners.keys()].map(close));
    },
  };
}
