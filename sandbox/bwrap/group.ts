// A control group for each sandbox, of version 1 or 2: limits that hold for all of its processes together, where this host allows it.
import { createHash } from "node:crypto";
import { mkdirSync, readdirSync, readFileSync, rmdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import type { SandboxSpec } from "../../src/core/sandbox.ts";
import type { Clock } from "../../src/core/world.ts";
import { enable, parentsOf, placesOf, type Controller, type GroupFiles, type Place, type Self } from "./tree.ts";

/** What is above PID 1 is in its group as well: bwrap itself. */
const ABOVE = 1;
const PERIOD_US = 100_000;
/** Folders of groups are removed when the last process has left them, which takes a moment. */
const REMOVE_LOOKS = 100;
const LOOK_MS = 10;

export type GroupLimits = Pick<SandboxSpec, "memoryBytes" | "cpus" | "pids">;

export interface Group {
  readonly holds: readonly Controller[];
  /** To write a process into. */
  readonly doors: readonly string[];
  /** Where the kernel counts what it killed for want of memory, and where the supervisor looks for that. */
  readonly kills?: { readonly source: string; readonly target: string };
}

export interface Groups {
  /** What this host lets be limited. Looks only once, and only when it is asked. */
  holds(): readonly Controller[];
  /** A fresh one. Undefined where the host allows none. */
  make(id: string, limits: GroupLimits): Promise<Group | undefined>;
  /** Those of the controllers that could be set. */
  change(id: string, limits: GroupLimits): readonly Controller[];
  /** Kills for want of memory since it was made. */
  kills(id: string): number;
  /** Waits, bounded, until it is empty. */
  remove(id: string): Promise<void>;
  /** Removes the empty ones of this home that belong to no sandbox; where there are none it leaves no trace. */
  sweep(known: ReadonlySet<string>): void;
}

export const realFiles: GroupFiles = {
  read: (path) => {
    try {
      return readFileSync(path, "utf8");
    } catch {
      return "";
    }
  },
  write: (path, text) => writeFileSync(path, text, { flag: "r+" }),
  mkdir: (path) => void mkdirSync(path, { recursive: true, mode: 0o755 }),
  rmdir: (path) => rmdirSync(path),
  list: (path) => {
    try {
      return readdirSync(path, { withFileTypes: true }).flatMap((one) => (one.isDirectory() ? [one.name] : []));
    } catch {
      return [];
    }
  },
};

/** This process, as the kernel tells it. */
export const thisProcess = (): Self => ({
  pid: process.pid,
  root: process.getuid?.() === 0,
  mounts: realFiles.read("/proc/self/mountinfo"),
  groups: realFiles.read("/proc/self/cgroup"),
  parentOf: (pid) => {
    const text = realFiles.read(`/proc/${pid}/stat`);
    return Number(text.slice(text.lastIndexOf(")") + 2).split(" ")[1] ?? 0);
  },
});

type Setting = readonly [file: string, value: string, optional?: true];

/** Twice, since what is lowered must be set before, and what is raised behind, the limit with swap. */
function memorySettings(version: 1 | 2, bytes: number): readonly Setting[] {
  const all = String(bytes);
  if (version === 2)
    return [
      ["memory.max", all],
      ["memory.swap.max", "0", true],
    ];
  return [
    ["memory.limit_in_bytes", all, true],
    ["memory.memsw.limit_in_bytes", all, true],
    ["memory.limit_in_bytes", all],
  ];
}

function settings(controller: Controller, version: 1 | 2, { memoryBytes, cpus, pids }: GroupLimits): readonly Setting[] {
  const quota = String(Math.max(1000, Math.round(cpus * PERIOD_US)));
  if (controller === "memory") return memorySettings(version, memoryBytes);
  if (controller === "pids") return [["pids.max", String(pids + ABOVE)]];
  if (version === 2) return [["cpu.max", `${quota} ${PERIOD_US}`]];
  return [
    ["cpu.cfs_period_us", String(PERIOD_US)],
    ["cpu.cfs_quota_us", quota],
  ];
}

export interface GroupOptions {
  readonly home: string;
  readonly clock: Clock;
  readonly files?: GroupFiles;
  readonly self?: () => Self;
}

export function openGroups({ home, clock, files = realFiles, self = thisProcess }: GroupOptions): Groups {
  const owner = createHash("sha256").update(home).digest("hex").slice(0, 12);
  let looked: readonly Place[] | undefined;
  const places = (): readonly Place[] => (looked ??= placesOf(files, self()));
  const name = (id: string): string => `${owner}.${id}`;
  const at = (place: Place, id: string): string => join(place.parent, name(id));
  const set = (place: Place, id: string, limits: GroupLimits): readonly Controller[] =>
    place.controllers.filter((controller) =>
      settings(controller, place.version, limits).every(([file, value, optional]) => {
        try {
          files.write(join(at(place, id), file), value);
          return true;
        } catch {
          return optional === true;
        }
      }),
    );
  const gone = (path: string): boolean => {
    try {
      files.rmdir(path);
      return true;
    } catch (error) {
      return (error as { code?: string }).code === "ENOENT";
    }
  };
  const remove = async (id: string): Promise<void> => {
    for (const place of places()) {
      for (let look = 0; look < REMOVE_LOOKS && !gone(at(place, id)); look++) await clock.sleep(LOOK_MS);
      // The last one takes the folder of all with it; in version 2 another gateway may be about to use it.
      if (place.version === 1) gone(place.parent);
    }
  };
  return {
    holds: () => places().flatMap(({ controllers }) => controllers),
    async make(id, limits) {
      await remove(id);
      const made = places().flatMap((place) => {
        try {
          files.mkdir(place.parent);
          if (place.version === 2) enable(files, place.parent, place.controllers);
          files.mkdir(at(place, id));
        } catch {
          return [];
        }
        return [{ place, holds: set(place, id, limits) }];
      });
      const holds = made.flatMap((one) => one.holds);
      if (holds.length === 0) return undefined;
      const memory = made.find((one) => one.holds.includes("memory"))?.place;
      const source = memory === undefined ? "" : join(at(memory, id), memory.version === 2 ? "memory.events" : "memory.oom_control");
      const target = memory?.version === 2 ? "/sys/fs/cgroup/memory.events" : "/sys/fs/cgroup/memory/memory.oom_control";
      return {
        holds,
        doors: made.map(({ place }) => join(at(place, id), "cgroup.procs")),
        ...(memory === undefined ? {} : { kills: { source, target } }),
      };
    },
    change: (id, limits) => places().flatMap((place) => set(place, id, limits)),
    kills(id) {
      const memory = places().find(({ controllers }) => controllers.includes("memory"));
      if (memory === undefined) return 0;
      const text = files.read(join(at(memory, id), memory.version === 2 ? "memory.events" : "memory.oom_control"));
      return Number(/^oom_kill (\d+)$/m.exec(text)?.[1] ?? 0);
    },
    remove,
    sweep(known) {
      for (const parent of parentsOf(self()))
        for (const one of files.list(parent)) {
          const [whose, id = ""] = one.split(".", 2);
          if (whose === owner && !known.has(id)) gone(join(parent, one));
        }
    },
  };
}
