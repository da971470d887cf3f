// The Sandbox port on a Docker engine, and the only file that knows dockerode.
import { randomBytes } from "node:crypto";
import type { Duplex, Readable } from "node:stream";
import Dockerode from "dockerode";
import type { Sandbox } from "../src/core/sandbox.ts";
import type { Clock, Log } from "../src/core/world.ts";
import * as answer from "./docker/answer.ts";
import { benchRows } from "./docker/bench.ts";
import { ask, LOOK_MS, passing, type AskOptions } from "./docker/ask.ts";
import { createBuilds } from "./docker/derive.ts";
import { create, inspect, list, ping, remove, short } from "./docker/containers.ts";
import { watchEvents, type EventSource } from "./docker/events.ts";
import { connect, fate, isResident } from "./docker/attach.ts";
import { dial } from "./docker/dial.ts";
import { checkWords, exec, logs } from "./docker/exec.ts";
import { messageOf } from "./docker/failure.ts";
import { createLook, type Look } from "./docker/look.ts";
import { createParsed } from "./docker/parsed.ts";
import { limits } from "./docker/shape.ts";
import type { Door, Engine } from "./docker/words.ts";
import { createResident } from "./resident.ts";
import type { Carrier } from "./resident/greet.ts";
import type { KeptOptions } from "./resident/kept.ts";

const STOP_SLACK_MS = 30_000;
const EVENTS = [
  "create",
  "start",
  "die",
  "stop",
  "pause",
  "unpause",
  "rename",
  "destroy",
  "oom",
  "update",
  "restart",
  "connect",
  "disconnect",
];

export interface DockerOptions {
  readonly socketPath: string;
  /** Absolute host path of the guest binary. */
  readonly guest: string;
  /** Grows with every start of a gateway on this store: supervisors refuse an older one. */
  readonly epoch: number;
  /** For commands that outlive the gateway. */
  readonly kept?: KeptOptions;
  readonly clock: Clock;
  readonly log: Log;
  /** For tests: whether supervisors may dial, and what stands between them and this gateway. */
  readonly carriers?: { readonly dial: boolean; readonly between: (carrier: Carrier, kind: "attach" | "dial") => Carrier };
}

/** A name may hold slashes; whatever else it holds stays a part of the path. */
const segments = (name: string): string => name.split("/").map(encodeURIComponent).join("/");

function openDoor(socketPath: string, look: Look): Door {
  const docker = new Dockerode({ socketPath });
  const at = (id: string): Dockerode.Container => docker.getContainer(id);
  // The types of dockerode know `abortSignal` in some calls only; it is taken off before anything is sent in all of them.
  const untyped = docker as unknown as { info(o: object): Promise<unknown>; getEvents(o: object): Promise<Readable> };
  const looked = createParsed(look);
  return {
    info: async (abortSignal) => answer.info(await untyped.info({ abortSignal })),
    list: (label, signal) => {
      const filters = encodeURIComponent(JSON.stringify({ label: [label] }));
      return looked({ path: `/containers/json?all=true&filters=${filters}`, read: answer.listed }, signal);
    },
    inspect: (id, signal) => looked({ path: `/containers/${segments(id)}/json`, read: (raw) => answer.inspected(raw, id) }, signal),
    image: (ref, signal) => looked({ path: `/images/${segments(ref)}/json`, read: answer.image }, signal),
    create: async (options, abortSignal) => answer.id((await docker.createContainer({ ...options, abortSignal })).id),
    start: async (id, abortSignal) => void (await at(id).start({ abortSignal })),
    stop: async (id, t, abortSignal) => void (await at(id).stop({ t, abortSignal })),
    unpause: async (id, abortSignal) => void (await at(id).unpause({ abortSignal })),
    rename: async (id, name, abortSignal) => void (await at(id).rename({ name, abortSignal })),
    update: async (id, wanted, abortSignal) => void (await at(id).update({ ...wanted, abortSignal })),
    remove: async (id, abortSignal) => void (await at(id).remove({ force: true, v: true, abortSignal })),
    output: (id, lines, signal) => look.get(`/containers/${segments(id)}/logs?stdout=1&stderr=1&tail=${lines}`, signal),
    written: async (id, signal) =>
      answer.written(JSON.parse((await look.get(`/containers/${segments(id)}/json?size=true`, signal)).toString()) as unknown),
    commit: async (container, { repo, tag, config }, abortSignal) =>
      void (await at(container).commit({ _query: { container, repo, tag }, _body: config, abortSignal })),
    removeImage: async (ref, abortSignal) => void (await docker.getImage(ref).remove({ abortSignal })),
    prepare: async (id, options, abortSignal) => answer.id((await at(id).exec({ ...options, abortSignal })).id),
    run: (prepared, abortSignal) => docker.getExec(prepared).start({ hijack: true, stdin: true, abortSignal }),
    attach: async (id, abortSignal) =>
      (await at(id).attach({ stream: true, stdin: true, stdout: true, stderr: true, hijack: true, abortSignal })) as Duplex,
    events: (query, abortSignal) => untyped.getEvents({ ...query, abortSignal }),
  };
}

function eventSource(engine: Engine): EventSource {
  const filters = { type: ["container", "network"], event: EVENTS };
  return {
    // The stream lives as long as the caller's signal, the request only until it is answered.
    open: (since, signal) =>
      ask(engine, "open its event stream", () => engine.door.events({ filters, ...(since === undefined ? {} : { since }) }, signal), {
        signal,
      }),
    ping: async (signal) => {
      await ping(engine, signal);
    },
    labels: async (id) => (await inspect(engine, id))?.spec.labels ?? {},
  };
}

/** An engine that says that it is already so. */
const unlessNotPaused = (error: unknown): void => {
  if (!messageOf(error).includes("is not paused")) throw error;
};

export function createDocker(options: DockerOptions): Sandbox {
  const { socketPath, clock, log } = options;
  const look = createLook(socketPath);
  const engine: Engine = { door: openDoor(socketPath, look), socketPath, clock, log, images: new Map(), resident: new Map() };
  const { door } = engine;
  const between = options.carriers?.between ?? ((carrier: Carrier) => carrier);
  const resident = createResident({
    connect: async (id, signal) => between(await connect(engine, id, signal), "attach"),
    dial: async (id, say, signal) => {
      const carrier = options.carriers?.dial === false ? undefined : await dial(engine, id, say, signal);
      return carrier === undefined ? undefined : between(carrier, "dial");
    },
    fate: (id) => fate(engine, id),
    epoch: options.epoch,
    nonce: () => randomBytes(16),
    ...(options.kept === undefined ? {} : { kept: options.kept }),
    clock,
    log,
  });
  const change = (id: string, doing: string, run: (s: AbortSignal) => Promise<void>, limit: AskOptions): Promise<void> =>
    ask(engine, `${doing} container ${short(id)}`, run, limit);
  return {
    ping: (signal) => ping(engine, signal),
    list: (store, signal) => list(engine, store, signal),
    inspect: (id, signal) => inspect(engine, id, signal),
    image: async (ref, signal) =>
      (await ask(engine, `inspect image ${ref}`, (s) => door.image(ref, s).catch(passing(404)), { signal, limitMs: LOOK_MS }))?.Id,
    create: (spec, signal) => create(engine, spec, signal),
    start: (id, signal) => change(id, "start", (s) => door.start(id, s).catch(passing(304)), { signal }),
    stop: (id, graceMs, signal) =>
      change(id, "stop", (s) => door.stop(id, Math.ceil(graceMs / 1000), s).catch(passing(304, 404)), {
        signal,
        limitMs: graceMs + STOP_SLACK_MS,
      }),
    unpause: (id, signal) => change(id, "unpause", (s) => door.unpause(id, s).catch(unlessNotPaused), { signal }),
    rename: (id, name, signal) => change(id, "rename", (s) => door.rename(id, name, s), { signal }),
    update: (id, wanted, signal) => change(id, "update", (s) => door.update(id, limits(wanted), s), { signal }),
    remove: async (id, signal) => {
      await remove(engine, id, signal);
      resident.drop(id);
    },
    exec: async (id, request, signal) => {
      checkWords(request);
      return (await isResident(engine, id, signal)) ? resident.exec(id, request, signal) : exec(engine, id, request, signal);
    },
    rejoin: async (id, key, signal) => ((await isResident(engine, id, signal)) ? resident.rejoin(id, key, signal) : undefined),
    checks: async (id, signal) => {
      const look = { signal, limitMs: LOOK_MS };
      const [info, host] = await Promise.all([
        ask(engine, `inspect container ${short(id)}`, (s) => door.inspect(id, s), look),
        ask(engine, "say what it is", (s) => door.info(s), look),
      ]);
      return benchRows(info, host);
    },
    lacks: () => engine.facts?.lacks ?? [],
    builds: createBuilds(engine),
    logs: (id, lines, signal) => logs(engine, id, { lines, signal }),
    watch: (on, signal) => watchEvents(eventSource(engine), clock, on, signal),
    close() {
      resident.close();
      look.close();
    },
    guest: () => options.guest,
  };
}
