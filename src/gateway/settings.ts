// What holds for a session: the agent's own values, then those of its channel's plugin, then what was set for it, kept on the shelf.
import { createHash } from "node:crypto";
import { BeigeError } from "../core/errors.ts";
import { mergeConfig } from "../core/merge.ts";
import type { SessionSettings, SettingsPatch } from "../core/session.ts";
import type { Agent } from "../core/resource.ts";
import type { Directory, Shelf } from "../core/world.ts";
import { namesOf, type ModelName } from "./models.ts";

/** Keys may hold anything printable: names of rows and files are made of their hash. */
export const hashOf = (key: string): string => createHash("sha256").update(key).digest("hex").slice(0, 16);
const rowKey = (uid: string, key: string): string => `settings/${uid}/${hashOf(key)}`;

const THINKING: readonly string[] = ["off", "minimal", "low", "medium", "high"];
const isThinking = (value: unknown): value is NonNullable<SessionSettings["thinking"]> =>
  typeof value === "string" && THINKING.includes(value);

/** What was set; `anew` waits for the next message, which starts the conversation anew. */
interface Row extends SessionSettings {
  readonly anew?: boolean;
}

export interface Settings {
  /** All layers. A model that has left the agent's list is passed over. */
  of(agent: Agent, key: string): Required<SessionSettings>;
  /** What was set for the session alone. */
  set(uid: string, key: string): SessionSettings;
  /** Throws `denied` for a model outside the agent's list. */
  change(agent: Agent, key: string, patch: SettingsPatch): void;
  /** The next message starts anew. */
  renew(uid: string, key: string): void;
  /** Whether it does; asked once. */
  takeRenewal(uid: string, key: string): boolean;
  forget(uid: string, key: string): void;
}

function known(value: unknown): SessionSettings {
  if (typeof value !== "object" || value === null) return {};
  const { model, thinking, verbose } = value as Readonly<Record<keyof SessionSettings, unknown>>;
  const named = typeof model === "object" && model !== null ? (model as Partial<ModelName>) : {};
  return {
    ...(typeof named.provider === "string" && typeof named.id === "string" ? { model: { provider: named.provider, id: named.id } } : {}),
    ...(isThinking(thinking) ? { thinking } : {}),
    ...(typeof verbose === "boolean" ? { verbose } : {}),
  };
}

function parse(text: string | undefined): Row {
  if (text === undefined) return {};
  try {
    const value = JSON.parse(text) as Row | null;
    return { ...known(value), ...(value?.anew === true ? { anew: true } : {}) };
  } catch {
    return {};
  }
}

const listed = (agent: Agent, model: ModelName | undefined): model is ModelName =>
  model !== undefined && namesOf(agent, undefined).some((name) => name.provider === model.provider && name.id === model.id);

/** `config.defaults` of the plugin that has the channel's name, with the agent's own over it. */
function channelDefaults(directory: Directory, agent: Agent, key: string): SessionSettings {
  const channel = key.slice(0, key.indexOf(":"));
  const own = agent.spec.plugins as Readonly<Record<string, Readonly<Record<string, unknown>>>>;
  const config = mergeConfig(directory.plugin(channel)?.spec.config ?? {}, (Object.hasOwn(own, channel) ? own[channel] : undefined) ?? {});
  return known(config["defaults"]);
}

function layers(agent: Agent, channel: SessionSettings, set: SessionSettings): Required<SessionSettings> {
  const { model } = agent.spec;
  return {
    model: [set.model, channel.model].find((name) => listed(agent, name)) ?? { provider: model.provider, id: model.id },
    thinking: set.thinking ?? channel.thinking ?? model.thinking,
    verbose: set.verbose ?? channel.verbose ?? false,
  };
}

export function createSettings(deps: { readonly shelf: Shelf; readonly directory: Directory }): Settings {
  const { shelf, directory } = deps;
  const read = (uid: string, key: string): Row => parse(shelf.get(rowKey(uid, key)));
  const write = (uid: string, key: string, row: Row): void => {
    const at = rowKey(uid, key);
    if (Object.keys(row).length === 0) shelf.delete(at);
    else shelf.set(at, JSON.stringify(row), true);
  };
  return {
    of: (agent, key) => layers(agent, channelDefaults(directory, agent, key), read(agent.metadata.uid, key)),
    set(uid, key) {
      const { anew: _, ...set } = read(uid, key);
      return set;
    },
    change(agent, key, patch) {
      const { uid } = agent.metadata;
      // Throws for one that is not the agent's.
      if (patch.model !== undefined && patch.model !== null) namesOf(agent, patch.model);
      if (patch.thinking !== undefined && patch.thinking !== null && !isThinking(patch.thinking))
        throw new BeigeError("invalid", `thinking must be one of ${THINKING.join(", ")}`);
      const merged = { ...read(uid, key), ...patch };
      write(uid, key, Object.fromEntries(Object.entries(merged).filter(([, value]) => value !== null && value !== undefined)) as Row);
    },
    renew: (uid, key) => write(uid, key, { ...read(uid, key), anew: true }),
    takeRenewal(uid, key) {
      const { anew, ...set } = read(uid, key);
      if (anew === true) write(uid, key, set);
      return anew === true;
    },
    forget: (uid, key) => shelf.delete(rowKey(uid, key)),
  };
}
