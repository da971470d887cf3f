// The gateway's own parts in memory: sockets, plugins, providers, sessions, calls, turns. They die with the gateway.
import { BeigeError } from "../../src/core/errors.ts";
import type { AgentId } from "../../src/core/call.ts";
import type { PluginManifest } from "../../src/core/plugin.ts";
import type { Plugin } from "../../src/core/resource.ts";
import { socketFolder } from "../../src/core/paths.ts";
import { socketUid, type SeatOf } from "../../src/core/seat.ts";
import type { PluginHost, PluginSeen, Providers, ProviderSeen, Secrets, Sockets, Turns } from "../../src/core/world.ts";
import type { TurnRequest } from "../../src/core/turn.ts";
import type { PluginSource, Secret } from "../../schemas/types.ts";
import type { Faults } from "./faults.ts";
import type { FakeEngine } from "./sandbox.ts";

/** A running container whose /beige is the agent's folder is connected as long as somebody listens there. */
export class FakeSockets implements Sockets {
  readonly listening = new Set<string>();
  readonly #seatOf: SeatOf | undefined;
  readonly #home: string;
  readonly #engine: FakeEngine;
  readonly #faults: Faults;

  constructor(home: string, engine: FakeEngine, faults: Faults, seatOf?: SeatOf) {
    this.#seatOf = seatOf;
    this.#home = home;
    this.#engine = engine;
    this.#faults = faults;
  }

  seen(uid: string) {
    const listening = this.listening.has(uid);
    const folder = socketFolder(this.#home, socketUid(uid, this.#seatOf));
    const dialled = [...this.#engine.boxes.values()].filter(
      (box) =>
        box.state === "running" && !box.mute && box.spec.mounts.some((mount) => mount.target === "/beige" && mount.source === folder),
    );
    return { listening, hellos: listening ? dialled.map((box) => box.id.slice(0, 12)) : [] };
  }

  async open(agent: AgentId): Promise<void> {
    await Promise.resolve();
    this.#faults.effect(`socket ${agent.name}`, () => void this.listening.add(agent.uid));
  }

  async lend(seat: string, agent: AgentId): Promise<() => void> {
    await Promise.resolve();
    return this.#faults.effect(`lend ${seat}`, () => () => {
      this.listening.delete(seat);
      this.listening.add(agent.uid);
    });
  }

  async close(uid: string): Promise<void> {
    await Promise.resolve();
    this.#faults.effect("close socket", () => void this.listening.delete(uid));
  }

  names(): Promise<readonly string[]> {
    return Promise.resolve([...this.listening]);
  }
}

export interface FakePackage {
  readonly manifest: PluginManifest;
  codeHash: string;
  /** What it says when it is loaded; it fails with it. */
  failure?: string;
}

export class FakePlugins implements PluginHost {
  readonly loaded = new Map<string, PluginSeen>();
  readonly #packages: ReadonlyMap<string, FakePackage>;
  readonly #faults: Faults;

  constructor(packages: ReadonlyMap<string, FakePackage>, faults: Faults) {
    this.#packages = packages;
    this.#faults = faults;
  }

  #find(source: PluginSource): { readonly root: string; readonly found: FakePackage } {
    const name = source.builtin ?? source.path ?? "";
    const found = this.#packages.get(name);
    if (found === undefined) throw new BeigeError("not_found", `plugin folder of ${name} does not exist`);
    return { root: source.path ?? `/plugins/${name}`, found };
  }

  async peek(source: PluginSource) {
    await Promise.resolve();
    const { root, found } = this.#find(source);
    return { root, manifest: found.manifest, codeHash: found.codeHash };
  }

  seen(name: string): PluginSeen | undefined {
    return this.loaded.get(name);
  }

  names(): readonly string[] {
    return [...this.loaded.keys()];
  }

  async load(plugin: Plugin, _root: string, manifest: PluginManifest, fingerprint: string): Promise<void> {
    await Promise.resolve();
    const name = plugin.metadata.name;
    this.#faults.effect(`load ${name}`, () => {
      const { failure } = this.#find(plugin.spec.source).found;
      const base = { fingerprint, tools: manifest.provides.tools ?? [], hooks: manifest.provides.hooks ?? [] };
      this.loaded.set(name, failure === undefined ? { ...base, state: "loaded" } : { ...base, state: "failed", error: failure });
    });
  }

  async unload(name: string): Promise<void> {
    await Promise.resolve();
    this.#faults.effect(`unload ${name}`, () => void this.loaded.delete(name));
  }
}

const FRESH: ProviderSeen = { slots: { used: 0, waiting: 0, limit: -1 }, models: [] };

export class FakeProviders implements Providers {
  readonly health = new Map<string, ProviderSeen>();
  seen(name: string): ProviderSeen {
    return this.health.get(name) ?? FRESH;
  }
  forget(name: string): void {
    this.health.delete(name);
  }
}

/** Names of secrets that can be had; nothing else can. */
export class FakeSecrets implements Secrets {
  readonly known = new Set<string>();
  async check(ref: Secret) {
    await Promise.resolve();
    const name = ref.secret ?? ref.env ?? "";
    if (this.known.has(name)) return { ok: true } as const;
    return { ok: false, reason: "SecretMissing", message: `secret "${name}" has no value`, hint: `beige secret set ${name}` } as const;
  }
  async resolve(ref: Secret): Promise<string> {
    const checked = await this.check(ref);
    if (!checked.ok) throw new BeigeError("not_found", checked.message);
    return "a-secret-value";
  }
  redact(text: string): string {
    return text.replaceAll("a-secret-value", "[secret]");
  }
}

export interface FakeTurn {
  readonly key: string;
  readonly request: TurnRequest;
  end(error?: string): void;
}

export class FakeTurns implements Turns {
  /** Every turn that was started, in order. */
  readonly started: FakeTurn[] = [];
  readonly #open = new Set<FakeTurn>();

  running(key: string): number {
    return [...this.#open].filter((turn) => turn.key === key).length;
  }

  start(key: string, request: TurnRequest, onEnd: (error: string | undefined) => void): void {
    const turn: FakeTurn = {
      key,
      request,
      end: (error) => {
        if (this.#open.delete(turn)) onEnd(error);
      },
    };
    this.started.push(turn);
    this.#open.add(turn);
  }

  async stop(key: string): Promise<void> {
    await Promise.resolve();
    for (const turn of this.#open) if (turn.key === key) turn.end("stopped");
  }
}
