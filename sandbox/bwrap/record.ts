// What is kept of each sandbox on disk: what it was made as, its process, its pipes. Whoever starts next finds it as it was left.
import { randomBytes } from "node:crypto";
import { mkdirSync, readdirSync, readFileSync, renameSync, rmSync, writeFileSync } from "node:fs";
import { execFileSync } from "node:child_process";
import { join } from "node:path";
import { BeigeError } from "../../src/core/errors.ts";
import type { SandboxSeen, SandboxSpec } from "../../src/core/sandbox.ts";
import type { Controller } from "./tree.ts";

export const PREFIX = "bwrap-";
/** By SIGKILL, as bwrap tells it. */
const KILLED = 137;
const ID = /^bwrap-[0-9a-f]{32}$/;

export interface Run {
  /** Of PID 1, on this host, and the moment that it began in ticks since boot: a number is given to another process later. */
  readonly pid: number;
  readonly began: string;
  readonly startedAt: string;
  /** What its control group limits; absent without one. */
  readonly holds?: readonly Controller[];
}

export interface Kept {
  readonly spec: SandboxSpec;
  readonly imageId: string;
  readonly run?: Run;
}

export interface Records {
  readonly root: string;
  at(id: string, name: string): string;
  ids(): readonly string[];
  read(id: string): Kept | undefined;
  /** Throws `not_found`. */
  get(id: string): Kept;
  write(id: string, record: Kept): void;
  make(record: Kept): string;
  remove(id: string): void;
}

export const isBwrapId = (id: string): boolean => ID.test(id);

/** Field 22 of stat, behind the name in brackets, which may hold anything. */
export function beganAt(pid: number): string | undefined {
  try {
    const text = readFileSync(`/proc/${pid}/stat`, "latin1");
    const fields = text.slice(text.lastIndexOf(")") + 2).split(" ");
    return fields[0] === "Z" || fields[0] === "X" ? undefined : fields[19];
  } catch {
    return undefined;
  }
}

export const isAlive = (run: Run | undefined): run is Run => run !== undefined && beganAt(run.pid) === run.began;

export function openRecords(home: string): Records {
  const root = join(home, "bwrap");
  mkdirSync(root, { recursive: true, mode: 0o700 });
  const at = (id: string, name: string): string => join(root, id, name);
  const read = (id: string): Kept | undefined => {
    if (!isBwrapId(id)) return undefined;
    try {
      return JSON.parse(readFileSync(at(id, "record.json"), "utf8")) as Kept;
    } catch {
      return undefined;
    }
  };
  const write = (id: string, record: Kept): void => {
    writeFileSync(at(id, "record.new"), JSON.stringify(record), { mode: 0o600 });
    renameSync(at(id, "record.new"), at(id, "record.json"));
  };
  return {
    root,
    at,
    read,
    write,
    ids: () => readdirSync(root).filter(isBwrapId),
    get(id) {
      const record = read(id);
      if (record === undefined) throw new BeigeError("not_found", `sandbox ${id.slice(0, 14)} does not exist`);
      return record;
    },
    make(record) {
      const id = `${PREFIX}${randomBytes(16).toString("hex")}`;
      mkdirSync(join(root, id), { mode: 0o700 });
      execFileSync("mkfifo", ["-m", "600", at(id, "in"), at(id, "out")]);
      write(id, record);
      return id;
    },
    remove: (id) => rmSync(join(root, id), { recursive: true, force: true }),
  };
}

/** What bwrap itself wrote down at the end. */
export function exitCodeOf(records: Records, id: string): number | undefined {
  try {
    const found = /"exit-code": (\d+)/.exec(readFileSync(records.at(id, "status"), "utf8"))?.[1];
    return found === undefined ? undefined : Number(found);
  } catch {
    return undefined;
  }
}

/** `kills` counts what was killed in it for want of memory. */
export function seenOf(records: Records, id: string, kills: (id: string) => number): SandboxSeen | undefined {
  const record = records.read(id);
  if (record === undefined) return undefined;
  const { spec, imageId, run } = record;
  const state = isAlive(run) ? "running" : run === undefined ? "created" : "exited";
  const exitCode = state === "exited" ? exitCodeOf(records, id) : undefined;
  return {
    id,
    state,
    imageId,
    spec,
    oomKilled: exitCode === KILLED && run?.holds?.includes("memory") === true && kills(id) > 0,
    ...(run === undefined ? {} : { startedAt: run.startedAt }),
    ...(exitCode === undefined ? {} : { exitCode }),
  };
}
