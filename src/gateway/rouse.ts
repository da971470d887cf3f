// Which container serves a call: one that is started only when it is needed is started here, and waited for.
import { adoptionOf } from "../core/adoption.ts";
import { BeigeError } from "../core/errors.ts";
import { condition, nsName, type Agent } from "../core/resource.ts";
import type { AgentState, Clock, Directory } from "../core/world.ts";
import type { RunningCalls } from "./running.ts";

/** Longest wait for a sandbox to start, and how often it is looked at. */
const START_MS = 90_000;
const LOOK_MS = 5;
/** A prompt that is made ready for may take so long to its first call. */
const READY_MS = 60_000;

/** A sandbox with one of these words is on its way. */
const STARTING: ReadonlySet<string> = new Set([
  "Working",
  "Progressing",
  "Starting",
  "Replacing",
  "SandboxExited",
  "SandboxStuck",
  "SandboxSilent",
]);

export interface RouserDeps {
  readonly directory: Pick<Directory, "agentByUid">;
  readonly agents: Pick<AgentState, "active">;
  readonly clock: Clock;
  readonly wake?: (uid: string) => void;
}

export interface Rouser {
  /** The container that serves. Throws `unavailable` when there is none, and when it does not start. */
  container(agent: Agent, signal: AbortSignal): Promise<string>;
  /** Has it started; waits for nothing. */
  prepare(agent: Agent): void;
}

const isLazy = (agent: Agent): boolean => agent.spec.sandbox?.start === "lazy";
const asleep = (agent: Agent): boolean => agent.status?.observed?.["asleep"] === true;

/** Until it runs, the status is that of the sleep, of none yet, or of the way up. */
function onItsWay(agent: Agent, active: string | undefined): boolean {
  const ready = condition(agent, "Ready");
  if (asleep(agent) || ready === undefined) return true;
  return ready.status === "True" ? active === undefined : STARTING.has(ready.reason);
}

function notRunning(agent: Agent, why: string): BeigeError {
  const name = nsName(agent.metadata.namespace, agent.metadata.name);
  return new BeigeError("unavailable", `sandbox of agent ${name} is not running${why}`, { hint: `beige describe agent ${name}` });
}

export function createRouser(deps: RouserDeps, running: Pick<RunningCalls, "want">): Rouser {
  const { clock, directory, agents } = deps;
  async function started(uid: string, signal: AbortSignal): Promise<string> {
    const until = clock.monotonic() + START_MS;
    const before = agents.active(uid);
    for (;;) {
      const agent = directory.agentByUid(uid);
      if (agent === undefined) throw new BeigeError("not_found", "the agent is gone", { hint: "beige get agents" });
      const active = agents.active(uid);
      // One that begins to serve has been heard; its name and its status follow. Only what was taken over may have to be started yet.
      if (active !== undefined && active !== before && adoptionOf(agent.metadata) === undefined) return active;
      const said = condition(agent, "Ready")?.message ?? "";
      if (!onItsWay(agent, active)) {
        if (active !== undefined) return active;
        throw notRunning(agent, said === "" ? "" : `: ${said}`);
      }
      if (clock.monotonic() > until) throw notRunning(agent, `: it did not start within ${START_MS / 1000} s`);
      await clock.sleep(LOOK_MS, signal);
    }
  }
  return {
    async container(agent, signal) {
      const { uid } = agent.metadata;
      const active = agents.active(uid);
      if (!isLazy(agent) || (active !== undefined && !onItsWay(agent, active))) {
        if (active === undefined) throw notRunning(agent, "");
        return active;
      }
      const wish = running.want(uid);
      try {
        deps.wake?.(uid);
        return await started(uid, signal);
      } finally {
        wish.release();
      }
    },
    prepare(agent) {
      const { uid } = agent.metadata;
      if (!isLazy(agent) || (agents.active(uid) !== undefined && !asleep(agent))) return;
      const wish = running.want(uid);
      clock.after(READY_MS, () => wish.release());
      deps.wake?.(uid);
    },
  };
}
