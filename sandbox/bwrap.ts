// The Sandbox port on bubblewrap: no engine, no daemon; the same supervisor as PID 1, and a folder for each sandbox that outlives the gateway.
import { randomBytes } from "node:crypto";
import { readFileSync } from "node:fs";
import { BeigeError } from "../src/core/errors.ts";
import type { Sandbox, SandboxHint, SandboxSeen, SandboxSpec } from "../src/core/sandbox.ts";
import { LABEL } from "../src/core/sandbox.ts";
import type { Clock, Log } from "../src/core/world.ts";
import { checksOf, lacksOf } from "./bwrap/checks.ts";
import { openGroups, type Groups } from "./bwrap/group.ts";
import { openPipes } from "./bwrap/pipes.ts";
import { end, launch, limit } from "./bwrap/process.ts";
import { isAlive, openRecords, seenOf, type Run } from "./bwrap/record.ts";
import { HOST_IMAGE, imageId } from "./bwrap/words.ts";
import { checkWords } from "./docker/exec.ts";
import { createResident } from "./resident.ts";
import type { KeptOptions } from "./resident/kept.ts";

/** How soon the end of a sandbox is noticed that another gateway started. */
const LOOK_MS = 1000;
export interface BwrapOptions {
  readonly home: string;
  readonly guest: string;
  readonly epoch: number;
  readonly kept?: KeptOptions;
  /** Another's than this host's. */
  readonly groups?: Groups;
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
  const groups = options.groups ?? openGroups({ home, clock });
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
  const seen = (id: string): SandboxSeen | undefined => seenOf(records, id, (one) => groups.kills(one));
  const all = () => records.ids().flatMap((id) => seen(id) ?? []);
  /** Of the running one what was given to it, else what this host would give. */
  const holds = (run: Run | undefined) => (isAlive(run) ? (run.holds ?? []) : groups.holds());
  const change = (id: string, spec: Partial<SandboxSpec>): SandboxSpec => {
    const record = records.get(id);
    records.write(id, { ...record, spec: { ...record.spec, ...spec } });
    return record.spec;
  };
  const stop = async (id: string, graceMs: number): Promise<void> => {
    await end(records, clock, { id, graceMs });
    await groups.remove(id);
    hint(id, "die");
  };
  return {
    ping: () =>
      Promise.resolve({
        version: "bwrap",
        liveRestore: true,
        cgroup: 2,
        rootless: process.getuid?.() !== 0,
        lacks: lacksOf(groups.holds()),
      }),
    list: (store) =>
      Promise.resolve(
        all()
          .filter(({ spec }) => spec.labels[LABEL.store] === store)
          .map(({ id, spec, state }) => ({ id, name: spec.name, labels: spec.labels, state })),
      ),
    inspect: (id) => Promise.resolve(seen(id)),
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
      await launch({ records, groups, home, clock }, id);
      hint(id, "start");
    },
    stop,
    unpause: async (id) => void (await Promise.resolve(records.get(id))),
    rename: async (id, name) => void (await Promise.resolve(change(id, { name }))),
    async update(id, { memoryBytes, cpus, pids }) {
      change(id, { memoryBytes, cpus, pids });
      const { run } = records.get(id);
      if (!isAlive(run)) return;
      const set = groups.change(id, { memoryBytes, cpus, pids });
      const grouped = run.holds?.every((one) => set.includes(one)) ?? true;
      if (!(await limit(run, { memoryBytes, pids })) || !grouped)
        log.warn("limits of a sandbox change with its next start: this gateway may not raise them", { sandbox: id.slice(0, 14) });
      hint(id, "update");
    },
    async remove(id) {
      const labels = records.read(id)?.spec.labels;
      if (labels === undefined) return;
      await end(records, clock, { id, graceMs: 0 });
      await groups.remove(id);
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
    checks: (id) => Promise.resolve(checksOf(records.get(id), groups)),
    lacks: (id) => lacksOf(holds(records.read(id)?.run)),
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
      groups.sweep(new Set(records.ids()));
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
