// Starts a plugin: ours in the gateway, everybody else's in a process of its own. Both look the same from outside.
import { mkdir } from "node:fs/promises";
import { pathToFileURL } from "node:url";
import type { Hooks, PluginContext, PluginManifest, ToolDefinition } from "../../core/plugin.ts";
import { BeigeError } from "../../core/errors.ts";
import type { Clock, Log, Secrets } from "../../core/world.ts";
import type { Plugin } from "../../core/resource.ts";
import { limited, messageOf } from "../deadline.ts";
import { entryPoint, HOOKS, TOOL_NAME } from "./folder.ts";
import { PluginProcess } from "./process.ts";
import { registerPlugin } from "./register.ts";
import { type FromChild, packInput, saidText, unpackAnswer } from "./wire.ts";

/** A promise of a plugin that has not settled by then is a hang. */
export const HANG_MS = 5_000;
const LOG_TEXT_MAX = 4_096;

export interface Running {
  readonly tools: ReadonlyMap<string, ToolDefinition>;
  readonly hooks: Hooks;
  stop(): Promise<void>;
}

export interface Start {
  readonly plugin: Plugin;
  readonly root: string;
  readonly manifest: PluginManifest;
  readonly fingerprint: string;
  readonly dataFolder: string;
  readonly secrets: Pick<Secrets, "resolve" | "redact">;
  readonly clock: Clock;
  readonly log: Log;
  /** It ended by itself after it had started. */
  readonly onEnd: (why: string) => void;
}

async function secretOf(start: Start, key: string): Promise<string> {
  const { plugin, secrets } = start;
  const ref = Object.hasOwn(plugin.spec.secrets, key) ? plugin.spec.secrets[key] : undefined;
  if (ref !== undefined) return secrets.resolve(ref);
  throw new BeigeError("not_found", `plugin ${plugin.metadata.name} has no secret ${JSON.stringify(key).slice(0, 80)}`, {
    hint: `spec.secrets: {${key.slice(0, 40)}: {secret: NAME}}`,
  });
}

function logOf(start: Start): PluginContext["log"] {
  const plugin = start.plugin.metadata.name;
  return (message, fields) => start.log.info("plugin says", { plugin, text: message.slice(0, LOG_TEXT_MAX), fields });
}

/** What a plugin brings must be what its plugin.json says: launchers and permissions are made from that. */
function checkDeclared(manifest: PluginManifest, tools: readonly string[], hooks: readonly string[]): void {
  const said = { tools: manifest.provides.tools ?? [], hooks: manifest.provides.hooks ?? [] };
  for (const [kind, had] of [["tools", tools] as const, ["hooks", hooks] as const]) {
    const extra = had.filter((name) => !said[kind].includes(name));
    const missing = said[kind].filter((name) => !had.includes(name));
    if (extra.length > 0) throw new Error(`registers ${kind} that plugin.json does not list: ${extra.join(", ")}`);
    if (missing.length > 0) throw new Error(`does not register ${kind} that plugin.json lists: ${missing.join(", ")}`);
  }
}

async function startHere(start: Start): Promise<Running> {
  const { plugin, manifest, clock } = start;
  const name = plugin.metadata.name;
  const main = pathToFileURL(await entryPoint(start.root, manifest)).href;
  const context: PluginContext = {
    name,
    config: structuredClone(plugin.spec.config),
    secret: (key) => secretOf(start, key),
    dataFolder: start.dataFolder,
    log: logOf(start),
  };
  // The query makes a changed plugin a new module; the old one's memory is not had back.
  const made = await limited(clock, { ms: HANG_MS, what: "register" }, () => registerPlugin(`${main}?${start.fingerprint}`, context));
  checkDeclared(manifest, [...made.tools.keys()], Object.keys(made.hooks));
  await limited(clock, { ms: HANG_MS, what: "start" }, async () => made.instance.start?.());
  return {
    tools: made.tools,
    hooks: made.hooks,
    stop: () => limited(clock, { ms: HANG_MS, what: `stop of plugin ${name}` }, async () => made.instance.stop?.()),
  };
}

/** Answers what a plugin's process asks for besides its answers. */
function serveChild(start: Start, child: PluginProcess, message: FromChild): void {
  if (message.op === "log") {
    const fields = typeof message.fields === "object" && message.fields !== null ? message.fields : undefined;
    return logOf(start)(saidText(message.message), fields as Parameters<PluginContext["log"]>[1]);
  }
  if (message.op !== "secret") return child.end("sent a message of unknown kind");
  const { id } = message;
  secretOf(start, saidText(message.key)).then(
    (value) => child.send({ op: "secret", id, value }),
    (error: unknown) => child.send({ op: "secret", id, error: messageOf(error) }),
  );
}

const remoteTool = (child: PluginProcess, name: string, description: string): ToolDefinition => ({
  name,
  description,
  run: async (input, { caller, config, signal }) =>
    unpackAnswer(await child.ask({ op: "tool", tool: name, input: packInput(input), caller, config }, signal)),
});

type Ready = FromChild & { readonly op: "ready" };

function readyOf(message: Ready): { readonly tools: ReadonlyMap<string, string>; readonly hooks: readonly string[] } {
  const tools: readonly unknown[] = Array.isArray(message.tools) ? message.tools.slice(0, 64) : [];
  const hooks: readonly unknown[] = Array.isArray(message.hooks) ? message.hooks : [];
  const named = tools.flatMap((tool) => {
    const { name, description } = (tool ?? {}) as { readonly name?: unknown; readonly description?: unknown };
    return typeof name === "string" && TOOL_NAME.test(name) ? [[name, saidText(description).slice(0, 1024)] as const] : [];
  });
  return { tools: new Map(named), hooks: HOOKS.filter((hook) => hooks.includes(hook)) };
}

async function startChild(start: Start): Promise<Running> {
  const { plugin, manifest, clock } = start;
  const name = plugin.metadata.name;
  const main = await entryPoint(start.root, manifest);
  let stopping = false;
  const settled = Promise.withResolvers<Ready>();
  let live = false;
  const child = new PluginProcess({
    name,
    dataFolder: start.dataFolder,
    clock,
    onPrint: (text) => start.log.info("plugin printed", { plugin: name, text }),
    onMessage: (message) => {
      if (message.op === "ready") settled.resolve(message);
      else if (message.op === "failed") settled.reject(new Error(saidText(message.error)));
      else serveChild(start, child, message);
    },
    onEnd: (why) => {
      settled.reject(new Error(why));
      if (live && !stopping) start.onEnd(why);
    },
  });
  settled.promise.catch(() => undefined);
  try {
    child.send({ op: "init", main, name, config: plugin.spec.config, dataFolder: start.dataFolder });
    const ready = readyOf(await limited(clock, { ms: HANG_MS, what: "register" }, () => settled.promise));
    checkDeclared(manifest, [...ready.tools.keys()], ready.hooks);
    await limited(clock, { ms: HANG_MS, what: "start" }, () => child.ask({ op: "start" }));
    live = true;
    const hooks = ready.hooks.map((hook) => [hook, (input: unknown) => child.ask({ op: "hook", hook, input })] as const);
    return {
      tools: new Map([...ready.tools].map(([tool, text]) => [tool, remoteTool(child, tool, text)])),
      hooks: Object.fromEntries(hooks) as Hooks,
      stop: async () => {
        stopping = true;
        await limited(clock, { ms: HANG_MS, what: `stop of plugin ${name}` }, () => child.ask({ op: "stop" })).finally(() =>
          child.end("was stopped"),
        );
      },
    };
  } catch (error) {
    child.end("was not started");
    throw error;
  }
}

/** Throws what went wrong, in the plugin's words. */
export async function startPlugin(start: Start): Promise<Running> {
  await mkdir(start.dataFolder, { recursive: true, mode: 0o700 });
  return start.plugin.spec.source.builtin === undefined ? startChild(start) : startHere(start);
}
