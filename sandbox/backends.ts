// One Sandbox port over all that isolate: each sandbox is its own backend's, by its id, and a new one goes where its spec says.
import { BeigeError } from "../src/core/errors.ts";
import type { Sandbox } from "../src/core/sandbox.ts";
import { isBwrapId } from "./bwrap/record.ts";

export interface Backends {
  readonly docker: Sandbox;
  readonly bwrap: Sandbox;
  /** Whether a wanted sandbox needs the engine: where none does, an engine that does not answer hinders nobody. */
  readonly needsDocker: () => boolean;
}

export function createBackends({ docker, bwrap, needsDocker }: Backends): Sandbox {
  const of = (id: string): Sandbox => (isBwrapId(id) ? bwrap : docker);
  /** What the engine says, or nothing where nobody asked for it. */
  const orNothing = <T>(answer: Promise<T>, nothing: T): Promise<T> =>
    answer.catch((error: unknown) => {
      if (needsDocker() || !(error instanceof BeigeError) || error.code !== "unavailable") throw error;
      return nothing;
    });
  return {
    ping: (signal) => (needsDocker() ? docker.ping(signal) : docker.ping(signal).catch(() => bwrap.ping(signal))),
    list: async (store, signal) => {
      const [mine, theirs] = await Promise.all([bwrap.list(store, signal), orNothing(docker.list(store, signal), [])]);
      return [...theirs, ...mine];
    },
    inspect: (id, signal) => of(id).inspect(id, signal),
    image: (ref, signal, backend) => (backend === "bwrap" ? bwrap : docker).image(ref, signal),
    create: (spec, signal) => (spec.backend === "bwrap" ? bwrap : docker).create(spec, signal),
    start: (id, signal) => of(id).start(id, signal),
    stop: (id, graceMs, signal) => of(id).stop(id, graceMs, signal),
    unpause: (id, signal) => of(id).unpause(id, signal),
    rename: (id, name, signal) => of(id).rename(id, name, signal),
    update: (id, limits, signal) => of(id).update(id, limits, signal),
    remove: (id, signal) => of(id).remove(id, signal),
    exec: (id, request, signal) => of(id).exec(id, request, signal),
    rejoin: async (id, key, signal) => of(id).rejoin?.(id, key, signal),
    checks: async (id, signal) => (await of(id).checks?.(id, signal)) ?? [],
    lacks: (id) => of(id).lacks?.(id) ?? [],
    ...(docker.builds === undefined ? {} : { builds: docker.builds }),
    logs: (id, lines, signal) => of(id).logs(id, lines, signal),
    watch: async (on, signal) => {
      const down = (error: Error): void => {
        if (needsDocker()) on.down(error);
      };
      await Promise.all([docker.watch({ ...on, down }, signal), bwrap.watch({ ...on, relist: () => undefined }, signal)]);
    },
    close() {
      docker.close?.();
      bwrap.close?.();
    },
    guest: () => docker.guest(),
  };
}
