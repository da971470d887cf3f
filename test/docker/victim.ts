// A gateway's part of commands in a process of its own, to be killed at any moment: goes on with each command or starts it, and
// writes what came of it to a file when all have ended. Arguments: JSON of Victim. Says a line when all commands are with it.
import { createHash } from "node:crypto";
import {
  appendFileSync,
  closeSync,
  existsSync,
  mkdirSync,
  openSync,
  readdirSync,
  readFileSync,
  readSync,
  renameSync,
  rmSync,
  writeFileSync,
} from "node:fs";
import { join } from "node:path";
import { createDocker } from "../../sandbox/docker.ts";
import { guestPath } from "../../sandbox/guest.ts";
import type { Carrier } from "../../sandbox/resident/greet.ts";
import { systemClock } from "../../src/adapters/clock.ts";
import { BeigeError } from "../../src/core/errors.ts";
import type { ExecHandle } from "../../src/core/sandbox.ts";
import type { Shelf } from "../../src/core/world.ts";

export interface Victim {
  readonly socketPath: string;
  readonly container: string;
  readonly folder: string;
  readonly epoch: number;
  readonly keys: readonly string[];
  readonly command: readonly string[];
  /** A file that is each command's standard input. */
  readonly input?: string;
  readonly carrier: "attach" | "dial";
  /** Frames are cut and connections dropped. */
  readonly chaos?: boolean;
}

/** Each row is a file that appears whole. */
function fileShelf(folder: string): Shelf {
  mkdirSync(folder, { recursive: true });
  const file = (key: string): string => join(folder, encodeURIComponent(key));
  const get = (key: string): string | undefined => {
    try {
      return readFileSync(file(key), "utf8");
    } catch {
      return undefined;
    }
  };
  return {
    get,
    set: (key, value) => appear(file(key), value),
    delete: (key) => rmSync(file(key), { force: true }),
    list: (prefix) =>
      readdirSync(folder)
        .filter((name) => !name.endsWith(".new"))
        .map((name) => decodeURIComponent(name))
        .filter((key) => key.startsWith(prefix))
        .map((key) => ({ key, value: get(key) ?? "" })),
  };
}

function appear(file: string, text: string): void {
  writeFileSync(`${file}.new`, text);
  renameSync(`${file}.new`, file);
}

/** Every 8 to 48 ms the next piece, whichever way it goes, is cut anywhere and the connection is over. */
function tearing(inner: Carrier): Carrier {
  let due = performance.now() + 8 + Math.random() * 40;
  let torn = false;
  const pass = (chunk: Uint8Array, to: (part: Uint8Array) => void): void => {
    if (torn) return;
    torn = performance.now() > due;
    to(torn ? chunk.subarray(0, Math.floor(Math.random() * chunk.length)) : chunk);
    if (!torn) return;
    appendFileSync(join(victim.folder, "cuts"), "x");
    setImmediate(() => inner.destroy());
    due = 0;
  };
  return {
    write: (data) => pass(data, (part) => inner.write(part)),
    start: (on) => inner.start({ data: (chunk) => pass(chunk, (part) => on.data(part)), close: () => on.close() }),
    destroy: () => inner.destroy(),
  };
}

const victim = JSON.parse(process.argv[2] ?? "") as Victim;
const { container, folder } = victim;
const sandbox = createDocker({
  socketPath: victim.socketPath,
  guest: guestPath(),
  epoch: victim.epoch,
  kept: { shelf: fileShelf(join(folder, "shelf")), folder: join(folder, "commands") },
  clock: systemClock,
  log: { debug() {}, info() {}, warn() {}, error() {} },
  carriers: {
    dial: victim.carrier === "dial",
    between: (carrier, kind) => {
      appendFileSync(join(folder, kind), "x");
      return victim.chaos === true ? tearing(carrier) : carrier;
    },
  },
});

/** The file from the byte on that the command does not have yet. */
async function feed(handle: ExecHandle, path: string, from: number): Promise<void> {
  const file = openSync(path, "r");
  const chunk = Buffer.alloc(50_000);
  try {
    for (let at = from; ;) {
      const n = readSync(file, chunk, 0, chunk.length, at);
      if (n === 0) break;
      await handle.write(chunk.subarray(0, n));
      at += n;
    }
    await handle.end();
  } finally {
    closeSync(file);
  }
}

async function begin(key: string): Promise<ExecHandle> {
  const again = await sandbox.rejoin?.(container, key);
  const { command, input } = victim;
  const handle = again ?? (await sandbox.exec(container, { command, timeoutMs: 600_000, key, inputKept: input !== undefined }));
  if (input === undefined && again === undefined) await handle.end();
  const from = again === undefined ? 0 : again.inputFrom;
  if (input !== undefined && from !== undefined) feed(handle, input, from).catch(() => undefined);
  return handle;
}

/** A connection that is torn before it was greeted is a call that can be made again. */
async function surely<T>(run: () => Promise<T>): Promise<T> {
  for (let left = victim.chaos === true ? 100 : 0; ; left--) {
    try {
      return await run();
    } catch (error) {
      if (left <= 0 || !(error instanceof BeigeError) || error.code !== "unavailable") throw error;
    }
  }
}

const resultOf = (key: string): string => join(folder, `result-${key}`);

async function finish(key: string, handle: ExecHandle): Promise<void> {
  const hash = { stdout: createHash("sha256"), stderr: createHash("sha256") };
  for await (const { stream, data, free } of handle.output) {
    hash[stream].update(data);
    free?.();
  }
  const done = { key, exit: await handle.exit, stdout: hash.stdout.digest("hex"), stderr: hash.stderr.digest("hex") };
  appear(resultOf(key), JSON.stringify(done));
}

const open = await Promise.all(
  victim.keys.filter((key) => !existsSync(resultOf(key))).map(async (key) => ({ key, handle: await surely(() => begin(key)) })),
);
process.stdout.write("open\n");
await Promise.all(open.map(({ key, handle }) => finish(key, handle)));
appear(join(folder, "done"), `[${victim.keys.map((key) => readFileSync(resultOf(key), "utf8")).join(",")}]`);
process.exit(0);
