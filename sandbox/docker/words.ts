// What of the engine's own vocabulary is used here, and the door through which it is asked: one call an entry, raw answers, raw errors.
import type { Duplex, Readable } from "node:stream";
import type { Clock, Log } from "../../src/core/world.ts";
import type { Place } from "../resident/dial.ts";

type Names = Readonly<Record<string, string>>;

/** Only what this code sets or reads by name; `deviations` looks at more. */
export interface HostConfig {
  readonly [key: string]: unknown;
  readonly Memory?: number;
  readonly MemorySwap?: number;
  readonly NanoCpus?: number;
  readonly CpuQuota?: number;
  readonly CpuPeriod?: number;
  readonly PidsLimit?: number | null;
  readonly ReadonlyRootfs?: boolean;
  readonly NetworkMode?: string;
  readonly Runtime?: string;
  readonly Tmpfs?: Names | null;
  readonly MaskedPaths?: readonly string[] | null;
  readonly ReadonlyPaths?: readonly string[] | null;
}

export interface Inspected {
  readonly Id: string;
  readonly Name: string;
  readonly Image: string;
  readonly AppArmorProfile?: string;
  readonly State: {
    readonly Status: string;
    readonly Running: boolean;
    readonly Paused: boolean;
    readonly OOMKilled: boolean;
    readonly ExitCode: number;
    readonly Error: string;
    readonly StartedAt: string;
    readonly FinishedAt: string;
  };
  readonly HostConfig: HostConfig;
  readonly Mounts?: readonly {
    readonly Type: string;
    readonly Name?: string;
    readonly Source: string;
    readonly Destination: string;
    readonly RW: boolean;
  }[];
  readonly Config: {
    readonly User: string;
    readonly Env: readonly string[] | null;
    readonly Cmd: readonly string[] | null;
    readonly Entrypoint?: string | readonly string[] | null;
    readonly Image: string;
    readonly Labels: Names | null;
    readonly OpenStdin?: boolean;
  };
  readonly NetworkSettings?: { readonly Networks?: Readonly<Record<string, unknown>> | null };
}

export interface Listed {
  readonly Id: string;
  readonly Names?: readonly string[] | null;
  readonly Labels?: Names | null;
  readonly State: string;
}

export interface ImageConfig {
  readonly Env?: readonly string[] | null;
  readonly Labels?: Names | null;
  readonly Volumes?: Readonly<Record<string, unknown>> | null;
  readonly Entrypoint?: readonly string[] | null;
  readonly User?: string;
}

export interface ImageInspected {
  readonly Id: string;
  readonly Config?: ImageConfig | null;
}

export interface Info {
  readonly ServerVersion?: string;
  readonly LiveRestoreEnabled?: boolean;
  readonly CgroupVersion?: string;
  readonly SecurityOptions?: readonly string[];
  readonly DefaultRuntime?: string;
  readonly SwapLimit?: boolean;
  readonly MemoryLimit?: boolean;
  readonly PidsLimit?: boolean;
  readonly CpuCfsQuota?: boolean;
}

export interface CommitOptions {
  readonly repo: string;
  readonly tag: string;
  readonly config: ImageConfig;
}

export interface Door {
  info(signal: AbortSignal): Promise<Info>;
  list(label: string, signal: AbortSignal): Promise<readonly Listed[]>;
  inspect(id: string, signal: AbortSignal): Promise<Inspected>;
  image(ref: string, signal: AbortSignal): Promise<ImageInspected>;
  /** Answers the id. */
  create(options: Readonly<Record<string, unknown>>, signal: AbortSignal): Promise<string>;
  start(id: string, signal: AbortSignal): Promise<void>;
  stop(id: string, graceSeconds: number, signal: AbortSignal): Promise<void>;
  unpause(id: string, signal: AbortSignal): Promise<void>;
  rename(id: string, name: string, signal: AbortSignal): Promise<void>;
  update(id: string, limits: HostConfig, signal: AbortSignal): Promise<void>;
  remove(id: string, signal: AbortSignal): Promise<void>;
  /** The last lines of a container's log, in Docker's frames. */
  output(id: string, lines: number, signal: AbortSignal): Promise<Buffer>;
  /** Bytes that it has beside its image's. */
  written(id: string, signal: AbortSignal): Promise<number>;
  commit(id: string, image: CommitOptions, signal: AbortSignal): Promise<void>;
  removeImage(ref: string, signal: AbortSignal): Promise<void>;
  prepare(id: string, options: Readonly<Record<string, unknown>>, signal: AbortSignal): Promise<string>;
  /** The hijacked stream of a prepared command. */
  run(exec: string, signal: AbortSignal): Promise<Duplex>;
  /** Standard input and output of PID 1, hijacked. */
  attach(id: string, signal: AbortSignal): Promise<Duplex>;
  events(query: Readonly<Record<string, unknown>>, signal: AbortSignal): Promise<Readable>;
}

/** What of the engine decides how a container is read. */
export interface EngineFacts {
  readonly defaultRuntime: string;
  readonly swapLimit: boolean;
  /** What this host cannot give. */
  readonly lacks?: readonly string[];
}

export interface Engine {
  readonly door: Door;
  readonly socketPath: string;
  readonly clock: Clock;
  readonly log: Log;
  /** By image id. */
  readonly images: Map<string, ImageDefaults>;
  /** By container id. */
  readonly resident: Map<string, Supervised>;
  /** What the engine said of itself, once it was asked. */
  facts?: EngineFacts;
}

/** Whether a container's PID 1 keeps commands, and where it can be met beside the engine. */
export interface Supervised {
  readonly ours: boolean;
  readonly place?: Place;
}

/** What an image brings along that a container takes over unasked. */
export interface ImageDefaults {
  readonly env: readonly string[];
  readonly labels: Names;
  readonly volumes: readonly string[];
}
