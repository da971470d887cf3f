// The way out of the sandboxes: each has a socket of its own to a proxy that lets through what the agent's manifest names.
import { lstat, rm } from "node:fs/promises";
import type { AgentId } from "../core/call.ts";
import {
  addressRefusal,
  BUNDLE,
  egressEnvironment,
  needsBundle,
  notListed,
  parseTarget,
  ruleFor,
  targetText,
  type EgressVerdict,
} from "../core/egress.ts";
import { asBeigeError, BeigeError } from "../core/errors.ts";
import { egressPath, socketFolder } from "../core/paths.ts";
import type { Agent } from "../core/resource.ts";
import { socketUid } from "../core/seat.ts";
import type { Sockets } from "../core/world.ts";
import { createDoor, type Door } from "./egress/door.ts";
import type { EgressDeps } from "./egress/network.ts";
import { createTraffic } from "./egress/passage.ts";
import { rulesFor } from "./egress/judge.ts";
import { checkLength, clear, dropSocket, listen, makeFolder, type Owner } from "./listener.ts";

type WholeSockets = Sockets & { closeAll(): Promise<void> };

interface Listener extends Door {
  readonly ino: number;
}

export interface Egress {
  /** The agents' sockets, each with the way out beside it. */
  sockets(inner: WholeSockets): WholeSockets;
  /** Variables of a command, so that clients inside take this way. */
  readonly environment: (agent: Agent) => Readonly<Record<string, string>>;
  /** What would be said to a connection; none is made. */
  test(agent: AgentId, target: string): Promise<EgressVerdict>;
  running(uid: string): number;
}

const bundlePath = (deps: EgressDeps, uid: string): string => `${socketFolder(deps.home, socketUid(uid, deps.seatOf))}/${BUNDLE}`;

async function judge(deps: EgressDeps, id: AgentId, text: string): Promise<EgressVerdict> {
  const target = parseTarget(text, 443);
  if (target === undefined)
    throw new BeigeError("invalid", `"${text}" is no host and port`, { hint: "beige egress test AGENT api.example.com:443" });
  const agent = deps.directory.agentByUid(id.uid);
  if (agent === undefined) throw new BeigeError("not_found", `agent ${id.name} does not exist`, { hint: "beige get agents" });
  const { network } = agent.spec.sandbox;
  const base = { target: targetText(target), addresses: [] };
  if (network.mode === "open")
    return { ...base, allowed: true, reason: "mode open: the sandbox has a network of its own, nothing is judged" };
  const rule = ruleFor(rulesFor(network), target);
  if (rule === undefined) return { ...base, allowed: false, ...notListed(network, target) };
  const secret = rule.injection === undefined ? {} : { secret: rule.injection.secret };
  try {
    const addresses = await deps.network.resolve(target.host);
    const bad = addressRefusal({ target, rule, host: deps.host() }, addresses);
    return { ...base, addresses, allowed: bad === undefined, ...bad, ...secret };
  } catch (error) {
    const { message, hint } = asBeigeError(error);
    return { ...base, allowed: false, reason: message, ...(hint === undefined ? {} : { hint }), ...secret };
  }
}

export function createEgress(deps: EgressDeps): Egress {
  const traffic = createTraffic(deps);
  const listeners = new Map<string, Listener>();

  const shut = async (uid: string): Promise<void> => {
    const listener = listeners.get(uid);
    listeners.delete(uid);
    traffic.end(uid, "the agent's way out is closed");
    if (listener !== undefined) {
      const closed = new Promise((done) => listener.server.close(done));
      listener.end();
      await closed;
    }
    await dropSocket(egressPath(deps.home, socketUid(uid, deps.seatOf)));
  };

  const open = async (agent: AgentId, owner: Owner, at = socketUid(agent.uid, deps.seatOf)): Promise<void> => {
    const path = egressPath(deps.home, at);
    const had = listeners.get(agent.uid);
    const there = await lstat(path).catch(() => undefined);
    if (had?.server.listening === true && there?.ino === had.ino) return;
    if (had !== undefined) await shut(agent.uid);
    checkLength(path);
    await makeFolder(socketFolder(deps.home, at));
    await clear(path);
    const door = createDoor(deps, traffic, agent);
    listeners.set(agent.uid, { ...door, ino: await listen(door.server, path, owner) });
  };

  return {
    sockets: (inner) => ({
      ...inner,
      seen: (uid) => {
        const { listening, hellos } = inner.seen(uid);
        return { listening: listening && listeners.get(uid)?.server.listening === true, hellos };
      },
      // The inner one last: it keeps changes of one agent apart, and says that it listens only then.
      async open(agent, owner) {
        await open(agent, owner);
        await inner.open(agent, owner);
      },
      // The way out is made anew, for the agent: nothing of a seat ever went by it.
      async lend(seat, agent, owner) {
        await shut(seat);
        await open(agent, owner, seat);
        if (inner.lend === undefined) throw new BeigeError("internal", "these sockets are not lent");
        return inner.lend(seat, agent, owner);
      },
      async close(uid) {
        await shut(uid);
        await rm(bundlePath(deps, uid), { force: true });
        await inner.close(uid);
      },
      async closeAll() {
        await Promise.all([...listeners.keys()].map(shut));
        await inner.closeAll();
      },
    }),
    environment(agent) {
      const { sandbox } = agent.spec;
      if (needsBundle(sandbox.network)) deps.network.writeBundle(bundlePath(deps, agent.metadata.uid));
      return egressEnvironment(sandbox);
    },
    test: (agent, text) => judge(deps, agent, text),
    running: (uid) => traffic.running(uid),
  };
}
