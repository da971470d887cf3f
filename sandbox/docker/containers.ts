// Looks at containers and images, makes and removes them.
import { BeigeError } from "../../src/core/errors.ts";
import {
  LABEL,
  type EngineInfo,
  type SandboxListed,
  type SandboxSeen,
  type SandboxSpec,
  type SandboxState,
} from "../../src/core/sandbox.ts";
import { isDerived } from "../../src/core/packages.ts";
import { ask, LOOK_MS, passing } from "./ask.ts";
import { lacksOf } from "./bench.ts";
import { statusOf } from "./failure.ts";
import { createOptions, readSeen } from "./shape.ts";
import type { Engine, EngineFacts, ImageDefaults, Inspected } from "./words.ts";

/** How long a name may stay taken by a container that is going, and by one that shows no sign of it yet. */
const NAME_GOING_MS = 10_000;
const NAME_HELD_MS = 1500;
const RETRY_MS = 50;
const REMOVE_MS = 15_000;
const IMAGES_KEPT = 64;
const NO_DEFAULTS: ImageDefaults = { env: [], labels: {}, volumes: [] };
const NO_FACTS: EngineFacts = { defaultRuntime: "runc", swapLimit: true };

export const short = (id: string): string => id.slice(0, 12);

export async function ping(engine: Engine, signal?: AbortSignal): Promise<EngineInfo> {
  const info = await ask(engine, "say what it is", (s) => engine.door.info(s), { signal, limitMs: LOOK_MS });
  engine.facts = { defaultRuntime: info.DefaultRuntime ?? "runc", swapLimit: info.SwapLimit ?? true, lacks: lacksOf(info) };
  return {
    version: info.ServerVersion ?? "",
    liveRestore: info.LiveRestoreEnabled ?? false,
    cgroup: info.CgroupVersion === "2" ? 2 : 1,
    rootless: (info.SecurityOptions ?? []).some((option) => option.startsWith("name=rootless")),
  };
}

export async function list(engine: Engine, store: string, signal?: AbortSignal): Promise<readonly SandboxListed[]> {
  const found = await ask(engine, "list containers", (s) => engine.door.list(`${LABEL.store}=${store}`, s), { signal, limitMs: LOOK_MS });
  return found
    .filter((one) => one.Labels?.[LABEL.store] === store)
    .map((one) => ({
      id: one.Id,
      name: (one.Names?.[0] ?? "").replace(/^\//, ""),
      labels: one.Labels ?? {},
      state: one.State as SandboxState,
    }));
}

async function imageDefaults(engine: Engine, ref: string, signal?: AbortSignal): Promise<ImageDefaults | undefined> {
  const kept = engine.images.get(ref);
  if (kept !== undefined) return kept;
  const info = await ask(engine, `inspect image ${ref}`, (s) => engine.door.image(ref, s).catch(passing(404)), {
    signal,
    limitMs: LOOK_MS,
  });
  if (info === undefined) return undefined;
  const { Env, Labels, Volumes } = info.Config ?? {};
  const defaults = { env: Env ?? [], labels: Labels ?? {}, volumes: Object.keys(Volumes ?? {}) };
  if (engine.images.size >= IMAGES_KEPT) engine.images.clear();
  engine.images.set(info.Id, defaults);
  return defaults;
}

interface Read {
  readonly image: ImageDefaults;
  readonly facts: EngineFacts;
  readonly seen: SandboxSeen;
}

/** What was read from answers that the engine has not changed since. */
const readings = new WeakMap<Inspected, Read>();

function seenOf(info: Inspected, image: ImageDefaults, facts: EngineFacts): SandboxSeen {
  const known = readings.get(info);
  if (known !== undefined && known.image === image && known.facts === facts) return known.seen;
  const seen = readSeen(info, image, facts);
  readings.set(info, { image, facts, seen });
  return seen;
}

export async function inspect(engine: Engine, id: string, signal?: AbortSignal): Promise<SandboxSeen | undefined> {
  const info = await ask(engine, `inspect container ${short(id)}`, (s) => engine.door.inspect(id, s).catch(passing(404)), {
    signal,
    limitMs: LOOK_MS,
  });
  if (info === undefined) return undefined;
  if (engine.facts === undefined) await ping(engine, signal);
  // The image may be gone; what the container took from it then counts as its own.
  const image = (await imageDefaults(engine, info.Image, signal)) ?? NO_DEFAULTS;
  return seenOf(info, image, engine.facts ?? NO_FACTS);
}

/** Whether the holder of a name is on its way out. */
async function isGoing(engine: Engine, name: string, signal?: AbortSignal): Promise<boolean> {
  const holder = await inspect(engine, name, signal);
  return holder === undefined || holder.state === "removing" || holder.state === "dead";
}

export async function create(engine: Engine, spec: SandboxSpec, signal?: AbortSignal): Promise<string> {
  const image = await imageDefaults(engine, spec.image, signal);
  if (image === undefined) {
    throw new BeigeError("not_found", `image ${spec.image} is not on this machine`, {
      hint: isDerived(spec.image)
        ? "it is built at the next look"
        : spec.image.startsWith("beige-")
          ? "sandbox/engine.sh images"
          : `docker pull ${spec.image}`,
    });
  }
  const options = createOptions(spec, image);
  const began = engine.clock.monotonic();
  for (;;) {
    try {
      return await ask(engine, `create container ${spec.name}`, (s) => engine.door.create(options, s), { signal });
    } catch (error) {
      if (!(error instanceof BeigeError) || error.code !== "conflict") throw error;
      const limitMs = (await isGoing(engine, spec.name, signal)) ? NAME_GOING_MS : NAME_HELD_MS;
      if (engine.clock.monotonic() - began > limitMs) throw nameTaken(spec.name, error);
      await engine.clock.sleep(RETRY_MS, signal);
    }
  }
}

const nameTaken = (name: string, cause: unknown): BeigeError =>
  new BeigeError("conflict", `the name ${name} belongs to another container`, { hint: "beige orphans says whose it is", cause });

/** Somebody else may be removing it too: 409 until it is gone. */
export async function remove(engine: Engine, id: string, signal?: AbortSignal): Promise<void> {
  const began = engine.clock.monotonic();
  const attempt = async (s: AbortSignal): Promise<boolean> => {
    try {
      await engine.door.remove(id, s);
      return true;
    } catch (error) {
      if (statusOf(error) === 409) return false;
      passing(404)(error);
      return true;
    }
  };
  while (!(await ask(engine, `remove container ${short(id)}`, attempt, { signal }))) {
    if (engine.clock.monotonic() - began > REMOVE_MS) {
      throw new BeigeError("unavailable", `docker has not removed container ${short(id)} within ${REMOVE_MS / 1000} s`);
    }
    await engine.clock.sleep(RETRY_MS, signal);
  }
}
