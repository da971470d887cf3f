// Runs the hooks of plugins: guards fail closed within 5 s, observers never hold anybody up.
import { BeigeError } from "../core/errors.ts";
import type { CallHookInput, Hooks } from "../core/plugin.ts";
import type { Clock, Log } from "../core/world.ts";
import { limited, messageOf } from "./deadline.ts";

export interface HookDeps {
  readonly plugins: { hooks(): readonly { readonly plugin: string; readonly hooks: Hooks }[] };
  readonly clock: Pick<Clock, "after">;
  readonly log: Log;
  /** Replaces secrets: what a hook throws is shown to callers. */
  readonly redact: (text: string) => string;
}

type Changed = { readonly deny: string } | { readonly text: string };
type Input<K extends keyof Hooks> = Parameters<NonNullable<Hooks[K]>>[0];

export interface HookRunner {
  /** The first denial, or nothing. A guard that throws, hangs or answers nonsense denies. */
  guardCall(input: CallHookInput): Promise<{ readonly deny: string } | undefined>;
  /** Observers: nobody needs to wait for them, and they never reject. */
  observeCall(input: Input<"postToolCall">): Promise<void>;
  /** The text as the last transform left it. */
  prePrompt(input: Input<"prePrompt">): Promise<Changed>;
  /** The same of an answer, before anybody has it. */
  preResponse(input: Input<"preResponse">): Promise<Changed>;
  /** Whether any hook wants whole answers before they are given away. */
  holds(): boolean;
  /** Whether any hook reads or changes the text of requests and answers. */
  reads(): boolean;
  onToolStart(input: Input<"onToolStart">): Promise<void>;
  postResponse(input: Input<"postResponse">): Promise<void>;
  modelSwitched(input: Input<"modelSwitched">): Promise<void>;
}

const HOOK_MS = 5_000;
const REASON_MAX = 1_024;
const TEXT_MAX = 4 * 1024 * 1024;
/** Observers of one sort that run at once; more are dropped and counted in the log. */
const OBSERVERS_MAX = 256;

interface Said {
  readonly deny?: unknown;
  readonly text?: unknown;
}

/** Each word is read once. `false` is what a condition leaves that did not hold; any other value that is no object may be meant as a denial. */
function read(answer: unknown): Said {
  if (answer === undefined || answer === null || answer === false) return {};
  const kind = Array.isArray(answer) ? "a list" : typeof answer;
  if (kind !== "object") throw new BeigeError("invalid", `answered ${kind} instead of nothing or an object`);
  const { deny, text } = answer as Said;
  return { deny, text };
}

const denied = ({ deny }: Said): string | undefined => {
  if (deny === undefined) return undefined;
  if (typeof deny !== "string") throw new BeigeError("invalid", "answered a denial without a reason");
  return deny === "" ? "denied" : deny;
};

const READS = ["prePrompt", "preResponse", "postResponse"] as const;

type Say = (text: string) => string;
type Guard = (plugin: string, name: string, run: () => Promise<unknown>) => Promise<{ readonly text: unknown } | { readonly deny: string }>;
type Observed = "postToolCall" | "onToolStart" | "postResponse" | "modelSwitched";
type Observe = <K extends Observed>(name: K, input: Input<K>) => Promise<void>;

const guardOf =
  (deps: HookDeps, say: Say): Guard =>
  async (plugin, name, run) => {
    try {
      const said = read(await limited(deps.clock, { ms: HOOK_MS, what: `hook ${name}` }, run));
      const deny = denied(said);
      return deny === undefined ? { text: said.text } : { deny: say(deny) };
    } catch (error) {
      const why = say(messageOf(error));
      deps.log.warn("guard failed", { plugin, hook: name, error: why });
      return { deny: `guard ${name} of plugin ${plugin} failed: ${why}` };
    }
  };

function observeOf(deps: HookDeps, say: Say): Observe {
  let observing = 0;
  const watch = async (plugin: string, name: string, run: () => Promise<void>): Promise<void> => {
    if (observing >= OBSERVERS_MAX) return deps.log.warn("observers are slow: one was left out", { plugin, hook: name });
    observing += 1;
    try {
      await limited(deps.clock, { ms: HOOK_MS, what: `hook ${name}` }, run);
    } catch (error) {
      deps.log.warn("observer failed", { plugin, hook: name, error: say(messageOf(error)) });
    } finally {
      observing -= 1;
    }
  };
  return async (name, input) => {
    const watching = deps.plugins.hooks().flatMap(({ plugin, hooks }) => {
      const hook = hooks[name] as ((input: Input<typeof name>) => Promise<void>) | undefined;
      return hook === undefined ? [] : [watch(plugin, name, () => hook(input))];
    });
    await Promise.all(watching);
  };
}

/** Asks one plugin after the other; each reads what the one before made of the text. */
async function changed<K extends "prePrompt" | "preResponse">(deps: HookDeps, guard: Guard, name: K, input: Input<K>): Promise<Changed> {
  let { text } = input;
  for (const { plugin, hooks } of deps.plugins.hooks()) {
    const hook = hooks[name] as ((input: Input<K>) => Promise<unknown>) | undefined;
    if (hook === undefined) continue;
    const answer = await guard(plugin, name, () => hook({ ...input, text }));
    if ("deny" in answer) return answer;
    const next = answer.text;
    if (next === undefined) continue;
    if (typeof next !== "string" || next.length > TEXT_MAX)
      return { deny: `${name} of plugin ${plugin} answered no text of a size that can be` };
    text = next;
  }
  return { text };
}

export function createHooks(deps: HookDeps): HookRunner {
  const say: Say = (text) => deps.redact(text).slice(0, REASON_MAX);
  const guard = guardOf(deps, say);
  const observe = observeOf(deps, say);
  return {
    guardCall: async (input) => {
      for (const { plugin, hooks } of deps.plugins.hooks()) {
        const hook = hooks.preToolCall;
        if (hook === undefined) continue;
        const answer = await guard(plugin, "preToolCall", () => hook(input));
        if ("deny" in answer) return answer;
      }
      return undefined;
    },
    prePrompt: (input) => changed(deps, guard, "prePrompt", input),
    preResponse: (input) => changed(deps, guard, "preResponse", input),
    holds: () => deps.plugins.hooks().some(({ hooks }) => hooks.preResponse !== undefined),
    reads: () => deps.plugins.hooks().some(({ hooks }) => READS.some((name) => hooks[name] !== undefined)),
    observeCall: (input) => observe("postToolCall", input),
    onToolStart: (input) => observe("onToolStart", input),
    postResponse: (input) => observe("postResponse", input),
    modelSwitched: (input) => observe("modelSwitched", input),
  };
}
