// A container engine in memory that behaves as Docker does: states, names, labels, images, hints, and silence when it is down.
import { BeigeError } from "../../src/core/errors.ts";
import type {
  ExecExit,
  ExecHandle,
  ExecRequest,
  Sandbox,
  SandboxHint,
  SandboxSeen,
  SandboxSpec,
  SandboxState,
} from "../../src/core/sandbox.ts";
import { LABEL } from "../../src/core/sandbox.ts";
import type { Clock } from "../../src/core/world.ts";
import { FakeBuilds } from "./builds.ts";
import { Faults } from "./faults.ts";

/** A container as the test may see and change it. */
export interface FakeBox {
  readonly id: string;
  readonly imageId: string;
  spec: SandboxSpec;
  state: SandboxState;
  startedAt?: string;
  exitCode?: number;
  oomKilled: boolean;
  /** Its PID 1 says nothing. */
  mute: boolean;
}

type Watcher = { hint(h: SandboxHint): void; relist(): void; down(error: Error): void };

/** What a command does in the fake: no shell, one answer. */
export type FakeCommand = (
  request: ExecRequest,
  box: FakeBox,
) => { readonly stdout?: string; readonly stderr?: string; readonly exit?: ExecExit };

const hex64 = (n: number): string => {
  const word = (n * 2_654_435_761) % 4_294_967_296;
  return word.toString(16).padStart(8, "0").repeat(7) + n.toString(16).padStart(8, "0");
};

export class FakeEngine implements Sandbox {
  readonly boxes = new Map<string, FakeBox>();
  readonly images = new Map<string, string>();
  readonly faults: Faults;
  readonly #clock: Clock;
  #made = 0;
  #down = false;
  readonly #watchers = new Set<Watcher>();
  /** A container that starts ends at once. */
  crashing: (spec: SandboxSpec) => boolean = () => false;
  /** Whether a container that starts says hello. */
  silent: (spec: SandboxSpec) => boolean = () => false;
  /** Refuses to make a container, as a real engine refuses a bad mount. */
  refuses: (spec: SandboxSpec) => BeigeError | undefined = () => undefined;
  /** Ids of containers that the engine lost track of when it crashed: it can never start them. */
  readonly lost = new Set<string>();
  readonly builds = new FakeBuilds(this);
  command: FakeCommand = (request) => ({ stdout: `${request.command.join(" ")}\n` });

  constructor(clock: Clock, faults = new Faults()) {
    this.#clock = clock;
    this.faults = faults;
  }

  get down(): boolean {
    return this.#down;
  }

  /** Stops answering, or answers again. */
  setDown(down: boolean): void {
    if (this.#down === down) return;
    this.#down = down;
    for (const watcher of this.#watchers) {
      if (down) watcher.down(new Error("the engine went away"));
      else watcher.relist();
    }
  }

  /** As a person does it with the engine's own command line: unasked, with a hint. */
  byHand(id: string, change: (box: FakeBox) => void, action = "update"): void {
    const box = this.boxes.get(id);
    if (box === undefined) throw new Error(`no container ${id}`);
    change(box);
    this.#hint(box, action);
  }

  killByHand(id: string): void {
    this.byHand(
      id,
      (box) => {
        box.state = "exited";
        box.exitCode = 137;
      },
      "die",
    );
  }

  removeByHand(id: string): void {
    const box = this.boxes.get(id);
    if (box === undefined) return;
    this.boxes.delete(id);
    this.#hint(box, "destroy");
  }

  named(name: string): FakeBox | undefined {
    return [...this.boxes.values()].find((box) => box.spec.name === name);
  }

  /** Containers of one object. */
  of(uid: string): readonly FakeBox[] {
    return [...this.boxes.values()].filter((box) => box.spec.labels[LABEL.uid] === uid);
  }

  /** A container of a build, which is listed as any other. */
  addBuild(spec: SandboxSpec): FakeBox {
    const startedAt = new Date(this.#clock.now()).toISOString();
    const box: FakeBox = { id: hex64(++this.#made), imageId: spec.image, spec, state: "running", oomKilled: false, mute: true, startedAt };
    this.boxes.set(box.id, box);
    this.#hint(box, "start");
    return box;
  }

  #hint(box: FakeBox, action: string): void {
    if (this.#down) return;
    for (const watcher of this.#watchers) watcher.hint({ id: box.id, labels: box.spec.labels, action });
  }

  #awake(signal?: AbortSignal): void {
    signal?.throwIfAborted();
    if (this.#down) throw new BeigeError("unavailable", "the container engine does not answer", { hint: "sandbox/engine.sh" });
  }

  #get(id: string): FakeBox {
    const box = this.boxes.get(id);
    if (box === undefined) throw new BeigeError("not_found", `container ${id.slice(0, 12)} does not exist`);
    return box;
  }

  /** The engine answers in a later turn, as any real one. */
  async #effect<T>(name: string, signal: AbortSignal | undefined, land: () => T): Promise<T> {
    await Promise.resolve();
    this.#awake(signal);
    return this.faults.effect(name, land);
  }

  async ping(signal?: AbortSignal) {
    await Promise.resolve();
    this.#awake(signal);
    return { version: "fake", liveRestore: false, cgroup: 2, rootless: false } as const;
  }

  async list(store: string, signal?: AbortSignal) {
    await Promise.resolve();
    this.#awake(signal);
    return [...this.boxes.values()]
      .filter((box) => box.spec.labels[LABEL.store] === store)
      .map(({ id, spec, state }) => ({ id, name: spec.name, labels: spec.labels, state }));
  }

  async inspect(id: string, signal?: AbortSignal): Promise<SandboxSeen | undefined> {
    await Promise.resolve();
    this.#awake(signal);
    const box = this.boxes.get(id) ?? this.named(id);
    if (box === undefined) return undefined;
    const { mute: _mute, startedAt, exitCode, ...rest } = box;
    const ended = exitCode === undefined || box.state === "running" ? {} : { exitCode };
    return structuredClone({ ...rest, ...(startedAt === undefined ? {} : { startedAt }), ...ended });
  }

  async image(ref: string, signal?: AbortSignal) {
    await Promise.resolve();
    this.#awake(signal);
    return this.images.get(ref);
  }

  create(spec: SandboxSpec, signal?: AbortSignal): Promise<string> {
    return this.#effect(`create ${spec.name}`, signal, () => {
      const refused = this.refuses(spec);
      if (refused !== undefined) throw refused;
      const imageId = this.images.get(spec.image);
      if (imageId === undefined)
        throw new BeigeError("not_found", `image ${spec.image} is not on the engine`, { hint: `docker pull ${spec.image}` });
      if (this.named(spec.name) !== undefined) throw new BeigeError("conflict", `container name ${spec.name} is taken`);
      const id = hex64(++this.#made);
      const box: FakeBox = { id, imageId, spec: structuredClone(spec), state: "created", oomKilled: false, mute: false };
      this.boxes.set(id, box);
      this.#hint(box, "create");
      return id;
    });
  }

  start(id: string, signal?: AbortSignal): Promise<void> {
    return this.#effect(`start ${this.boxes.get(id)?.spec.name ?? id}`, signal, () => {
      const box = this.#get(id);
      if (this.lost.has(id)) throw new BeigeError("unavailable", `task ${id} already exists`);
      if (box.state === "running") return;
      if (box.state === "paused") throw new BeigeError("unavailable", `container ${box.spec.name} is paused`);
      box.state = "running";
      box.startedAt = new Date(this.#clock.now()).toISOString();
      delete box.exitCode;
      box.mute = this.silent(box.spec);
      this.#hint(box, "start");
      if (!this.crashing(box.spec)) return;
      box.state = "exited";
      box.exitCode = 1;
      this.#hint(box, "die");
    });
  }

  stop(id: string, _graceMs: number, signal?: AbortSignal): Promise<void> {
    return this.#effect(`stop ${this.boxes.get(id)?.spec.name ?? id}`, signal, () => {
      const box = this.boxes.get(id);
      if (box === undefined || (box.state !== "running" && box.state !== "paused")) return;
      box.state = "exited";
      box.exitCode = 0;
      this.#hint(box, "die");
    });
  }

  unpause(id: string, signal?: AbortSignal): Promise<void> {
    return this.#effect(`unpause ${id.slice(0, 12)}`, signal, () => {
      const box = this.#get(id);
      if (box.state === "paused") box.state = "running";
      this.#hint(box, "unpause");
    });
  }

  rename(id: string, name: string, signal?: AbortSignal): Promise<void> {
    return this.#effect(`rename ${name}`, signal, () => {
      const box = this.#get(id);
      const other = this.named(name);
      if (other !== undefined && other.id !== id) throw new BeigeError("conflict", `container name ${name} is taken`);
      box.spec = { ...box.spec, name };
      this.#hint(box, "rename");
    });
  }

  update(id: string, limits: Pick<SandboxSpec, "memoryBytes" | "cpus" | "pids">, signal?: AbortSignal): Promise<void> {
    return this.#effect(`update ${id.slice(0, 12)}`, signal, () => {
      const box = this.#get(id);
      const { memoryBytes, cpus, pids } = limits;
      box.spec = { ...box.spec, memoryBytes, cpus, pids };
      this.#hint(box, "update");
    });
  }

  remove(id: string, signal?: AbortSignal): Promise<void> {
    return this.#effect(`remove ${this.boxes.get(id)?.spec.name ?? id}`, signal, () => {
      const box = this.boxes.get(id);
      if (box === undefined) return;
      this.boxes.delete(id);
      this.#hint(box, "destroy");
    });
  }

  async exec(id: string, request: ExecRequest, signal?: AbortSignal): Promise<ExecHandle> {
    await Promise.resolve();
    this.#awake(signal);
    const box = this.#get(id);
    if (box.state !== "running")
      throw new BeigeError("unavailable", `container ${box.spec.name} is ${box.state}`, { hint: `docker start ${box.spec.name}` });
    const answer = this.command(request, box);
    const parts = [
      ...(answer.stdout === undefined ? [] : [{ stream: "stdout" as const, data: new TextEncoder().encode(answer.stdout) }]),
      ...(answer.stderr === undefined ? [] : [{ stream: "stderr" as const, data: new TextEncoder().encode(answer.stderr) }]),
    ];
    const output = (async function* () {
      yield* parts;
    })();
    return {
      output,
      exit: Promise.resolve(answer.exit ?? { kind: "code", code: 0 }),
      write: () => Promise.resolve(),
      end: () => Promise.resolve(),
      kill: () => undefined,
    };
  }

  async logs(id: string): Promise<string> {
    await Promise.resolve();
    this.#awake();
    const box = this.#get(id);
    return `state ${box.state}`;
  }

  watch(on: Watcher, signal: AbortSignal): Promise<void> {
    this.#watchers.add(on);
    if (this.#down) on.down(new Error("the engine is away"));
    else on.relist();
    return new Promise((resolve) => {
      const end = (): void => {
        this.#watchers.delete(on);
        resolve();
      };
      if (signal.aborted) end();
      else signal.addEventListener("abort", end, { once: true });
    });
  }

  guest(): string {
    return "/fake/guest";
  }
}
