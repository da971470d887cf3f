// Starts and ends the processes of a sandbox: bwrap with PID 1 below it, which both outlive the gateway.
import { execFile, spawn } from "node:child_process";
import { closeSync, constants, mkdirSync, openSync, readFileSync, writeFileSync } from "node:fs";
import { release } from "node:os";
import { promisify } from "node:util";
import { BeigeError } from "../../src/core/errors.ts";
import type { SandboxSpec } from "../../src/core/sandbox.ts";
import type { Clock } from "../../src/core/world.ts";
import type { Group, Groups } from "./group.ts";
import { beganAt, exitCodeOf, isAlive, type Records, type Run } from "./record.ts";
import { bwrapWords, imageFolder, STAGE, staged } from "./words.ts";

const START_MS = 10_000;
const LOOK_MS = 5;
const KILL_MS = 5000;
const CODE_MS = 500;
/** Looks between two signals. */
const SAY_LOOKS = 10;

/** As root: the sources are bound where the sandbox's user can reach them, in a mount namespace of its own, and root is left behind. */
const STAGING = `set -e
uid=$1 gid=$2 stage=$3; shift 3
mount -t tmpfs -o mode=711,size=64k beige "$stage"
n=0
while [ "$1" != -- ]; do mkdir "$stage/$n"; mount --bind "$1" "$stage/$n"; n=$((n+1)); shift; done
shift
exec setpriv --reuid "$uid" --regid "$gid" --clear-groups --no-new-privs -- "$@"`;

/** Before anything else, so that nothing inside is ever without its limits. */
const JOINING = 'set -e; while [ "$1" != -- ]; do echo 0 >"$1"; shift; done; shift; exec "$@"';

interface Launch {
  readonly spec: SandboxSpec;
  readonly id: string;
  readonly folder: string;
  readonly group?: Group;
}

function command({ spec, id, folder, group }: Launch): readonly string[] {
  const root = process.getuid?.() === 0;
  const { holds = [], doors = [], kills } = group ?? {};
  const counted = holds.includes("pids");
  const late = !counted && !root && countsProcesses() ? { pids: spec.pids } : {};
  const about = { id, folder, stage: root, ...late, ...(kills === undefined ? {} : { kills }) };
  const limits = limitWords(spec, { processes: root && !counted, data: !holds.includes("memory") });
  const words = ["prlimit", ...limits, "--", "bwrap", ...bwrapWords(spec, about)];
  const join = group === undefined ? [] : ["sh", "-c", JOINING, "sh", ...doors, "--"];
  if (!root) return [...join, ...words];
  mkdirSync(STAGE, { recursive: true, mode: 0o711 });
  const { uid, gid } = spec.user;
  const head = ["unshare", "-m", "--propagation", "private", "sh", "-c", STAGING, "sh", String(uid), String(gid), STAGE];
  return [...join, ...head, ...staged(spec, folder), "--", ...words];
}

export type Limits = Pick<SandboxSpec, "memoryBytes" | "pids">;

/** Processes are counted by user: the sandbox's own where the gateway is root, else in its user namespace, by kernels from 5.14 on. */
export function countsProcesses(): boolean {
  const [major = 0, minor = 0] = release().split(".", 2).map(Number);
  return process.getuid?.() === 0 || major > 5 || (major === 5 && minor >= 14);
}

/** What no control group holds; each process counts its memory for itself then. */
function limitWords({ memoryBytes, pids }: Limits, also: { readonly processes: boolean; readonly data: boolean }): readonly string[] {
  const processes = also.processes ? [`--nproc=${pids}:${pids}`] : [];
  const data = also.data ? [`--data=${memoryBytes}:${memoryBytes}`] : [];
  return [...processes, ...data, "--nofile=4096:4096", "--core=0:0"];
}

/** Of PID 1; what it starts from then on has them. False where this gateway may not raise a limit: they come with the next start. */
export function limit({ pid, holds = [] }: Run, limits: Limits): Promise<boolean> {
  const also = { processes: countsProcesses() && !holds.includes("pids"), data: !holds.includes("memory") };
  return promisify(execFile)("prlimit", ["--pid", String(pid), ...limitWords(limits, also)]).then(
    () => true,
    () => false,
  );
}

/** Bytes of data that each process may have, as the kernel has it. */
export function dataLimit(pid: number): number | undefined {
  const found = /^Max data size +(\d+)/m.exec(saidBy(`/proc/${pid}/limits`))?.[1];
  return found === undefined ? undefined : Number(found);
}

/** Whether the filter of system calls is in force, as the kernel has it. */
export const isFiltered = (pid: number): boolean => /^Seccomp:\s+2$/m.test(saidBy(`/proc/${pid}/status`));

const saidBy = (path: string): string => {
  try {
    return readFileSync(path, "utf8").slice(-2000).trim();
  } catch {
    return "";
  }
};

export async function launch(
  parts: { readonly records: Records; readonly groups: Groups; readonly home: string; readonly clock: Clock },
  id: string,
): Promise<void> {
  const { records, groups, home, clock } = parts;
  const record = records.get(id);
  const folder = imageFolder(home, record.spec.image);
  if (folder === undefined) throw new BeigeError("not_found", `image ${record.spec.image} is not below ${home}/images`);
  const group = await groups.make(id, record.spec);
  const [program = "", ...words] = command({ spec: record.spec, id, folder, ...(group === undefined ? {} : { group }) });
  writeFileSync(records.at(id, "status"), "", { mode: 0o600 });
  // Opened for both, the pipes outlive every reader and writer.
  const both = constants.O_RDWR | constants.O_NONBLOCK;
  const fds = [openSync(records.at(id, "in"), both), openSync(records.at(id, "out"), both)];
  fds.push(openSync(records.at(id, "err"), "w", 0o600), openSync(records.at(id, "status"), "a", 0o600));
  const child = spawn(program, words, {
    stdio: fds,
    detached: true,
    cwd: "/",
    env: { PATH: process.env["PATH"] ?? "/usr/sbin:/usr/bin:/sbin:/bin" },
  });
  let ended = false;
  const failed = new Promise<string>((resolve) => {
    child.once("error", (error) => resolve(error.message));
    child.once("exit", () => resolve(""));
  }).then((message) => ((ended = true), message));
  child.unref();
  for (const fd of fds) closeSync(fd);
  const until = clock.monotonic() + START_MS;
  for (;;) {
    const pid = Number(/"child-pid": (\d+)/.exec(saidBy(records.at(id, "status")))?.[1] ?? 0);
    const began = pid === 0 ? undefined : beganAt(pid);
    if (began !== undefined) {
      const held = group === undefined ? {} : { holds: group.holds };
      const run: Run = { pid, began, startedAt: new Date(clock.now()).toISOString(), ...held };
      records.write(id, { ...record, run });
      return;
    }
    if (ended || clock.monotonic() > until) {
      if (ended) await groups.remove(id);
      const why = saidBy(records.at(id, "err")) || (ended ? await failed : "it took too long") || "it ended at once";
      throw new BeigeError("unavailable", `bwrap could not start the sandbox: ${why}`, { hint: "apt-get install bubblewrap util-linux" });
    }
    await clock.sleep(LOOK_MS);
  }
}

function signal(run: Run, name: "SIGTERM" | "SIGKILL"): void {
  try {
    process.kill(run.pid, name);
  } catch {
    // It has ended.
  }
}

/** With PID 1 everything in its process space ends. */
export async function end(
  records: Records,
  clock: Clock,
  { id, graceMs }: { readonly id: string; readonly graceMs: number },
): Promise<void> {
  const run = records.read(id)?.run;
  if (!isAlive(run)) return;
  /** Said again and again: PID 1 does not hear it before it is ready for it. */
  const gone = async (name: "SIGTERM" | "SIGKILL", limitMs: number): Promise<boolean> => {
    const until = clock.monotonic() + limitMs;
    for (let look = 0; isAlive(run); look++) {
      if (look % SAY_LOOKS === 0) signal(run, name);
      if (clock.monotonic() > until) return false;
      await clock.sleep(LOOK_MS);
    }
    return true;
  };
  if (!(graceMs > 0 && (await gone("SIGTERM", graceMs))) && !(await gone("SIGKILL", KILL_MS)))
    throw new BeigeError("unavailable", `sandbox ${id.slice(0, 14)} does not end`);
  if (graceMs === 0) return;
  // What is above it writes the exit code down a moment later.
  for (const until = clock.monotonic() + CODE_MS; exitCodeOf(records, id) === undefined && clock.monotonic() < until;)
    await clock.sleep(LOOK_MS);
}
