// The Sandbox port on bubblewrap: no engine, no daemon; the same supervisor as PID 1, and a folder for each sandbox that outlives the gateway.
import { randomBytes } from "node:crypto";
import { readFileSync } from "node:fs";
import { BeigeError } from "../src/core/errors.ts";
import type { Sandbox, SandboxCheck, SandboxHint, SandboxSpec } from "../src/core/sandbox.ts";
import { LABEL } from "../src/core/sandbox.ts";
import type { Clock, Log } from "../src/core/world.ts";
import { openPipes } from "./bwrap/pipes.ts";
import { countsProcesses, dataLimit, end, isFiltered, launch, limit } from "./bwrap/process.ts";
import { isAlive, openRecords, seenOf, type Kept } from "./bwrap/record.ts";
import { HOST_IMAGE, imageId } from "./bwrap/words.ts";
import { checkWords } from "./docker/exec.ts";
import { createResident } from "./resident.ts";
import type { KeptOptions } from "./resident/kept.ts";

/** How soon the end of a sandbox is noticed that another gateway started. */
const LOOK_MS = 1000;
/** What no sandbox of this kind has, in the words of the condition. */
const LACKS = ["processor limit", "memory limit for a whole sandbox"] as const;
const lacks = (): readonly string[] => (countsProcesses() ? LACKS : [...LACKS, "process limit"]);

export interface BwrapOptions {
  readonly home: string;
  readonly guest: string;
  readonly epoch: number;
  readonly kept?: KeptOptions;
  readonly clock: Clock;
  readonly log: Log;
}

const notRunning = (id: string): BeigeError =>
  new BeigeError("unavailable", `sandbox ${id.slice(0, 14)} is not running`, { hint: "the gateway will start it again: beige get agents" });

function refuse(spec: SandboxSpec): void {
  const why =
    spec.network === "open"
      ? "has no network of its own to open: use sandbox.network.mode: allowlist"
      : spec.profile === "packages"
        ? "has no writable root: use sandbox.profile: strict"
        : spec.runtime === undefined
          ? undefined
          : "takes no runtime: remove sandbox.runtime";
  if (why !== undefined) throw new BeigeError("invalid", `backend bwrap ${why}`);
}

export function createBwrap(options: BwrapOptions): Sandbox {
  const { home, clock, log } = options;
  const records = openRecords(home);
  const watchers = new Set<(hint: SandboxHint) => void>();
  const hint = (id: string, action: string, labels = records.read(id)?.spec.labels ?? {}): void => {
    for (const tell of watchers) tell({ id, labels, action });
  };
  const alive = (id: string): boolean => isAlive(records.read(id)?.run);
  const resident = createResident({
    connect: (id) => {
      if (!alive(id)) return Promise.reject(notRunning(id));
      return Promise.resolve().then(() => openPipes(records.at(id, "in"), records.at(id, "out")));
    },
    fate: (id) => Promise.resolve(alive(id) ? { state: "running", reason: "" } : { state: "ended", reason: "the sandbox ended" }),
    epoch: options.epoch,
    nonce: () => randomBytes(16),
    ...(options.kept === undefined ? {} : { kept: options.kept }),
    clock,
    log,
  });
  const all = () => records.ids().flatMap((id) => seenOf(records, id) ?? []);
  const change = (id: string, spec: Partial<SandboxSpec>): SandboxSpec => {
    const record = records.get(id);
    records.write(id, { ...record, spec: { ...record.spec, ...spec } });
    return record.spec;
  };
  const stop = async (id: string, graceMs: number): Promise<void> => {
    await end(records, clock, { id, graceMs });
    hint(id, "die");
  };
  return {
    ping: () => Promise.resolve({ version: "bwrap", liveRestore: true, cgroup: 2, rootless: process.getuid?.() !== 0, lacks: lacks() }),
    list: (store) =>
      Promise.resolve(
        all()
          .filter(({ spec }) => spec.labels[LABEL.store] === store)
          .map(({ id, spec, state }) => ({ id, name: spec.name, labels: spec.labels, state })),
      ),
    inspect: (id) => Promise.resolve(seenOf(records, id)),
    image: (ref) => Promise.resolve(imageId(home, ref)),
    async create(spec, signal) {
      signal?.throwIfAborted();
      refuse(spec);
      const image = imageId(home, spec.image);
      if (image === undefined) {
        const hintText = `sandbox.image: ${HOST_IMAGE} takes this machine's programs; or: docker export CONTAINER | tar -x -C ${home}/images/${spec.image}`;
        throw new BeigeError("not_found", `image ${spec.image} is not below ${home}/images`, { hint: hintText });
      }
      if (all().some((one) => one.spec.name === spec.name))
        throw new BeigeError("conflict", `the name ${spec.name} belongs to another sandbox`, { hint: "beige orphans says whose it is" });
      const id = records.make({ spec, imageId: image });
      hint(id, "create");
      return await Promise.resolve(id);
    },
    async start(id) {
      if (isAlive(records.get(id).run)) return;
      await launch({ records, home, clock }, id);
      hint(id, "start");
    },
    stop,
    unpause: async (id) => void (await Promise.resolve(records.get(id))),
    rename: async (id, name) => void (await Promise.resolve(change(id, { name }))),
    async update(id, { memoryBytes, cpus, pids }) {
      change(id, { memoryBytes, cpus, pids });
      const { run } = records.get(id);
      if (isAlive(run) && !(await limit(run.pid, { memoryBytes, pids })))
        log.warn("limits of a sandbox change with its next start: this gateway may not raise them", { sandbox: id.slice(0, 14) });
      hint(id, "update");
    },
    async remove(id) {
      const labels = records.read(id)?.spec.labels;
      if (labels === undefined) return;
      await end(records, clock, { id, graceMs: 0 });
      records.remove(id);
      resident.drop(id);
      hint(id, "destroy", labels);
    },
    async exec(id, request, signal) {
      checkWords(request);
      if (!isAlive(records.get(id).run)) throw notRunning(id);
      return resident.exec(id, request, signal);
    },
    rejoin: (id, key, signal) => resident.rejoin(id, key, signal),
    checks: (id) => Promise.resolve(checksOf(records.get(id))),
    lacks,
    async logs(id, lines) {
      records.get(id);
      const text = await Promise.resolve()
        .then(() => readFileSync(records.at(id, "err"), "utf8"))
        .catch(() => "");
      return text
        .split("\n")
        .slice(-lines - 1)
        .join("\n");
    },
    async watch(on, signal) {
      const tell = (one: SandboxHint): void => on.hint(one);
      watchers.add(tell);
      on.relist();
      let before = new Map(all().map(({ id, state }) => [id, state]));
      while (!signal.aborted) {
        await clock.sleep(LOOK_MS, signal).catch(() => undefined);
        const now = new Map(all().map(({ id, state }) => [id, state]));
        for (const [id, state] of now) if (state === "exited" && before.get(id) === "running") hint(id, "die");
        before = now;
      }
      watchers.delete(tell);
    },
    guest: () => options.guest,
  };
}

/** The rules of the benchmark that have a meaning without an engine, and what this backend has not. */
function checksOf({ spec, run }: Kept): readonly SandboxCheck[] {
  const real = isAlive(run) ? dataLimit(run.pid) : undefined;
  const late = real !== undefined && real !== spec.memoryBytes ? `; ${Math.round(real / 2 ** 20)} MiB until its next start` : "";
  const ok = (rule: string, title: string, why: string): SandboxCheck => ({ rule, title, state: "ok", why });
  const warning = (rule: string, title: string, why: string): SandboxCheck => ({
    rule,
    title,
    state: "warning",
    why,
    fix: "use backend: docker",
  });
  return [
    isAlive(run) && !isFiltered(run.pid)
      ? warning("5.2", "profile of system calls", "none until its next start: beige restart agent/NAME")
      : ok("5.2", "profile of system calls", "its PID 1 filters what it and all that it starts may call"),
    ok("5.3", "Linux capabilities", "all are dropped"),
    warning("5.10", "memory limit", `${Math.round(spec.memoryBytes / 2 ** 20)} MiB of data for each process, not for all together${late}`),
    warning("5.11", "processor limit", "none"),
    ok("5.12", "read-only root filesystem", "only /workspace and /tmp can be written"),
    ok("5.15", "own process space", "it sees its own processes"),
    ok("5.25", "no new privileges", "setuid programs gain nothing"),
    countsProcesses()
      ? ok("5.28", "process limit", `${spec.pids} processes of user ${spec.user.uid}`)
      : warning("5.28", "process limit", "none: the gateway is not root, and this kernel would count its user's own processes"),
    ok("5.30", "user namespace", "its own, and no further ones"),
  ];
}
