// An engine over a real store in a temporary folder and the small kind, for the tests of the engine.
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { ApplyEvent, ApplyRequest, ManifestFile } from "../core/control.ts";
import { createEngine, type Engine } from "./engine.ts";
import { manualClock, seededRandom, silentLog, turns, type ManualClock } from "./fixture.ts";
import { openStore, type Store } from "./store.ts";
import { createBoxKind, createToy, type ToyWorld } from "./toy.ts";

export interface Rig {
  readonly home: string;
  readonly clock: ManualClock;
  readonly toy: ToyWorld;
  readonly store: Store;
  readonly engine: Engine;
  /** Ends this gateway as a crash would, as far as one process can, and starts another on the same home and world. */
  restart(options?: { start?: boolean }): Promise<Rig>;
  /** Ends this gateway without starting another. */
  crash(): void;
  close(): Promise<void>;
}

export const temporary = (): string => mkdtempSync(join(tmpdir(), "beige-engine-"));

let seed = 1;

function assemble(parts: { home: string; clock: ManualClock; toy: ToyWorld }): Rig {
  const { home, clock, toy } = parts;
  const random = seededRandom(seed++);
  const store = openStore({ home, clock, random, log: silentLog });
  const engine = createEngine({
    store,
    kinds: [createBoxKind(toy)],
    world: toy.world,
    host: () => ({ secrets: [], paths: { mounts: [], workspaces: [], plugins: [] } }),
    home,
    defaultHome: false,
    clock,
    random,
    log: silentLog,
  });
  const rig: Rig = {
    home,
    clock,
    toy,
    store,
    engine,
    crash: () => {
      void engine.stop();
      store.close();
    },
    async restart(options) {
      rig.crash();
      await turns();
      const next = assemble(parts);
      if (options?.start !== false) await settle(next, next.engine.start());
      return next;
    },
    async close() {
      const stopped = engine.stop();
      await clock.advance(20_000);
      await stopped;
      store.close();
      rmSync(home, { recursive: true, force: true });
    },
  };
  return rig;
}

/** Lets time pass until the promise ends. */
export async function settle<T>(rig: { readonly clock: ManualClock }, promise: Promise<T>): Promise<T> {
  const ended = promise.then(
    () => true,
    () => true,
  );
  for (let i = 1; i <= 400; i++) {
    if (await Promise.race([ended, turns(20).then(() => false)])) break;
    if (i % 10 === 0) await rig.clock.advance(1_000);
  }
  return promise;
}

export async function createRig(options: { start?: boolean } = {}): Promise<Rig> {
  const clock = manualClock();
  const rig = assemble({ home: temporary(), clock, toy: createToy(clock) });
  if (options.start !== false) await settle(rig, rig.engine.start());
  return rig;
}

export const box = (name: string, spec: Record<string, unknown> = { size: 1 }, metadata: Record<string, unknown> = {}): string =>
  JSON.stringify({ apiVersion: "beige.dev/v1", kind: "Box", metadata: { name, ...metadata }, spec });

export const file = (name: string, ...documents: readonly string[]): ManifestFile => ({
  name,
  folder: "/stack",
  text: documents.join("\n---\n"),
  vars: {},
  files: {},
});

export type Applied = {
  readonly events: readonly ApplyEvent[];
  readonly end: Extract<ApplyEvent, { type: "end" }>;
  readonly plan: Extract<ApplyEvent, { type: "plan" }>["plan"] | undefined;
};

/** Runs an apply to its end while time passes. */
export async function applied(rig: Rig, files: readonly ManifestFile[], more: Partial<ApplyRequest> = {}): Promise<Applied> {
  const request = { files, set: "default", dryRun: false, forceConflicts: false, prune: false, wait: true, timeoutMs: 60_000, ...more };
  const events: ApplyEvent[] = [];
  const run = async (): Promise<void> => {
    for await (const event of rig.engine.apply(request, new AbortController().signal)) events.push(event);
  };
  await settle(rig, run());
  const end = events.at(-1);
  if (end?.type !== "end") throw new Error(`an apply without an end: ${JSON.stringify(events)}`);
  return { events, end, plan: events.find((e) => e.type === "plan")?.plan };
}

export const ref = (name: string) => ({ kind: "Box", namespace: "default", name });
