// The port to whatever isolates agents. Docker is behind it today; a resident supervisor, bwrap or a remote engine fit too.

export interface Mount {
  readonly source: string;
  readonly target: string;
  readonly readOnly: boolean;
}

/** Everything about a container that a manifest or the gateway decides. Observation answers in the same shape, so that drift is a diff of two of these. */
export interface SandboxSpec {
  readonly name: string;
  readonly labels: Readonly<Record<string, string>>;
  /** Reference as wanted, such as beige-base:1. */
  readonly image: string;
  readonly user: { readonly uid: number; readonly gid: number };
  readonly env: Readonly<Record<string, string>>;
  /** Sorted by target. */
  readonly mounts: readonly Mount[];
  readonly memoryBytes: number;
  readonly cpus: number;
  readonly pids: number;
  readonly tmpBytes: number;
  readonly network: "none" | "open";
  readonly profile: "strict" | "packages";
  readonly runtime?: string;
  /** What isolates it; docker when absent. */
  readonly backend?: "bwrap";
  /** Observation only: what of the fixed hardening was changed by hand, such as `privileged`; absent when all is as created. */
  readonly hardening?: readonly string[];
}

export type SandboxState = "created" | "running" | "paused" | "restarting" | "removing" | "exited" | "dead";

export interface SandboxSeen {
  /** Full container id. */
  readonly id: string;
  readonly state: SandboxState;
  /** Id of the image that it was made from. */
  readonly imageId: string;
  readonly spec: SandboxSpec;
  /** RFC 3339; absent before the first start. */
  readonly startedAt?: string;
  readonly exitCode?: number;
  readonly oomKilled: boolean;
}

/** Enough of a container to tell whose it is: cheap to list. */
export interface SandboxListed {
  readonly id: string;
  readonly name: string;
  readonly labels: Readonly<Record<string, string>>;
  readonly state: SandboxState;
}

export interface EngineInfo {
  readonly version: string;
  readonly liveRestore: boolean;
  readonly cgroup: 1 | 2;
  readonly rootless: boolean;
  /** What this machine cannot give to any sandbox. */
  readonly lacks?: readonly string[];
}

export type ExecExit =
  | { readonly kind: "code"; readonly code: number }
  | { readonly kind: "signal"; readonly signal: number }
  | { readonly kind: "timeout" }
  | { readonly kind: "cancelled" }
  | { readonly kind: "oom" }
  /** The carrier broke before the exit was known: never a success. */
  | { readonly kind: "lost"; readonly reason: string };

/** Size of a terminal, in characters. */
export interface ExecTerminal {
  readonly rows: number;
  readonly columns: number;
}

export interface ExecRequest {
  /** Program and arguments; the guest finds the program on PATH. */
  readonly command: readonly string[];
  readonly cwd?: string;
  readonly env?: Readonly<Record<string, string>>;
  readonly timeoutMs: number;
  /** A name of the caller's by which the next gateway can take the command up again (`rejoin`). Nobody else's. */
  readonly key?: string;
  /** Whoever takes the command up again can read its standard input again from any byte. Without it a cut input makes it `lost`. */
  readonly inputKept?: boolean;
  /** With a terminal of its own: all output is stdout then. Only where the supervisor is resident. */
  readonly terminal?: ExecTerminal;
}

/** One running command. Whoever holds it reads both outputs to the end or calls `kill`. */
export interface ExecHandle {
  /**
   * Bytes in order, one chunk at a time with back-pressure. Whoever has no use for `data` any more may `free` it, once: its memory is
   * there again at once, which is much quicker where there is much output. `data` may be empty afterwards.
   */
  readonly output: AsyncIterable<{ readonly stream: "stdout" | "stderr"; readonly data: Uint8Array; readonly free?: () => void }>;
  /** Settles after the last byte of output; never rejects. */
  readonly exit: Promise<ExecExit>;
  /** Of a command that was taken up again while its standard input went on: writing goes on from this byte, up to `end`. */
  readonly inputFrom?: number;
  /** Resolves when the bytes are on their way. Rejects with `unavailable` when the command is gone. */
  write(data: Uint8Array): Promise<void>;
  /** Ends standard input. */
  end(): Promise<void>;
  /** Ends the whole process tree within a second; exit becomes `cancelled`. Idempotent. */
  kill(): void;
  /** Sends a signal (1 to 63) to the command's process group. Absent where the backend cannot. */
  signal?(number: number): void;
  resize?(size: ExecTerminal): void;
}

/** One rule of containment held against a sandbox as it is now. */
export interface SandboxCheck {
  /** Number of the rule in section 5 of the CIS benchmark for Docker; `host` for a fact of this machine. */
  readonly rule: string;
  readonly title: string;
  readonly state: "ok" | "warning";
  /** What was found, in a sentence. */
  readonly why: string;
  readonly fix?: string;
}

/** A hint that something changed; never proof. */
export interface SandboxHint {
  readonly id: string;
  readonly labels: Readonly<Record<string, string>>;
  readonly action: string;
}

/** An image that is to be made: a base and packages from its own package manager. */
export interface ImageBuild {
  /** Name of the image. */
  readonly ref: string;
  /** Id of the image that it is built upon. */
  readonly base: string;
  readonly packages: readonly string[];
  /** Of the container that builds: beige.dev/kind is ImageBuild, beige.dev/uid who began it. Not the image's. */
  readonly labels: Readonly<Record<string, string>>;
  readonly network: "default" | "none";
  readonly proxy?: string;
  /** It ends itself after this, whoever is there. */
  readonly limitMs: number;
}

/** A build as the engine shows it; `startedAt` RFC 3339. */
export type BuildSeen = { readonly id: string; readonly startedAt?: string } & (
  | { readonly state: "created" }
  | { readonly state: "done" }
  | { readonly state: "running"; readonly doing: string }
  | { readonly state: "failed"; readonly message: string }
);

/** Makes images in containers of their own, which outlive the gateway: each step can be taken by any later one. */
export interface ImageBuilds {
  /** Begins it; one that has begun, also another gateway's, is a success. Refusals of the engine show as `failed`. */
  begin(build: ImageBuild, signal?: AbortSignal): Promise<void>;
  seen(ref: string, signal?: AbortSignal): Promise<BuildSeen | undefined>;
  /** Names the image of a build that is done, and removes its container. */
  finish(ref: string, signal?: AbortSignal): Promise<void>;
  /** Removes an image, unless a container has it. */
  drop(ref: string, signal?: AbortSignal): Promise<void>;
}

/**
 * Every method throws BeigeError: `unavailable` when the engine does not answer, `not_found` for an absent container or image.
 * Every wait has a limit of its own besides `signal`.
 */
export interface Sandbox {
  ping(signal?: AbortSignal): Promise<EngineInfo>;
  /** Containers with label beige.dev/store = store, running or not. Exact match. */
  list(store: string, signal?: AbortSignal): Promise<readonly SandboxListed[]>;
  inspect(id: string, signal?: AbortSignal): Promise<SandboxSeen | undefined>;
  /** Id of a present image, or undefined. */
  image(ref: string, signal?: AbortSignal, backend?: SandboxSpec["backend"]): Promise<string | undefined>;
  /** Answers the id. A name that is just being freed is waited for (bounded). `conflict` when the name is somebody else's. */
  create(spec: SandboxSpec, signal?: AbortSignal): Promise<string>;
  /** A started container is a success. */
  start(id: string, signal?: AbortSignal): Promise<void>;
  /** A stopped or absent container is a success. */
  stop(id: string, graceMs: number, signal?: AbortSignal): Promise<void>;
  unpause(id: string, signal?: AbortSignal): Promise<void>;
  rename(id: string, name: string, signal?: AbortSignal): Promise<void>;
  update(id: string, limits: Pick<SandboxSpec, "memoryBytes" | "cpus" | "pids">, signal?: AbortSignal): Promise<void>;
  /** Forced; an absent container is a success. Returns when it is gone. */
  remove(id: string, signal?: AbortSignal): Promise<void>;
  exec(id: string, request: ExecRequest, signal?: AbortSignal): Promise<ExecHandle>;
  /**
   * The command that an earlier gateway started under this key: all of its output from the first byte, and its exit, `lost` when
   * the sandbox no longer has it. Undefined for a key that nobody started or that was rejoined already. Only soon after the start.
   */
  rejoin?(id: string, key: string, signal?: AbortSignal): Promise<ExecHandle | undefined>;
  /** The rules of containment, held against this container and its host. Throws `not_found`. */
  checks?(id: string, signal?: AbortSignal): Promise<readonly SandboxCheck[]>;
  /** What the host of this container cannot give to any, in a few words each; as last seen, empty before. */
  lacks?(id: string): readonly string[];
  /** Absent where sandboxes have no images that could be built. */
  readonly builds?: ImageBuilds;
  /** Last lines of the container's own log, and what its PID 1 said. */
  logs(id: string, lines: number, signal?: AbortSignal): Promise<string>;
  /** Calls `hint` until aborted; reconnects by itself, and calls `relist` after each (re)connect and `down` when the engine stops answering. */
  watch(on: { hint(h: SandboxHint): void; relist(): void; down(error: Error): void }, signal: AbortSignal): Promise<void>;
  /** Lets go of every connection; commands that run go on without us. */
  close?(): void;
  /** Absolute host path of the guest binary that is mounted into every container. */
  guest(): string;
}

export const LABEL = {
  store: "beige.dev/store",
  uid: "beige.dev/uid",
  kind: "beige.dev/kind",
  name: "beige.dev/name",
  namespace: "beige.dev/namespace",
  generation: "beige.dev/generation",
  specHash: "beige.dev/spec-hash",
  hashVersion: "beige.dev/hash-version",
  /** Hash of what the gateway itself puts into a container: a newer beige shows the difference and never recreates for it. */
  gatewayHash: "beige.dev/gateway-hash",
  /** The restart that it was made for. */
  restart: "beige.dev/restarted-at",
} as const;
