// Builds an image in a container of its own: base and packages, with limits, without mounts and secrets. The container is the only
// state of a build, so that any gateway goes on with it.
import { BeigeError } from "../../src/core/errors.ts";
import { buildName, DERIVED_LABEL, readDerived, type Derived } from "../../src/core/packages.ts";
import { LABEL, type BuildSeen, type ImageBuild, type ImageBuilds } from "../../src/core/sandbox.ts";
import { ask, LOOK_MS, passing } from "./ask.ts";
import { remove, short } from "./containers.ts";
import { doingOf, NO_MANAGER, recipe, tailOf } from "./derivescript.ts";
import { statusOf } from "./failure.ts";
import { createDemux } from "./frames.ts";
import { SECCOMP } from "./seccomp.ts";
import type { Engine, ImageConfig, Inspected } from "./words.ts";

const MEMORY_BYTES = 2 * 2 ** 30;
/** What packages may add to their base. */
const DISK_BYTES = 8 * 2 ** 30;
const LINES = 60;
/** A large layer takes its time; an action has 180 s. */
const COMMIT_MS = 170_000;
/** What package managers and the scripts of packages need: owners, modes, other users, and capabilities of files. */
const CAPABILITIES = ["CHOWN", "DAC_OVERRIDE", "FOWNER", "FSETID", "KILL", "SETFCAP", "SETGID", "SETUID", "SYS_CHROOT"];
/** Labels of a build that are not its image's: a container that a person makes of that image is nobody's. */
const OWN = [LABEL.store, LABEL.kind, LABEL.uid];
const OURS = "beige.dev/";

function hostConfig(network: ImageBuild["network"]): object {
  return {
    Memory: MEMORY_BYTES,
    MemorySwap: MEMORY_BYTES,
    NanoCpus: 2e9,
    PidsLimit: 512,
    CapDrop: ["ALL"],
    CapAdd: CAPABILITIES,
    SecurityOpt: ["no-new-privileges", `seccomp=${SECCOMP}`],
    Privileged: false,
    ReadonlyRootfs: false,
    // Nothing of it stays in the image.
    Tmpfs: { "/tmp": "rw,nosuid,nodev,exec,size=536870912" },
    Ulimits: [
      { Name: "nofile", Soft: 4096, Hard: 4096 },
      { Name: "core", Soft: 0, Hard: 0 },
    ],
    Init: false,
    NetworkMode: network === "none" ? "none" : "bridge",
    IpcMode: "private",
    LogConfig: { Type: "json-file", Config: { "max-size": "1m", "max-file": "1" } },
    RestartPolicy: { Name: "no", MaximumRetryCount: 0 },
  };
}

/** No variables and no user but where the base has one: what a container has besides its image's, the new image would get. */
export function buildOptions(build: ImageBuild, base: ImageConfig): Readonly<Record<string, unknown>> {
  const { ref, packages, proxy, limitMs } = build;
  const shell = ["/bin/sh"];
  const entry = (base.Entrypoint ?? []).length > 0;
  const words = recipe(packages, { limitMs, ...(proxy === undefined ? {} : { proxy }) });
  return {
    name: buildName(ref),
    Image: build.base,
    // Where the base has no entry point, its image has none either.
    Entrypoint: entry ? shell : [],
    Cmd: entry ? words : [...shell, ...words],
    ...((base.User ?? "") === "" ? {} : { User: "0:0" }),
    Labels: { ...build.labels, [DERIVED_LABEL]: JSON.stringify({ base: build.base, packages }) },
    Tty: false,
    OpenStdin: false,
    HostConfig: hostConfig(build.network),
  };
}

/** The base's own configuration, and of our labels only what it was built of: neither the build's nor what a base says. */
export function imageConfig(base: ImageConfig, derived: Derived): ImageConfig {
  const said = Object.keys(base.Labels ?? {}).filter((name) => name.startsWith(OURS));
  const none = Object.fromEntries([...OWN, ...said].map((name) => [name, ""]));
  return { ...base, Labels: { ...base.Labels, ...none, [DERIVED_LABEL]: JSON.stringify(derived) } };
}

/** Where packages put what they bring: in a volume it would not come into the image. */
const PLACES = ["/bin", "/etc", "/lib", "/opt", "/sbin", "/usr", "/var/lib"];

function checkVolumes({ Volumes }: ImageConfig, base: string): void {
  const places = Object.keys(Volumes ?? {}).map((path) => `${path.replace(/\/+$/, "")}/`);
  const lost = places.find((path) => PLACES.some((place) => `${place}/`.startsWith(path)));
  if (lost === undefined) return;
  throw new BeigeError("invalid", `image ${base.slice(0, 19)} has ${lost.slice(0, -1) || "/"} in a volume, where packages would be lost`, {
    hint: "take an image without that volume, or remove sandbox.packages",
  });
}

async function configOf(engine: Engine, id: string, signal?: AbortSignal): Promise<ImageConfig> {
  const found = await ask(engine, `inspect image ${id}`, (s) => engine.door.image(id, s), { signal, limitMs: LOOK_MS });
  return found.Config ?? {};
}

/** By name: whoever's it is. Throws `conflict` for a container that builds nothing. */
async function find(engine: Engine, ref: string, signal?: AbortSignal): Promise<Inspected | undefined> {
  const name = buildName(ref);
  const look = { signal, limitMs: LOOK_MS };
  const info = await ask(engine, `inspect container ${name}`, (s) => engine.door.inspect(name, s).catch(passing(404)), look);
  if (info !== undefined && readDerived(info.Config.Labels?.[DERIVED_LABEL]) === undefined)
    throw new BeigeError("conflict", `container ${name} is no build of ${ref}`, { hint: `docker rm ${name}` });
  return info;
}

async function outputOf(engine: Engine, id: string, signal?: AbortSignal): Promise<string> {
  const bytes = await ask(engine, `read the output of ${short(id)}`, (s) => engine.door.output(id, LINES, s), { signal, limitMs: LOOK_MS });
  const pieces = createDemux()(bytes);
  return Buffer.concat(pieces.map((piece) => piece.data)).toString();
}

/** Nearly all of the time is as good as all of it. */
const wasLate = ({ State: { StartedAt, FinishedAt } }: Inspected, limitMs: number): boolean =>
  Date.parse(FinishedAt) - Date.parse(StartedAt) > limitMs * 0.95;

function whyFailed(info: Inspected, output: string): string {
  const { ExitCode: code, OOMKilled: oom, Error: error } = info.State;
  if (error !== "") return error.replaceAll(/\s+/g, " ").slice(0, 400);
  const words = info.Config.Cmd ?? [];
  const limitS = Number(words[words.indexOf("beige-build") + 2]);
  if (wasLate(info, limitS * 1000)) return `it took longer than ${limitS} s`;
  const tail = tailOf(output);
  if (code === NO_MANAGER) return tail;
  const how = oom ? `it ran out of memory (${MEMORY_BYTES / 2 ** 30} GiB)` : `exit code ${code}`;
  return tail === "" ? how : `${tail} (${how})`;
}

/** Its disk has no limit of the engine's: it is looked at while it runs, and before an image is made of it. */
async function outgrown(engine: Engine, id: string, signal?: AbortSignal): Promise<boolean> {
  const bytes = await ask(engine, `measure container ${short(id)}`, (s) => engine.door.written(id, s), { signal });
  return bytes > DISK_BYTES;
}

async function seen(engine: Engine, ref: string, signal?: AbortSignal): Promise<BuildSeen | undefined> {
  const info = await find(engine, ref, signal);
  if (info === undefined || info.State.Status === "removing") return undefined;
  const { Status: status, Running: running, Error: error, ExitCode: code, StartedAt } = info.State;
  const began = StartedAt === "" || StartedAt.startsWith("0001-") ? {} : { startedAt: StartedAt };
  const said = { id: info.Id, ...began };
  if (status === "created" && error === "") return { ...said, state: "created" };
  if ((running || code === 0) && (await outgrown(engine, info.Id, signal)))
    return { ...said, state: "failed", message: `it wrote more than ${DISK_BYTES / 2 ** 30} GiB` };
  if (!running && code === 0 && error === "") return { ...said, state: "done" };
  const output = await outputOf(engine, info.Id, signal);
  return running ? { ...said, state: "running", doing: doingOf(output) } : { ...said, state: "failed", message: whyFailed(info, output) };
}

/** The engine's own judgement, such as a shell that is not there, stays on the container; anything else is worth another try. */
async function start(engine: Engine, id: string, signal?: AbortSignal): Promise<void> {
  await ask(engine, `start container ${short(id)}`, (s) => engine.door.start(id, s).catch(passing(304)), { signal }).catch(
    async (error: unknown) => {
      const info = await engine.door.inspect(id, signal ?? new AbortController().signal).catch(() => undefined);
      if (info === undefined || info.State.Error === "") throw error;
    },
  );
}

async function begin(engine: Engine, build: ImageBuild, signal?: AbortSignal): Promise<void> {
  const known = await find(engine, build.ref, signal);
  if (known !== undefined) return known.State.Status === "created" ? start(engine, known.Id, signal) : undefined;
  const config = await configOf(engine, build.base, signal);
  checkVolumes(config, build.base);
  const options = buildOptions(build, config);
  // Somebody else was faster: then it is that one's.
  const made = await ask(engine, `create container ${buildName(build.ref)}`, (s) => engine.door.create(options, s), { signal }).catch(
    (error: unknown) => {
      if (error instanceof BeigeError && error.code === "conflict") return undefined;
      throw error;
    },
  );
  if (made !== undefined) await start(engine, made, signal);
}

async function finish(engine: Engine, ref: string, signal?: AbortSignal): Promise<void> {
  const info = await find(engine, ref, signal);
  if (info === undefined) return;
  const { Running: running, ExitCode: code } = info.State;
  const derived = readDerived(info.Config.Labels?.[DERIVED_LABEL]);
  if (running || code !== 0 || derived === undefined) throw new BeigeError("conflict", `the build of ${ref} is not done`);
  const config = imageConfig(await configOf(engine, derived.base, signal), derived);
  const [repo = "", tag = ""] = ref.split(":");
  const look = { signal, limitMs: LOOK_MS };
  // Named before a kill: a second one would leave the first without a name.
  const known = await ask(engine, `inspect image ${ref}`, (s) => engine.door.image(ref, s).catch(passing(404)), look);
  const doing = `make image ${ref} of container ${short(info.Id)}`;
  if (known === undefined)
    await ask(engine, doing, (s) => engine.door.commit(info.Id, { repo, tag, config }, s), { signal, limitMs: COMMIT_MS });
  await remove(engine, info.Id, signal);
}

/** Agents that share a build see its end at the same time: the second waits for what the first does. */
const finishing = new Map<string, Promise<void>>();

function finishOnce(engine: Engine, ref: string, signal?: AbortSignal): Promise<void> {
  const key = `${engine.socketPath} ${ref}`;
  const known = finishing.get(key);
  if (known !== undefined) return known;
  const run = finish(engine, ref, signal).finally(() => finishing.delete(key));
  finishing.set(key, run);
  return run;
}

export const createBuilds = (engine: Engine): ImageBuilds => ({
  begin: (build, signal) => begin(engine, build, signal),
  seen: (ref, signal) => seen(engine, ref, signal),
  finish: (ref, signal) => finishOnce(engine, ref, signal),
  drop: (ref, signal) =>
    ask(
      engine,
      `remove image ${ref}`,
      (s) =>
        engine.door.removeImage(ref, s).catch((error: unknown) => {
          // In use, or gone already.
          if (statusOf(error) !== 409 && statusOf(error) !== 404) throw error;
        }),
      { signal },
    ),
});
