// One connection from a sandbox to a host: recorded, counted, and cut when the manifest no longer allows it.
import type { Socket } from "node:net";
import type { AuditCall, AuditOutcome } from "../../core/audit.ts";
import type { AgentId } from "../../core/call.ts";
import { allowLine, targetText, type Rule, type Target } from "../../core/egress.ts";
import { asBeigeError } from "../../core/errors.ts";
import { nsName } from "../../core/resource.ts";
import { createJudge, EgressRefused, type How, type Judged } from "./judge.ts";
import { EGRESS_LIMITS, type EgressDeps, type EgressLimits } from "./network.ts";

interface Why {
  readonly error: string;
  readonly denied?: boolean;
}

export interface Passage {
  readonly target: Target;
  readonly rule: Rule;
  /** To the addresses that were checked. Counted, and cut with the passage. */
  dial(): Promise<Socket>;
  /** What goes with the passage when it is cut. */
  holds(socket: { destroy(): unknown }): void;
  /** Ends it and its connections to the host, with the reason when it is not the usual one. Once. */
  finish(why?: Why): void;
}

interface Open extends Passage, Judged {
  readonly uid: string;
  bytes(): number;
  cut(why: string): void;
}

export interface Traffic {
  readonly limits: EgressLimits;
  /** Throws EgressRefused. */
  open(agent: AgentId, target: Target, how: How): Promise<Passage>;
  /** Ends all of an agent. */
  end(uid: string, why: string): void;
  running(uid: string): number;
}

interface Begun extends Judged {
  readonly call: string;
  readonly row: AuditCall;
  readonly uid: string;
  readonly target: Target;
}

/** The sockets of a passage, and what went over them. */
function lines(deps: EgressDeps, begun: Begun, idle: { readonly ms: number; readonly over: () => void }) {
  const dialled: Socket[] = [];
  let ip = begun.addresses[0];
  const sum = (of: (socket: Socket) => number): number => dialled.reduce((all, socket) => all + of(socket), 0);
  return {
    async dial(): Promise<Socket> {
      const socket = await deps.network.connect(begun.addresses, begun.target.port);
      socket.on("error", () => undefined);
      socket.setTimeout(idle.ms, idle.over);
      dialled.push(socket);
      ip = socket.remoteAddress ?? ip;
      return socket;
    },
    ip: () => ip,
    in: () => sum((socket) => socket.bytesRead),
    out: () => sum((socket) => socket.bytesWritten),
    destroy: () => {
      for (const socket of dialled) socket.destroy();
    },
  };
}

function outcomeOf(wire: ReturnType<typeof lines>, durationMs: number, why: Why | undefined): AuditOutcome {
  const [ip, bytesIn] = [wire.ip(), wire.in()];
  return {
    durationMs: Math.round(durationMs),
    exitCode: why === undefined ? 0 : 1,
    outputBytes: bytesIn,
    outcome: why === undefined ? "ok" : "failed",
    ...(why === undefined ? {} : { error: why.error }),
    ...(ip === undefined ? {} : { ip }),
    bytesIn,
    bytesOut: wire.out(),
  };
}

function passage(deps: EgressDeps, begun: Begun, on: { readonly limits: EgressLimits; readonly ended: (self: Open) => void }): Open {
  const { clock, audit, log } = deps;
  const { call, row } = begun;
  const held = new Set<{ destroy(): unknown }>();
  const from = clock.monotonic();
  const { idleMs } = on.limits;
  let over = false;
  const wire = lines(deps, begun, { ms: idleMs, over: () => self.cut(`nothing went over it for ${idleMs / 1000} s`) });
  const self: Open = {
    ...begun,
    bytes: () => wire.in() + wire.out(),
    async dial() {
      const socket = await wire.dial();
      if (over) socket.destroy();
      return socket;
    },
    holds: (socket) => {
      if (over) socket.destroy();
      else held.add(socket);
    },
    cut(why) {
      self.finish({ error: `cut: ${why}` });
      for (const socket of held) socket.destroy();
    },
    finish(why) {
      if (over) return;
      over = true;
      on.ended(self);
      const outcome = outcomeOf(wire, clock.monotonic() - from, why);
      wire.destroy();
      audit.end(call, why?.denied === true ? { ...row, decision: "denied" } : row, outcome).catch((error: unknown) => {
        log.error("outcome of a connection was not written", { call, error: asBeigeError(error).message });
      });
    },
  };
  return self;
}

const rowOf = (agent: AgentId, target: Target, how: How): AuditCall => ({
  agent: nsName(agent.namespace, agent.name),
  type: "egress",
  tool: how,
  args: [targetText(target)],
  decision: "allowed",
  target: "sandbox",
  principal: "agent",
  host: target.host,
  port: target.port,
});

/** Connections that are open or on their way, by agent. */
function places(most: number) {
  const counts = new Map<string, number>();
  return {
    of: (uid: string): number => counts.get(uid) ?? 0,
    take(agent: AgentId): void {
      const now = counts.get(agent.uid) ?? 0;
      if (now >= most)
        throw new EgressRefused(503, `agent ${agent.name} has ${most} connections open already`, "close some, and try again");
      counts.set(agent.uid, now + 1);
    },
    free(uid: string): void {
      const left = (counts.get(uid) ?? 0) - 1;
      if (left > 0) counts.set(uid, left);
      else counts.delete(uid);
    },
  };
}

/** Holds what is open against the manifest, as long as something is. */
function watch(deps: EgressDeps, limits: EgressLimits, judge: (one: Open) => string | undefined) {
  const open = new Set<Open>();
  let looking = false;
  const look = (): void => {
    for (const one of open) {
      const why = one.bytes() > limits.bytes ? `it carried more than ${limits.bytes} bytes` : judge(one);
      if (why !== undefined) one.cut(why);
    }
    looking = open.size > 0;
    if (looking) deps.clock.after(limits.lookMs, look);
  };
  return {
    open,
    add(one: Open): void {
      open.add(one);
      if (!looking) deps.clock.after(limits.lookMs, look);
      looking = true;
    },
  };
}

export function createTraffic(deps: EgressDeps): Traffic {
  const limits = { ...EGRESS_LIMITS, ...deps.limits };
  const judge = createJudge(deps);
  const place = places(limits.connections);
  const watched = watch(deps, limits, (one) => judge.unallowed(one.uid, one.target, one));
  const ended = (one: Open): void => {
    if (watched.open.delete(one)) place.free(one.uid);
  };
  const opened = async (id: AgentId, target: Target, how: How): Promise<Passage> => {
    const agent = deps.directory.agentByUid(id.uid);
    if (agent === undefined) throw new EgressRefused(403, `agent ${id.name} does not exist`, "beige get agents");
    const row = rowOf(id, target, how);
    const judged = await judge.judge({ row, agent, target, how });
    const call = deps.random.uuid();
    await deps.audit.begin(call, row);
    const made = passage(deps, { ...judged, call, row, uid: id.uid, target }, { limits, ended });
    // What was allowed may not be any more after the waits.
    const why = judge.unallowed(id.uid, target, judged);
    if (why !== undefined) {
      made.cut(why);
      throw new EgressRefused(403, `${targetText(target)}: ${why}`, allowLine(agent.spec.sandbox.network, target));
    }
    watched.add(made);
    return made;
  };
  return {
    limits,
    running: (uid) => place.of(uid),
    async open(agent, target, how) {
      place.take(agent);
      try {
        return await opened(agent, target, how);
      } catch (error) {
        // A passage that came to be gives its place back when it ends.
        place.free(agent.uid);
        if (error instanceof EgressRefused) throw error;
        const { message, hint } = asBeigeError(error);
        throw new EgressRefused(502, message, hint ?? "try again");
      }
    },
    end: (uid, why) => {
      for (const one of watched.open) if (one.uid === uid) one.cut(why);
    },
  };
}
