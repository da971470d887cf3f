// A whole control plane on the fake world: real engine, real store in a temporary folder, real kinds; crash it, heal it, look at it.
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createPool, type Pool } from "../../controllers/agent/pool.ts";
import { kinds } from "../../controllers/index.ts";
import type { ApplyEvent, ApplyRequest, ObjectPlan } from "../../src/core/control.ts";
import { condition, type Condition, type ConditionType, type Ref, type Resource } from "../../src/core/resource.ts";
import { LABEL } from "../../src/core/sandbox.ts";
import type { Outside } from "../../src/core/world.ts";
import type { HostPolicy } from "../../schemas/types.ts";
import { createEngine, type Engine } from "../../src/engine/engine.ts";
import { manualClock, seededRandom, silentLog, turns, type ManualClock } from "../../src/engine/fixture.ts";
import { createView } from "../../src/engine/view.ts";
import { openStore, type Store } from "../../src/engine/store.ts";
import { FakeAudit } from "../fakes/audit.ts";
import { Faults } from "../fakes/faults.ts";
import { FakeFolders, FakeKits } from "../fakes/folders.ts";
import { FakePlugins, FakeProviders, FakeSecrets, FakeSockets, FakeTurns, type FakePackage } from "../fakes/gateway.ts";
import { FakeEngine, type FakeBox } from "../fakes/sandbox.ts";
import { FakeTrees } from "../fakes/trees.ts";
import { stack } from "./stack.ts";

export * from "./stack.ts";

/** What outlives a gateway. */
export interface Machine {
  readonly home: string;
  readonly clock: ManualClock;
  readonly faults: Faults;
  readonly docker: FakeEngine;
  readonly folders: FakeFolders;
  readonly kits: FakeKits;
  readonly packages: Map<string, FakePackage>;
  /** Folders that Sources read: text by name, by path. */
  readonly manifests: Map<string, Readonly<Record<string, string>>>;
  readonly secrets: FakeSecrets;
  readonly audit: FakeAudit;
  host: HostPolicy;
  /** Calls that run, by agent uid; a test sets them. */
  readonly running: Map<string, number>;
  /** Agents whose sandbox somebody waits for. */
  readonly wanted: Set<string>;
  /** Agents whose new calls wait. */
  readonly held: Set<string>;
  /** Calls and sessions that were ended, with the reason. */
  readonly ended: string[];
  /** What an invariant saw broken; every sim ends with none. */
  readonly broken: string[];
  firing: boolean;
  seed: number;
}

export interface Sim extends Machine {
  readonly store: Store;
  readonly engine: Engine;
  /** A test lets it look. */
  readonly pool: Pool;
  readonly turns: FakeTurns;
  readonly plugins: FakePlugins;
  readonly providers: FakeProviders;
  readonly sockets: FakeSockets;
  readonly world: Outside;
  readonly trees: FakeTrees;
}

const NO_HOST: HostPolicy = { secrets: [], paths: { mounts: [], workspaces: [], plugins: [] } };

function machine(startMs?: number): Machine {
  const home = mkdtempSync(join(tmpdir(), "beige-sim-"));
  const clock = manualClock(startMs);
  const faults = new Faults();
  const docker = new FakeEngine(clock, faults);
  docker.images.set("beige-base:1", "sha256:base1");
  docker.images.set("beige-base:2", "sha256:base2");
  const made: Machine = {
    home,
    clock,
    faults,
    docker,
    folders: new FakeFolders(faults),
    kits: new FakeKits(faults),
    packages: new Map(),
    manifests: new Map(),
    secrets: new FakeSecrets(),
    audit: new FakeAudit(),
    host: NO_HOST,
    running: new Map(),
    wanted: new Set(),
    held: new Set(),
    ended: [],
    broken: [],
    firing: true,
    seed: 1,
  };
  made.folders.folders.set(home, { uid: 0, gid: 0 });
  made.packages.set("memory", {
    manifest: { name: "memory", description: "Remembers.", provides: { tools: ["memory"] } },
    codeHash: "code-1",
  });
  watchInvariants(made);
  return made;
}

/** Architecture: no effect without an audit row; never two serving; nothing without our label is touched. */
function watchInvariants(m: Machine): void {
  m.faults.onEffect = (name) => {
    if (m.audit.open.size === 0) m.broken.push(`${name}: no audit row was open`);
    const counts = new Map<string, number>();
    for (const box of m.docker.boxes.values()) {
      const uid = box.spec.labels[LABEL.uid];
      if (uid !== undefined) counts.set(uid, (counts.get(uid) ?? 0) + 1);
    }
    for (const [uid, count] of counts) if (count > 2) m.broken.push(`${name}: ${count} containers of ${uid}`);
  };
}

function assemble(m: Machine): Sim {
  const random = seededRandom(m.seed++);
  const store = openStore({ home: m.home, clock: m.clock, random, log: silentLog, owner: { uid: 0, gid: 0 } });
  const fakes = {
    turns: new FakeTurns(),
    plugins: new FakePlugins(m.packages, m.faults),
    providers: new FakeProviders(),
    sockets: new FakeSockets(m.home, m.docker, m.faults, store.agents.seats.of),
    trees: new FakeTrees(m.manifests),
  };
  m.kits.seatOf = store.agents.seats.of;
  const outside: Outside = {
    clock: m.clock,
    random,
    log: silentLog,
    home: m.home,
    firing: m.firing,
    store: store.id,
    control: m.audit,
    secrets: m.secrets,
    sandbox: m.docker,
    workspaces: m.folders,
    kits: m.kits,
    ...fakes,
    sessions: { open: () => 0, end: async (uid, why) => void m.ended.push(`sessions of ${uid}: ${why}`) },
    calls: {
      running: (uid) => m.running.get(uid) ?? 0,
      cut: (uid, why) => {
        if (m.running.delete(uid)) m.ended.push(`calls of ${uid}: ${why}`);
      },
      hold: (uid) => void m.held.add(uid),
      held: (uid) => m.held.has(uid),
      wanted: (uid) => m.wanted.has(uid),
      admit: (uid) => void m.held.delete(uid),
    },
    state: store.agents,
    firings: store.firings,
  };
  const pool = createPool({
    world: { ...outside, state: store.agents },
    entries: () => m.host.warm ?? [],
    view: () => createView({ store, host: () => m.host, home: m.home, defaultHome: true, clock: m.clock }),
    folders: m.folders.seats,
    exists: (uid) => store.directory.agentByUid(uid) !== undefined,
  });
  const world: Outside = { ...outside, warm: pool };
  const engine = createEngine({
    store,
    kinds,
    world,
    host: () => m.host,
    home: m.home,
    defaultHome: true,
    clock: m.clock,
    random,
    log: silentLog,
  });
  return Object.assign(m, fakes, { store, engine, world, pool });
}

/** Lets time pass until the promise ends. */
export async function settle<T>(sim: Machine, promise: Promise<T>): Promise<T> {
  const running = new Set([promise]);
  const ended = promise.finally(() => running.clear());
  ended.catch(() => undefined);
  for (let i = 0; i < 600 && running.size > 0; i++) {
    await turns(10);
    if (running.size > 0 && i % 5 === 4) await sim.clock.advance(500);
  }
  return ended;
}

export async function createSim(
  options: { readonly seed?: number; readonly startMs?: number; readonly setUp?: (m: Machine) => void } = {},
): Promise<Sim> {
  const m = machine(options.startMs);
  if (options.seed !== undefined) m.seed = options.seed;
  options.setUp?.(m);
  const sim = assemble(m);
  await settle(sim, sim.engine.start());
  return sim;
}

/** The gateway dies as a killed process does: nothing of it runs on, and only what is on disk or in the engine is left. */
export async function crash(sim: Sim): Promise<void> {
  const stopped = sim.engine.stop();
  sim.store.close();
  await turns(5);
  void stopped.catch(() => undefined);
  sim.audit.open.clear();
  sim.running.clear();
  sim.held.clear();
}

/**
 * The gateway dies at the nth row that it writes to the control chain: before the effect of a begin row, after that of an
 * end row. Every action has both, those that only touch the store too. False when there were fewer rows.
 */
export async function dieAtRow(sim: Sim, nth: number, change: () => Promise<unknown>): Promise<boolean> {
  const rows = { left: nth };
  sim.audit.onRow = () => {
    rows.left -= 1;
    if (rows.left > 0) return;
    void sim.engine.stop();
    throw new Error("killed");
  };
  await change().catch(() => undefined);
  for (let i = 0; i < 60 && rows.left > 0; i++) await sim.clock.advance(200);
  await crash(sim);
  sim.audit.onRow = () => undefined;
  return rows.left <= 0;
}

export async function reopen(sim: Sim): Promise<Sim> {
  const next = assemble(sim);
  await settle(next, next.engine.start());
  return next;
}

export async function restart(sim: Sim): Promise<Sim> {
  await crash(sim);
  return reopen(sim);
}

export async function close(sim: Sim): Promise<void> {
  const stopped = sim.engine.stop();
  await sim.clock.advance(20_000);
  await stopped;
  sim.store.close();
  rmSync(sim.home, { recursive: true, force: true });
}

/** Time for resyncs, pauses and limits; then everything that can be done is done. */
export async function converge(sim: Sim, ms = 400_000): Promise<void> {
  for (let passed = 0; passed < ms; passed += 20_000) {
    await sim.clock.advance(20_000);
    await turns(20);
  }
}

export type End = Extract<ApplyEvent, { type: "end" }>;
export interface Applied {
  readonly events: readonly ApplyEvent[];
  readonly end: End;
  readonly plans: readonly ObjectPlan[];
}

export async function apply(sim: Sim, objects: readonly object[], more: Partial<ApplyRequest> = {}): Promise<Applied> {
  const request = {
    files: [stack(...objects)],
    set: "default",
    dryRun: false,
    forceConflicts: false,
    prune: false,
    wait: true,
    timeoutMs: 120_000,
    ...more,
  };
  const events: ApplyEvent[] = [];
  const run = async (): Promise<void> => {
    for await (const event of sim.engine.apply(request, new AbortController().signal)) events.push(event);
  };
  await settle(sim, run());
  const end = events.at(-1);
  if (end?.type !== "end") throw new Error(`an apply without an end: ${JSON.stringify(events)}`);
  return { events, end, plans: events.find((event) => event.type === "plan")?.plan.objects ?? [] };
}

export const diff = async (sim: Sim, objects: readonly object[]): Promise<readonly ObjectPlan[]> =>
  (await apply(sim, objects, { dryRun: true })).plans;

export const ref = (kind: string, name: string): Ref => ({
  kind,
  namespace: kind === "Agent" || kind === "Schedule" ? "default" : "",
  name,
});

export const object = (sim: Sim, name = "travel", kind = "Agent"): Resource => sim.engine.get(ref(kind, name));
export const uidOf = (sim: Sim, name = "travel"): string => object(sim, name).metadata.uid;
export const state = (sim: Sim, type: ConditionType, name = "travel", kind = "Agent"): Condition | undefined =>
  condition(object(sim, name, kind), type);

/** The container that serves, as the store and the engine say it together. */
export function serving(sim: Sim, name = "travel"): FakeBox | undefined {
  const id = sim.store.agents.active(uidOf(sim, name));
  return id === undefined ? undefined : sim.docker.boxes.get(id);
}

/** What must be true of an agent at rest. */
export function problemsAtRest(sim: Sim, name = "travel"): readonly string[] {
  const uid = uidOf(sim, name);
  const boxes = sim.docker.of(uid);
  const box = serving(sim, name);
  const ready = state(sim, "Ready", name);
  return [
    ...sim.broken,
    ...(boxes.length === 1 ? [] : [`${boxes.length} containers: ${boxes.map((one) => one.spec.name).join(", ")}`]),
    ...(box?.state === "running" ? [] : [`the serving container is ${box?.state ?? "missing"}`]),
    ...(box?.spec.name === `beige-${name}` ? [] : [`its name is ${box?.spec.name ?? ""}`]),
    ...(ready?.status === "True" ? [] : [`Ready is ${ready?.status ?? "absent"}: ${ready?.reason ?? ""} ${ready?.message ?? ""}`]),
    ...(sim.store.intents.intent(uid) === undefined ? [] : ["an intent is left"]),
    ...(sim.held.has(uid) ? ["its new calls wait"] : []),
  ];
}
