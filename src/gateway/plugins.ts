// Keeps plugins: loads, replaces and unloads them, finds their tools and hooks. The failure of one is its own.
import { mergeConfig } from "../core/merge.ts";
import type { Hooks, PluginManifest, ToolDefinition } from "../core/plugin.ts";
import { decide } from "../core/policy.ts";
import type { Agent, Plugin } from "../core/resource.ts";
import type { Clock, Log, PluginHost, PluginSeen, Secrets } from "../core/world.ts";
import type { HostPolicy } from "../../schemas/types.ts";
import { messageOf } from "./deadline.ts";
import { lookAtPlugin } from "./plugins/folder.ts";
import { failed, guardsOf, promised, type PluginHooks } from "./plugins/guards.ts";
import { type Running, startPlugin } from "./plugins/run.ts";

export interface PluginDeps {
  readonly home: string;
  /** Absolute folder of the plugins that ship with beige. */
  readonly builtins: string;
  readonly host: () => HostPolicy;
  readonly secrets: Pick<Secrets, "resolve" | "redact">;
  readonly log: Log;
  readonly clock: Clock;
  /** The plugins that are wanted. */
  readonly wanted: () => readonly Plugin[];
  /** A plugin's state changed without a load: its process ended. */
  readonly onChange?: (name: string) => void;
}

export interface FoundTool {
  readonly plugin: string;
  readonly definition: ToolDefinition;
  /** Plugin.spec.config with the agent's own merged over it. */
  readonly config: Readonly<Record<string, unknown>>;
}

export interface Plugins extends PluginHost {
  /** Names of the loaded plugins that have this tool, in order. */
  owners(tool: string): readonly string[];
  find(agent: Agent, plugin: string, tool: string): FoundTool | undefined;
  /** The tool that a name means for this agent, when it may call it and it is loaded. */
  tool(agent: Agent, name: string): FoundTool | undefined;
  /** In order of plugin names. */
  hooks(): readonly PluginHooks[];
  /** Stops all plugins, each within 5 s. */
  stop(): Promise<void>;
}

interface Held {
  readonly plugin: Plugin;
  readonly manifest: PluginManifest;
  readonly seen: PluginSeen;
  readonly running?: Running;
}

const ERROR_MAX = 1_024;

class PluginShelf {
  readonly #deps: PluginDeps;
  readonly #held = new Map<string, Held>();
  /** One change of one plugin at a time. */
  readonly #turns = new Map<string, Promise<void>>();

  constructor(deps: PluginDeps) {
    this.#deps = deps;
  }

  get(name: string): Held | undefined {
    return this.#held.get(name);
  }

  all(): readonly (readonly [string, Held])[] {
    return [...this.#held].toSorted(([a], [b]) => (a < b ? -1 : 1));
  }

  load(plugin: Plugin, root: string, manifest: PluginManifest, fingerprint: string): Promise<void> {
    const name = plugin.metadata.name;
    return this.#inTurn(name, async () => {
      const old = this.#held.get(name);
      const base = { fingerprint, tools: manifest.provides.tools ?? [], hooks: manifest.provides.hooks ?? [] };
      const { home, secrets, clock, log } = this.#deps;
      const dataFolder = `${home}/plugins/${name}`;
      const onEnd = (why: string): void => this.#died(name, fingerprint, why);
      try {
        const running = await startPlugin({ plugin, root, manifest, fingerprint, dataFolder, secrets, clock, log, onEnd });
        this.#held.set(name, { plugin, manifest, running, seen: { ...base, state: "loaded" } });
      } catch (error) {
        this.#held.set(name, { plugin, manifest, seen: { ...base, state: "failed", error: this.#say(error) } });
        log.warn("plugin failed", { plugin: name, error: this.#say(error) });
      }
      await this.#stop(name, old);
    });
  }

  unload(name: string): Promise<void> {
    return this.#inTurn(name, async () => {
      const old = this.#held.get(name);
      this.#held.delete(name);
      await this.#stop(name, old);
    });
  }

  #say(error: unknown): string {
    return this.#deps.secrets.redact(messageOf(error)).slice(0, ERROR_MAX);
  }

  #died(name: string, fingerprint: string, why: string): void {
    const held = this.#held.get(name);
    if (held === undefined || held.seen.fingerprint !== fingerprint) return;
    const { running: _gone, ...rest } = held;
    this.#held.set(name, { ...rest, seen: { ...held.seen, state: "failed", error: this.#say(`its process ${why}`) } });
    this.#deps.log.warn("plugin failed", { plugin: name, error: this.#say(why) });
    this.#deps.onChange?.(name);
  }

  async #stop(name: string, held: Held | undefined): Promise<void> {
    await held?.running?.stop().catch((error: unknown) => {
      this.#deps.log.warn("plugin did not stop well", { plugin: name, error: this.#say(error) });
    });
  }

  #inTurn(name: string, work: () => Promise<void>): Promise<void> {
    const mine = (this.#turns.get(name) ?? Promise.resolve()).then(work);
    const settled = mine.catch(() => undefined);
    this.#turns.set(name, settled);
    void settled.then(() => this.#turns.get(name) === settled && this.#turns.delete(name));
    return mine;
  }
}

/** So long after its start a gateway may still be loading what it had before. */
const START_MS = 10_000;
const LOOK_MS = 5;

export function createPluginHost(deps: PluginDeps): Plugins {
  const shelf = new PluginShelf(deps);
  const startedMs = deps.clock.now();
  /** Hooks of a plugin that is not here yet, or that cannot be loaded any more. */
  const coming = async (name: string): Promise<Hooks> => {
    while (shelf.get(name) === undefined && deps.clock.now() - startedMs < START_MS) await deps.clock.sleep(LOOK_MS);
    return shelf.get(name)?.running?.hooks ?? failed(name);
  };
  const owners = (tool: string): readonly string[] =>
    shelf.all().flatMap(([name, held]) => (held.running?.tools.has(tool) === true ? [name] : []));
  const find = (agent: Agent, plugin: string, tool: string): FoundTool | undefined => {
    const held = shelf.get(plugin);
    const definition = held?.running?.tools.get(tool);
    if (held === undefined || definition === undefined) return undefined;
    const over = Object.hasOwn(agent.spec.plugins, plugin) ? agent.spec.plugins[plugin] : undefined;
    return { plugin, definition, config: mergeConfig(held.plugin.spec.config, over) };
  };
  return {
    peek: (source, origin) => lookAtPlugin(source, origin, { builtins: deps.builtins, host: deps.host() }),
    seen: (name) => shelf.get(name)?.seen,
    names: () => shelf.all().map(([name]) => name),
    load: async (plugin, root, manifest, fingerprint, signal) => {
      signal.throwIfAborted();
      await shelf.load(plugin, root, manifest, fingerprint);
    },
    unload: (name) => shelf.unload(name),
    owners,
    find,
    tool: (agent, name) => {
      const permission = decide(agent, owners, name);
      if (!permission.allowed || permission.kind !== "tool" || permission.plugin === undefined) return undefined;
      return find(agent, permission.plugin, permission.tool);
    },
    hooks: () => {
      const held = shelf.all().map(([plugin, { running, manifest }]) => ({
        plugin,
        hooks: running?.hooks ?? guardsOf(manifest.provides.hooks ?? [], () => failed(plugin)),
      }));
      const absent = deps.wanted().filter((plugin) => shelf.get(plugin.metadata.name) === undefined && promised(plugin).length > 0);
      if (absent.length === 0) return held;
      const waiting = absent.map((plugin) => {
        const { name } = plugin.metadata;
        return { plugin: name, hooks: guardsOf(promised(plugin), () => coming(name)) };
      });
      return [...held, ...waiting].toSorted((a, b) => (a.plugin < b.plugin ? -1 : 1));
    },
    stop: async () => {
      await Promise.all(shelf.all().map(([name]) => shelf.unload(name)));
    },
  };
}
