// Whether a plugin is to be loaded, loaded anew, tried again or unloaded. Pure.
import type { Problem } from "../../src/core/errors.ts";
import { fingerprint } from "../../src/core/fingerprint.ts";
import type { Action, Plan, View, Want } from "../../src/core/kind.ts";
import type { PluginManifest } from "../../src/core/plugin.ts";
import { RESTARTED_AT, type Plugin } from "../../src/core/resource.ts";
import type { PluginSeen } from "../../src/core/world.ts";

/** What its folder says; runs nothing. */
export type Peeked =
  | { readonly ok: true; readonly root: string; readonly manifest: PluginManifest; readonly codeHash: string }
  | { readonly ok: false; readonly reason: "PluginMissing" | "PluginInvalid"; readonly message: string }
  /** Its code lies where an agent writes. */
  | { readonly ok: false; readonly reason: "PathRefused"; readonly message: string; readonly problems: readonly Problem[] };

export interface PluginFacts {
  readonly name: string;
  /** Absent for an orphan. */
  readonly peeked?: Peeked;
  readonly seen?: PluginSeen;
  /** Secrets that cannot be had, by the name that the plugin uses. */
  readonly lacking: readonly { readonly key: string; readonly reason: string; readonly message: string }[];
}

export type PluginAction = Action &
  (
    | {
        readonly type: "load";
        readonly plugin: Plugin;
        readonly root: string;
        readonly manifest: PluginManifest;
        readonly fingerprint: string;
      }
    | { readonly type: "unload"; readonly name: string }
  );

/** A failed plugin is tried again after this, or at once when it changes. */
export const PLUGIN_RETRY_MS = 300_000;
const LOOK_MS = 30_000;
/** Documentation that a plugin has unless it names other files. */
const DOCS = ["README.md", "SKILL.md"] as const;

function identity(plugin: Plugin, codeHash: string): string {
  const { source, config, secrets } = plugin.spec;
  const { uid, annotations } = plugin.metadata;
  return fingerprint({ source, config, secrets, codeHash, uid, restart: annotations?.[RESTARTED_AT] });
}

/** The time of the load rides behind the fingerprint, so that a failure tells its age without anything being kept. */
const stamped = (id: string, now: number): string => `${id}@${now}`;
function stampOf(seen: PluginSeen): { readonly id: string; readonly atMs: number } {
  const at = seen.fingerprint.lastIndexOf("@");
  return at < 0
    ? { id: seen.fingerprint, atMs: 0 }
    : { id: seen.fingerprint.slice(0, at), atMs: Number(seen.fingerprint.slice(at + 1)) || 0 };
}

const unload = (name: string, why: "delete" | "prune" | "drift"): PluginAction => ({
  type: "unload",
  name,
  impact: "delete",
  why,
  summary: `unload plugin ${name}`,
});

function planGone(facts: PluginFacts, why: "delete" | "prune"): Plan<PluginAction> {
  const actions = facts.seen === undefined ? [] : [unload(facts.name, why)];
  return { actions, ready: false, reason: "Deleting", message: "", gone: actions.length === 0 };
}

function observed(peeked: Peeked, seen: PluginSeen | undefined, before: Plugin): Readonly<Record<string, unknown>> {
  const state = seen?.state ?? "absent";
  // Without a folder to read nobody knows its tools, which is not the same as none. Its guards are remembered: they are not passed over.
  const hooks = seen?.hooks ?? before.status?.observed?.["hooks"];
  if (!peeked.ok) return { state, ...(seen === undefined ? {} : { tools: seen.tools }), ...(hooks === undefined ? {} : { hooks }) };
  const { manifest, root, codeHash } = peeked;
  return {
    state,
    tools: [...(manifest.provides.tools ?? [])],
    hooks: [...(manifest.provides.hooks ?? [])],
    description: manifest.description,
    ...(manifest.version === undefined ? {} : { version: manifest.version }),
    root,
    files: [...(manifest.files ?? DOCS)],
    code: codeHash.slice(0, 12),
  };
}

/** What runs goes as well: an agent may have written its code. */
function planRefused(
  name: string,
  seen: PluginSeen | undefined,
  { reason, message, problems }: Extract<Peeked, { reason: "PathRefused" }>,
  shown: Readonly<Record<string, unknown>>,
): Plan<PluginAction> {
  const actions = seen === undefined ? [] : [unload(name, "drift")];
  return { actions, ready: false, reason, message, refused: problems, wait: { ms: LOOK_MS }, observed: shown };
}

export function planPlugin(want: Want<Plugin> | undefined, facts: PluginFacts, view: View): Plan<PluginAction> {
  const { peeked, seen } = facts;
  if (want === undefined || peeked === undefined) return planGone(facts, "prune");
  if (want.deleting) return planGone(facts, "delete");
  const base = { actions: [], observed: observed(peeked, seen, want.object) };
  if (!peeked.ok && peeked.reason === "PathRefused") return planRefused(facts.name, seen, peeked, base.observed);
  // An instance that runs goes on: taking it away would make it worse.
  if (!peeked.ok) return { ...base, ready: false, reason: peeked.reason, message: peeked.message, wait: { ms: LOOK_MS } };
  const lack = facts.lacking[0];
  if (lack !== undefined)
    return { ...base, ready: false, reason: "SecretMissing", message: `secret '${lack.key}': ${lack.message}`, wait: { ms: LOOK_MS } };
  return planLoaded(want.object, peeked, seen, view.now);
}

function planLoaded(plugin: Plugin, peeked: Extract<Peeked, { ok: true }>, seen: PluginSeen | undefined, now: number): Plan<PluginAction> {
  const id = identity(plugin, peeked.codeHash);
  const stamp = seen === undefined ? undefined : stampOf(seen);
  const restMs = stamp === undefined ? 0 : stamp.atMs + PLUGIN_RETRY_MS - now;
  // A clock that was set back does not lengthen the pause.
  const due = seen?.state === "failed" && (restMs <= 0 || restMs > PLUGIN_RETRY_MS);
  const shown = observed(peeked, seen, plugin);
  if (stamp?.id !== id || due) {
    const fresh = seen === undefined;
    const why = fresh || stamp?.id !== id ? "spec" : "drift";
    const name = plugin.metadata.name;
    const summary = `${fresh ? "load" : "load again"} plugin ${name}`;
    const action: PluginAction = {
      type: "load",
      impact: fresh ? "create" : "update",
      why,
      summary,
      plugin,
      root: peeked.root,
      manifest: peeked.manifest,
      fingerprint: stamped(id, now),
    };
    return { actions: [action], ready: false, reason: "Progressing", message: "", observed: shown };
  }
  if (seen?.state === "failed")
    return { actions: [], ready: false, reason: "PluginFailed", message: seen.error ?? "it failed", wait: { ms: restMs }, observed: shown };
  return { actions: [], ready: true, reason: "Ready", message: "", observed: shown };
}
