// The rules of the benchmark that have a meaning without an engine, held against a sandbox, and what it has not.
import type { SandboxCheck } from "../../src/core/sandbox.ts";
import type { Groups } from "./group.ts";
import { countsProcesses, dataLimit, isFiltered } from "./process.ts";
import { isAlive, type Kept } from "./record.ts";
import type { Controller } from "./tree.ts";

/** In the words of the condition. */
export const lacksOf = (holds: readonly Controller[]): readonly string[] => [
  ...(holds.includes("cpu") ? [] : ["processor limit"]),
  ...(holds.includes("memory") ? [] : ["memory limit for a whole sandbox"]),
  ...(holds.includes("pids") || countsProcesses() ? [] : ["process limit"]),
];

const ok = (rule: string, title: string, why: string): SandboxCheck => ({ rule, title, state: "ok", why });

const mebibytes = (bytes: number): string => `${Math.round(bytes / 2 ** 20)} MiB`;

export function checksOf({ spec, run }: Kept, groups: Pick<Groups, "holds">): readonly SandboxCheck[] {
  const alive = isAlive(run);
  const host = groups.holds();
  const holds = alive ? (run.holds ?? []) : host;
  const real = alive ? dataLimit(run.pid) : undefined;
  const late = real !== undefined && real !== spec.memoryBytes ? `; ${mebibytes(real)} until its next start` : "";
  const fixOf = (controller: Controller): string =>
    host.includes(controller) ? "beige rollout restart agent/NAME" : "use backend: docker, or delegate control groups to the gateway";
  const warning = (rule: string, title: string, why: string, fix: string): SandboxCheck => ({ rule, title, state: "warning", why, fix });
  const memory = `${mebibytes(spec.memoryBytes)} of data for each process, not for all together${late}`;
  return [
    alive && !isFiltered(run.pid)
      ? warning("5.2", "profile of system calls", "none until its next start", "beige rollout restart agent/NAME")
      : ok("5.2", "profile of system calls", "its PID 1 filters what it and all that it starts may call"),
    ok("5.3", "Linux capabilities", "all are dropped"),
    holds.includes("memory")
      ? ok("5.10", "memory limit", `${mebibytes(spec.memoryBytes)} for all of its processes`)
      : warning("5.10", "memory limit", memory, fixOf("memory")),
    holds.includes("cpu")
      ? ok("5.11", "processor limit", `${spec.cpus} cores for all of its processes`)
      : warning("5.11", "processor limit", "none", fixOf("cpu")),
    ok("5.12", "read-only root filesystem", "only /workspace and /tmp can be written"),
    ok("5.15", "own process space", "it sees its own processes"),
    ok("5.25", "no new privileges", "setuid programs gain nothing"),
    processes(holds.includes("pids")),
    ok("5.30", "user namespace", "its own, and no further ones"),
  ];

  function processes(grouped: boolean): SandboxCheck {
    if (grouped) return ok("5.28", "process limit", `${spec.pids} processes and threads`);
    if (countsProcesses()) return ok("5.28", "process limit", `${spec.pids} processes of user ${spec.user.uid}`);
    const why = "none: the gateway is not root, and this kernel would count its user's own processes";
    return warning("5.28", "process limit", why, fixOf("pids"));
  }
}
