// A gateway's part of commands in a process of its own, to be killed at any moment: goes on with each command or starts it, and
// writes what came of it to a file when all have ended. Arguments: JSON of Victim.
import { createHash } from "node:crypto";
import { mkdirSync, readdirSync, readFileSync, renameSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { createDocker } from "../../sandbox/docker.ts";
import { guestPath } from "../../sandbox/guest.ts";
import { systemClock } from "../../src/adapters/clock.ts";
import type { Shelf } from "../../src/core/world.ts";

export interface Victim {
  readonly socketPath: string;
  readonly container: string;
  readonly folder: string;
  readonly epoch: number;
  readonly keys: readonly string[];
  readonly script: string;
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
    set: (key, value) => {
      writeFileSync(`${file(key)}.new`, value);
      renameSync(`${file(key)}.new`, file(key));
    },
    delete: (key) => rmSync(file(key), { force: true }),
    list: (prefix) =>
      readdirSync(folder)
        .filter((name) => !name.endsWith(".new"))
        .map((name) => decodeURIComponent(name))
        .filter((key) => key.startsWith(prefix))
        .map((key) => ({ key, value: get(key) ?? "" })),
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
});

async function one(key: string): Promise<unknown> {
  const again = await sandbox.rejoin?.(container, key);
  const handle = again ?? (await sandbox.exec(container, { command: ["sh", "-c", victim.script], timeoutMs: 60_000, key }));
  if (again === undefined) await handle.end();
  const hash = { stdout: createHash("sha256"), stderr: createHash("sha256") };
  for await (const { stream, data } of handle.output) hash[stream].update(data);
  return { key, exit: await handle.exit, stdout: hash.stdout.digest("hex"), stderr: hash.stderr.digest("hex") };
}

const done = await Promise.all(victim.keys.map(one));
writeFileSync(join(folder, "done.new"), JSON.stringify(done));
renameSync(join(folder, "done.new"), join(folder, "done"));
process.exit(0);
