// Entry point of a foreign plugin's own process: speaks JSON lines on descriptor 3 and ends when the gateway does.
import { Socket } from "node:net";
import { pathToFileURL } from "node:url";
import type { Hooks, PluginContext, ToolDefinition } from "../../core/plugin.ts";
import { createLines } from "../lines.ts";
import { registerPlugin, type Registered } from "./register.ts";
import { type FromChild, LINE_BYTES_MAX, packAnswer, type ToChild, unpackInput } from "./wire.ts";

const wire = new Socket({ fd: 3, readable: true, writable: true });
const asked = new Map<number, { done(value: string): void; fail(error: Error): void }>();
const running = new Map<number, AbortController>();
let registered: Registered | undefined;
let nextSecret = 1;

const messageOf = (error: unknown): string => (error instanceof Error ? error.message : String(error)).slice(0, 2048);
const send = (message: FromChild): void => void wire.write(`${JSON.stringify(message)}\n`);

const contextOf = (init: ToChild & { readonly op: "init" }): PluginContext => ({
  name: init.name,
  config: init.config,
  dataFolder: init.dataFolder,
  secret: (key) =>
    new Promise((done, fail) => {
      const id = nextSecret++;
      asked.set(id, { done, fail });
      send({ op: "secret", id, key });
    }),
  log: (message, fields) => send({ op: "log", message, ...(fields === undefined ? {} : { fields }) }),
});

async function init(message: ToChild & { readonly op: "init" }): Promise<void> {
  try {
    registered = await registerPlugin(pathToFileURL(message.main).href, contextOf(message));
    const tools = [...registered.tools.values()].map(({ name, description }) => ({ name, description }));
    send({ op: "ready", tools, hooks: Object.keys(registered.hooks) });
  } catch (error) {
    send({ op: "failed", error: messageOf(error) });
  }
}

function findTool(name: string): ToolDefinition {
  const tool = registered?.tools.get(name);
  if (tool === undefined) throw new Error(`has no tool '${name}'`);
  return tool;
}

async function work(message: ToChild): Promise<unknown> {
  switch (message.op) {
    case "tool": {
      const abort = new AbortController();
      running.set(message.id, abort);
      const context = { caller: message.caller, config: message.config, signal: abort.signal };
      return packAnswer(await findTool(message.tool).run(unpackInput(message.input), context));
    }
    case "hook": {
      const hook = registered?.hooks[message.hook as keyof Hooks] as ((input: unknown) => Promise<unknown>) | undefined;
      return hook?.(message.input);
    }
    case "start":
      return registered?.instance.start?.();
    case "stop":
      return registered?.instance.stop?.();
    default:
      return undefined;
  }
}

async function answer(message: ToChild & { readonly id: number }): Promise<void> {
  try {
    const value = await work(message);
    send({ op: "answer", id: message.id, ...(value === undefined ? {} : { value }) });
  } catch (error) {
    send({ op: "answer", id: message.id, error: messageOf(error) });
  } finally {
    running.delete(message.id);
  }
}

function secret(message: ToChild & { readonly op: "secret" }): void {
  const waiting = asked.get(message.id);
  asked.delete(message.id);
  if (message.value !== undefined) waiting?.done(message.value);
  else waiting?.fail(new Error(message.error ?? "secret cannot be had"));
}

function take(message: ToChild): void {
  if (message.op === "init") void init(message);
  else if (message.op === "abort") running.get(message.id)?.abort(new Error("cancelled"));
  else if (message.op === "secret") secret(message);
  else void answer(message);
}

const lines = createLines(LINE_BYTES_MAX, (line) => take(JSON.parse(line.toString("utf8")) as ToChild));
wire.on("data", (chunk: Buffer) => lines.push(chunk));
wire.on("close", () => process.exit(0));
wire.on("error", () => process.exit(0));
wire.on("end", () => process.exit(0));
