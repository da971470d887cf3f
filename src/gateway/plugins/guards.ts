// Guards of plugins that do not run: what was promised to be asked is not passed over.
import { BeigeError } from "../../core/errors.ts";
import type { Hooks } from "../../core/plugin.ts";
import type { Plugin } from "../../core/resource.ts";

/** Hooks of one plugin; those of a guard that does not run reject, so that it fails closed. */
export interface PluginHooks {
  readonly plugin: string;
  readonly hooks: Hooks;
}

const GUARDS = ["preToolCall", "prePrompt", "preResponse"] as const;

/** The guards that a plugin had when it was last looked at: a gateway that starts has not loaded it yet. */
export function promised(plugin: Plugin): readonly string[] {
  const hooks = plugin.metadata.deletionTimestamp === undefined ? plugin.status?.observed?.["hooks"] : undefined;
  return Array.isArray(hooks) ? GUARDS.filter((name) => hooks.includes(name)) : [];
}

export const failed = (name: string): Promise<never> =>
  Promise.reject(new BeigeError("unavailable", `plugin ${name} failed`, { hint: `beige describe plugin ${name}` }));

/** Stands in for the named guards; `hooks` waits for the real ones, or rejects. */
export const guardsOf = (names: readonly string[], hooks: () => Promise<Hooks>): Hooks => ({
  ...(names.includes("preToolCall") && { preToolCall: async (input) => (await hooks()).preToolCall?.(input) }),
  ...(names.includes("prePrompt") && { prePrompt: async (input) => (await hooks()).prePrompt?.(input) }),
  ...(names.includes("preResponse") && { preResponse: async (input) => (await hooks()).preResponse?.(input) }),
});
