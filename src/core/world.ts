// Everything outside the language: the ports that adapters, the sandbox, the gateway and the store stand behind.
import type { Audit } from "./audit.ts";
import type { AgentId } from "./call.ts";
import type { Intent } from "./kind.ts";
import type { PluginManifest } from "./plugin.ts";
import type { Agent, Plugin, Provider, Schedule } from "./resource.ts";
import type { Sandbox } from "./sandbox.ts";
import type { Seats, Warm } from "./seat.ts";
import type { Stacks, Trees } from "./source.ts";
import type { TurnRequest } from "./turn.ts";
import type { PluginSource, Secret } from "../../schemas/types.ts";

export interface Clock {
  /** Milliseconds since the epoch. */
  now(): number;
  /** Milliseconds from any point, never going back: for durations. */
  monotonic(): number;
  /** Rejects with the signal's reason when aborted. Any length is safe. */
  sleep(ms: number, signal?: AbortSignal): Promise<void>;
  /** Calls once after `ms`; any length is safe. Does not keep the process alive. */
  after(ms: number, run: () => void): { cancel(): void };
}

export interface Random {
  uuid(): string;
  /** Lower-case hex of `bytes` random bytes. */
  hex(bytes: number): string;
  /** In [0, 1). */
  float(): number;
}

export type Fields = Readonly<Record<string, unknown>>;
export interface Log {
  debug(message: string, fields?: Fields): void;
  info(message: string, fields?: Fields): void;
  warn(message: string, fields?: Fields): void;
  error(message: string, fields?: Fields): void;
}

/** Resolves references to secrets at use. Values never leave gateway memory. */
export interface Secrets {
  /** Whether it could be resolved and sent to `host` (absent: not bound to one); never the value. */
  check(
    ref: Secret,
    host?: string,
  ): Promise<{ readonly ok: true } | { readonly ok: false; readonly reason: string; readonly message: string; readonly hint: string }>;
  /** Throws `denied` when host policy refuses, `not_found` when there is no value. */
  resolve(ref: Secret, host?: string): Promise<string>;
  /** Replaces every value resolved so far, and its base64 and JSON forms, by "[secret]". */
  redact(text: string): string;
}

export interface FolderSeen {
  /** With every link resolved, as far as the path exists. */
  readonly real: string;
  readonly exists: boolean;
  readonly folder: boolean;
  readonly uid: number;
  readonly gid: number;
}

/** How much of the disk a folder takes, as it was found by the last look. */
export interface DiskUse {
  readonly bytes: number;
  readonly entries: number;
  /** False where something was left out: it is at least as much. */
  readonly whole: boolean;
  /** What of it goes beyond what is ever measured; it counts as too much, since anything may be there. */
  readonly beyond?: string;
}

/** Host folders that agents own. */
export interface Workspaces {
  seen(path: string): Promise<FolderSeen>;
  /** Makes the folder (0700 or as it is) and, as root, gives a new one to the owner. Never follows a link in its last part. */
  create(path: string, owner: { readonly uid: number; readonly gid: number }): Promise<void>;
  /** What is left on the filesystem of a folder that is there; undefined when it cannot be told. */
  room?(path: string): Promise<{ readonly freeBytes: number; readonly freeFiles: number } | undefined>;
  /** What the folder took when it was last measured, which is done at a low pace; undefined before. Never follows links. */
  used?(path: string, limitBytes: number): DiskUse | undefined;
  /** Removes the folder and all in it without following links. */
  remove(path: string): Promise<void>;
  /** Gives a folder of the gateway's own, and all in it, to another sandbox's user: a retained workspace to the next agent of its name. Never follows links. Absent where the gateway is not root. */
  give?(path: string, owner: { readonly uid: number; readonly gid: number }): Promise<void>;
}

export interface Kit {
  /** Names of launchers. */
  readonly tools: readonly string[];
  /** Documentation of plugins: each is copied to packages/NAME. */
  readonly packages: readonly { readonly name: string; readonly root: string; readonly files: readonly string[] }[];
}

/** What is mounted read-only into a sandbox: launchers, plugin documentation, the guest binary. */
export interface Kits {
  /** A hash of what is there, undefined when something is missing. */
  seen(agent: AgentId): Promise<string | undefined>;
  /** The hash that `write` would lead to; reads the packages' files. */
  hash(kit: Kit): Promise<string>;
  /** Changes the folders in place, so that running sandboxes see it. */
  write(agent: AgentId, kit: Kit, owner: { readonly uid: number; readonly gid: number }): Promise<void>;
  remove(agent: AgentId): Promise<void>;
}

/** The agents' sockets: one listener an agent, which is the agent's identity. */
export interface Sockets {
  seen(uid: string): { readonly listening: boolean; readonly hellos: readonly string[] };
  /**
   * Makes ready that the listeners of a seat become the agent's; what is answered does it, at once. Who is connected stays so.
   */
  lend?(seat: string, agent: AgentId, owner: { readonly uid: number; readonly gid: number }): Promise<() => void>;
  /** Listens on run/UID10/gateway.sock, owned by the sandbox's user. Idempotent. */
  open(agent: AgentId, owner: { readonly uid: number; readonly gid: number }): Promise<void>;
  close(uid: string): Promise<void>;
  /** Agents that have a listener or a folder. */
  names(): Promise<readonly string[]>;
}

export interface PluginSeen {
  readonly state: "loaded" | "failed";
  /** Of source, configuration and code, as given to `load`. */
  readonly fingerprint: string;
  readonly tools: readonly string[];
  readonly hooks: readonly string[];
  readonly error?: string;
}

/** Where plugins live. Each one's failure is its own. */
export interface PluginHost {
  /** Folder and manifest of a plugin, and a hash of its code; runs nothing. Throws `not_found` or `invalid`. */
  peek(
    source: PluginSource,
    origin: string | undefined,
  ): Promise<{ readonly root: string; readonly manifest: PluginManifest; readonly codeHash: string }>;
  seen(name: string): PluginSeen | undefined;
  names(): readonly string[];
  /** Replaces an older instance. A plugin that throws or hangs becomes `failed`; this does not throw for it. */
  load(plugin: Plugin, root: string, manifest: PluginManifest, fingerprint: string, signal: AbortSignal): Promise<void>;
  unload(name: string): Promise<void>;
}

export interface ProviderSeen {
  readonly slots: { readonly used: number; readonly waiting: number; readonly limit: number };
  readonly models: readonly {
    readonly id: string;
    readonly coolingUntil?: number;
    readonly failures: number;
    readonly lastError?: string;
  }[];
}

/** What the gateway knows of providers from their traffic. */
export interface Providers {
  seen(name: string): ProviderSeen;
  forget(name: string): void;
}

export interface Sessions {
  /** Sessions with a turn running or waiting. */
  open(uid: string): number;
  /** Ends what runs, says why to whoever waits. Files stay. */
  end(uid: string, why: string): Promise<void>;
}

export interface Calls {
  /** Commands and tool calls that run now. */
  running(uid: string): number;
  /** Ends them with a typed error. */
  cut(uid: string, why: string): void;
  /** New calls from outside the sandbox wait, until `admit` or for so long; those from inside it go on, or what runs could not end. */
  hold(uid: string, limitMs: number): void;
  held(uid: string): boolean;
  /** Whether somebody waits for a sandbox that is started only when it is needed. */
  wanted?(uid: string): boolean;
  /** What waits goes on, in the sandbox that serves then. */
  admit(uid: string): void;
}

/** What the store keeps of agents besides their objects. */
export interface AgentState {
  /** Host uid of the sandbox's user, allocated at the first ask and never reused; the gateway's own when it is not root. */
  hostUser(uid: string): { readonly uid: number; readonly gid: number };
  /** Id of the container that serves: the truth, whatever names and labels say. */
  active(uid: string): string | undefined;
  setActive(uid: string, container: string | undefined): void;
  /** Lets the object have this user, of a container that it takes over. False when it is another's, or not one that sandboxes have. */
  takeUser(uid: string, user: { readonly uid: number; readonly gid: number }): boolean;
  setIntent(uid: string, intent: Intent | undefined): void;
  /** Places that were made before their agents. */
  readonly seats?: Seats;
}

export interface Firing {
  /** RFC 3339 time that the cron expression named. */
  readonly slot: string;
  readonly claimedAt: number;
  readonly endedAt?: number;
  readonly outcome: "started" | "done" | "failed" | "interrupted" | "missed" | "skipped";
  readonly message?: string;
}

/** Firings, each a row that is committed before the run. */
export interface Firings {
  last(uid: string): Firing | undefined;
  /** False when the slot is taken. */
  claim(uid: string, slot: string, outcome: "started" | "missed" | "skipped", message?: string): boolean;
  finish(uid: string, slot: string, outcome: "done" | "failed", message?: string): void;
}

/** Starts turns in the background, through the one turn function. */
export interface Turns {
  running(key: string): number;
  start(key: string, request: TurnRequest, onEnd: (error: string | undefined) => void): void;
  /** Aborts and waits for the end. */
  stop(key: string): Promise<void>;
}

/** The world of the controllers. */
export interface World {
  readonly clock: Clock;
  readonly random: Random;
  readonly log: Log;
  /** Absolute path of BEIGE_HOME. */
  readonly home: string;
  /** Whether schedules fire in this process. */
  readonly firing: boolean;
  readonly store: string;
  /** The chain of what controllers do. */
  readonly control: Audit;
  readonly secrets: Secrets;
  readonly sandbox: Sandbox;
  readonly workspaces: Workspaces;
  readonly kits: Kits;
  readonly sockets: Sockets;
  readonly plugins: PluginHost;
  readonly providers: Providers;
  readonly sessions: Sessions;
  readonly calls: Calls;
  readonly state: AgentState;
  readonly firings: Firings;
  readonly turns: Turns;
  readonly trees: Trees;
  readonly stacks: Stacks;
  /** Sandboxes that were started before their agents. */
  readonly warm?: Warm;
}

/** The world without what the engine itself brings. */
export type Outside = Omit<World, "stacks">;

/** The wanted objects, as the gateway reads them at every request. */
export interface Directory {
  agent(namespace: string, name: string): Agent | undefined;
  agentByUid(uid: string): Agent | undefined;
  agents(): readonly Agent[];
  provider(name: string): Provider | undefined;
  plugin(name: string): Plugin | undefined;
  plugins(): readonly Plugin[];
  schedule(namespace: string, name: string): Schedule | undefined;
}

/** Small durable state of the gateway, by key: provider health, the index of sessions, inboxes. */
export interface Shelf {
  get(key: string): string | undefined;
  /** Committed when it returns; `durable` also survives a power cut. */
  set(key: string, value: string, durable?: boolean): void;
  delete(key: string): void;
  /** Keys with this prefix and their values, in key order. */
  list(prefix: string): readonly { readonly key: string; readonly value: string }[];
}
