// A plugin's own process as seen from the gateway: requests over a bounded pipe, and an end to whoever hangs, floods or lies.
import { type ChildProcess, spawn } from "node:child_process";
import type { Duplex, Readable } from "node:stream";
import { fileURLToPath } from "node:url";
import { BeigeError } from "../../core/errors.ts";
import type { Clock } from "../../core/world.ts";
import { createLines } from "../lines.ts";
import { type FromChild, LINE_BYTES_MAX, saidText, type ToChild } from "./wire.ts";

export interface ChildOptions {
  readonly name: string;
  readonly dataFolder: string;
  readonly clock: Pick<Clock, "after" | "monotonic">;
  onMessage(message: FromChild): void;
  /** A line that the plugin printed. */
  onPrint(line: string): void;
  /** Once: why the process is gone. */
  onEnd(why: string): void;
}

const HEAP_MIB = 256;
const MESSAGES_PER_SECOND = 20_000;
const UNSENT_BYTES_MAX = 32 * 1024 * 1024;
const PRINTED_BYTES_MAX = 8 * 1024;
const PRINTED_PER_SECOND = 20;
const TICK_MS = 1_000;
/** Ticks without a sign of life while an answer is due. */
const SILENT_TICKS = 5;

type Request = ToChild & { readonly id: number };
type Asked = Request extends infer R ? (R extends unknown ? Omit<R, "id"> : never) : never;

interface Pending {
  done(value: unknown): void;
  fail(error: Error): void;
}

const script = fileURLToPath(new URL(`./child${import.meta.url.endsWith(".ts") ? ".ts" : ".js"}`, import.meta.url));

export class PluginProcess {
  readonly #options: ChildOptions;
  readonly #child: ChildProcess;
  readonly #wire: Duplex;
  readonly #pending = new Map<number, Pending>();
  #nextId = 1;
  #ended = false;
  #silent = 0;
  #beating = false;
  #window = { at: 0, messages: 0, printed: 0 };
  #lastPrinted = "";

  constructor(options: ChildOptions) {
    this.#options = options;
    const flags = [`--max-old-space-size=${HEAP_MIB}`, "--disable-warning=ExperimentalWarning"];
    // A process group of its own, so that whatever the plugin started ends with it; an empty environment, since ours holds secrets.
    this.#child = spawn(process.execPath, [...flags, script], {
      cwd: options.dataFolder,
      env: {},
      detached: true,
      stdio: ["ignore", "pipe", "pipe", "pipe"],
    });
    this.#wire = this.#child.stdio[3] as Duplex;
    this.#listen();
  }

  #listen(): void {
    const lines = createLines(LINE_BYTES_MAX, (line) => this.#take(line));
    this.#wire.on("data", (chunk: Buffer) => {
      if (!this.#ended && !lines.push(chunk)) this.end("sent a message that is too long");
    });
    this.#wire.on("error", () => this.end("closed its pipe"));
    for (const stream of [this.#child.stdout, this.#child.stderr]) this.#print(stream);
    this.#child.on("error", (error) => this.end(`could not be started: ${error.message}`));
    this.#child.on("exit", (code, signal) => {
      const last = this.#lastPrinted === "" ? "" : `: ${this.#lastPrinted}`;
      this.end(`ended by itself (${signal ?? `code ${code}`})${last}`);
    });
  }

  #print(stream: Readable | null): void {
    const lines = createLines(PRINTED_BYTES_MAX, (line) => {
      const text = line.toString("utf8");
      if (/\S/.test(text) && !/^\s*(at |Node\.js v)/.test(text)) this.#lastPrinted = text.slice(0, 512);
      if (this.#count("printed") <= PRINTED_PER_SECOND) this.#options.onPrint(text);
    });
    let open = true;
    // Read on even when it is too much: a full pipe would stop the plugin.
    stream?.on("data", (chunk: Buffer) => (open = open && lines.push(chunk)));
  }

  #count(what: "messages" | "printed"): number {
    const now = this.#options.clock.monotonic();
    if (now - this.#window.at > 1_000) this.#window = { at: now, messages: 0, printed: 0 };
    this.#window[what] += 1;
    return this.#window[what];
  }

  #take(line: Buffer): void {
    if (this.#ended) return;
    this.#silent = 0;
    if (this.#count("messages") > MESSAGES_PER_SECOND) return this.end("floods the gateway with messages");
    let message: FromChild;
    try {
      message = JSON.parse(line.toString("utf8")) as FromChild;
    } catch {
      return this.end("sent what is no JSON");
    }
    if (typeof message !== "object" || message === null) return this.end("sent what is no message");
    if (message.op !== "answer") return this.#options.onMessage(message);
    const id = Number(message.id);
    const pending = this.#pending.get(id);
    this.#pending.delete(id);
    if (message.error === undefined) pending?.done(message.value);
    else pending?.fail(new Error(saidText(message.error)));
  }

  /** While an answer is due the process is asked for a sign of life: a loop without end gives none. */
  #beat(): void {
    if (this.#beating) return;
    this.#beating = true;
    const tick = (): void => {
      if (this.#ended || this.#pending.size === 0) {
        this.#beating = false;
        return;
      }
      this.#silent += 1;
      if (this.#silent > SILENT_TICKS) return this.end(`hangs: no sign of life for ${SILENT_TICKS} s`);
      this.send({ op: "ping", id: 0 });
      this.#options.clock.after(TICK_MS, tick);
    };
    this.#silent = 0;
    this.#options.clock.after(TICK_MS, tick);
  }

  send(message: ToChild): void {
    if (this.#ended) return;
    if (this.#wire.writableLength > UNSENT_BYTES_MAX) return this.end("does not read what it is sent");
    this.#wire.write(`${JSON.stringify(message)}\n`);
  }

  /** Rejects with the plugin's own error, with `unavailable` when the process is gone, and with the signal's reason. */
  ask(message: Asked, signal?: AbortSignal): Promise<unknown> {
    if (this.#ended) return Promise.reject(new BeigeError("unavailable", `plugin ${this.#options.name} is not running`));
    const id = this.#nextId++;
    return new Promise((done, fail) => {
      const stop = (): void => {
        this.send({ op: "abort", id });
        this.#pending.delete(id);
        fail(signal?.reason as Error);
      };
      const settle = (run: () => void): void => {
        signal?.removeEventListener("abort", stop);
        run();
      };
      if (signal?.aborted === true) return fail(signal.reason as Error);
      signal?.addEventListener("abort", stop, { once: true });
      this.#pending.set(id, { done: (value) => settle(() => done(value)), fail: (error) => settle(() => fail(error)) });
      this.send({ ...message, id } as ToChild);
      this.#beat();
    });
  }

  end(why: string): void {
    if (this.#ended) return;
    this.#ended = true;
    const error = new BeigeError("unavailable", `plugin ${this.#options.name} ${why}`);
    for (const pending of this.#pending.values()) pending.fail(error);
    this.#pending.clear();
    this.#wire.destroy();
    try {
      if (this.#child.pid !== undefined) process.kill(-this.#child.pid, "SIGKILL");
    } catch {
      // It is gone already.
    }
    this.#options.onEnd(why);
  }
}
