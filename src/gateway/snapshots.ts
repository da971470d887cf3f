// Snapshots by agent: a workspace is put back only while nobody works in it, and what was there is kept first.
import { BeigeError } from "../core/errors.ts";
import { nsName, type Agent } from "../core/resource.ts";
import { placeOf as placeOfAgent, type SeatOf } from "../core/seat.ts";
import type { AgentId } from "../core/call.ts";
import type { SnapshotDesk, SnapshotPlace, Snapshots } from "../core/snapshot.ts";
import type { Calls, Clock, Directory, Sessions } from "../core/world.ts";

export interface SnapshotDeps {
  readonly home: string;
  readonly seatOf?: SeatOf;
  readonly snapshots: Snapshots;
  readonly directory: Pick<Directory, "agentByUid" | "agents">;
  readonly calls: Pick<Calls, "running" | "cut" | "hold" | "admit" | "held">;
  readonly sessions: Pick<Sessions, "open" | "end">;
  readonly clock: Pick<Clock, "monotonic" | "sleep">;
}

/** New calls wait so long for a restore, and what is ended may take so long to end. */
const HOLD_MS = 60_000;
const END_MS = 10_000;
const LOOK_MS = 20;

export function workspaceOf({ home, seatOf }: Pick<SnapshotDeps, "home" | "seatOf">, agent: Agent): string {
  if (agent.spec.workspace.path === undefined) return placeOfAgent(home, agent.metadata, seatOf).workspace;
  const seen = agent.status?.observed?.["workspace"];
  if (typeof seen === "string") return seen;
  throw new BeigeError("unavailable", "nobody has looked at the agent's workspace yet", {
    retryAfterMs: 1000,
    hint: "try again in a second",
  });
}

export function createSnapshotDesk(deps: SnapshotDeps): SnapshotDesk {
  const { snapshots, directory, calls, sessions, clock } = deps;
  const agentOf = ({ uid, name }: AgentId): Agent => {
    const agent = directory.agentByUid(uid);
    if (agent === undefined) throw new BeigeError("not_found", `agent ${name} does not exist`, { hint: "beige get agents" });
    return agent;
  };
  const placeOf = (id: AgentId): SnapshotPlace => {
    const agent = agentOf(id);
    return { agent: agent.metadata, workspace: workspaceOf(deps, agent) };
  };
  /** Whoever else has the folder works in it too. */
  const residents = (place: SnapshotPlace, uid: string): readonly Agent[] =>
    directory.agents().filter((agent) => {
      if (agent.metadata.uid === uid) return true;
      return agent.spec.workspace.path !== undefined && agent.status?.observed?.["workspace"] === place.workspace;
    });
  const busy = ({ metadata: { uid } }: Agent): boolean => calls.running(uid) > 0 || sessions.open(uid) > 0;
  async function end(agents: readonly Agent[], signal: AbortSignal): Promise<void> {
    const why = "the workspace is put back to a snapshot";
    for (const { metadata } of agents) {
      calls.cut(metadata.uid, why);
      await sessions.end(metadata.uid, why);
    }
    for (const until = clock.monotonic() + END_MS; agents.some(busy); await clock.sleep(LOOK_MS, signal))
      if (clock.monotonic() > until) throw new BeigeError("unavailable", "what runs did not end in time", { retryAfterMs: 5000 });
  }
  async function quiet<T>(
    agents: readonly Agent[],
    how: { readonly end: boolean },
    work: () => Promise<T>,
    signal: AbortSignal,
  ): Promise<T> {
    const replaced = agents.find(({ metadata }) => calls.held(metadata.uid));
    if (replaced !== undefined)
      throw new BeigeError("conflict", "the sandbox is being replaced", { hint: "try again when the agent is ready" });
    for (const { metadata } of agents) calls.hold(metadata.uid, HOLD_MS);
    try {
      const worker = agents.find(busy);
      if (worker !== undefined && !how.end) {
        const name = nsName(worker.metadata.namespace, worker.metadata.name);
        throw new BeigeError("conflict", `agent ${name} is at work`, { hint: "wait, or end it with: beige snapshot restore ... --stop" });
      }
      if (worker !== undefined) await end(agents, signal);
      return await work();
    } finally {
      for (const { metadata } of agents) calls.admit(metadata.uid);
    }
  }
  return {
    create: async (agent, wish, signal) => snapshots.create(placeOf(agent), wish, signal),
    list: async (agent) => snapshots.list(agentOf(agent).metadata),
    diff: async (agent, ids, signal) => snapshots.diff(placeOf(agent), ids, signal),
    remove: async (agent, id) => snapshots.remove(agentOf(agent).metadata, id),
    async restore(agent, id, how, signal) {
      const place = placeOf(agent);
      if (!(await snapshots.list(place.agent)).some((card) => card.id === id))
        throw new BeigeError("not_found", `there is no snapshot ${JSON.stringify(id.slice(0, 40))}`, {
          hint: `beige snapshot list ${agent.name}`,
        });
      const work = async () => {
        const before = await snapshots.create(place, { cause: "restore", note: `before ${id} was restored` }, signal);
        // Begun is finished: half a workspace helps nobody.
        await snapshots.restore(place, id, new AbortController().signal);
        return before;
      };
      return quiet(residents(place, agent.uid), how, work, signal);
    },
  };
}
