// Runs gateways that are killed at random moments until their commands have ended, and answers what came of them.
import { spawn } from "node:child_process";
import { createHash, randomBytes } from "node:crypto";
import { existsSync, mkdtempSync, readFileSync, rmSync, statSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as pause } from "node:timers/promises";
import type { Victim } from "./victim.ts";

const victimPath = new URL("./victim.ts", import.meta.url).pathname;

export interface Killing extends Pick<Victim, "socketPath" | "container" | "keys" | "command" | "carrier" | "chaos"> {
  readonly input?: string | undefined;
  /** Gateways are killed so often at most; the last one may finish. */
  readonly most: number;
  /** After all commands are with a gateway it lives so long. */
  readonly lifeMs: () => number;
  readonly deadMs: () => number | Promise<number>;
  /** All commands are with the first gateway. */
  readonly opened?: () => void;
}

export interface Killed {
  readonly results: readonly unknown[];
  readonly kills: number;
  /** Connections through the engine, those that supervisors made, and those that were torn. */
  readonly attached: number;
  readonly dialled: number;
  readonly cuts: number;
}

/** True when it was killed. */
async function gateway(victim: Victim, lifeMs: number | undefined, opened?: () => void): Promise<boolean> {
  const child = spawn(process.execPath, [victimPath, JSON.stringify(victim)], {
    stdio: ["ignore", "pipe", "pipe"],
    // Its start is the longest part of its life.
    env: { ...process.env, NODE_COMPILE_CACHE: join(tmpdir(), "beige-kills-cache") },
  });
  let said = "";
  let killed = false;
  child.stderr.on("data", (data: Buffer) => (said += data.toString()));
  child.stdout.once("data", () => {
    opened?.();
    if (lifeMs === undefined) return;
    setTimeout(() => {
      killed = child.exitCode === null;
      child.kill("SIGKILL");
    }, lifeMs);
  });
  const late = setTimeout(() => child.kill("SIGKILL"), 100_000);
  await new Promise((resolve) => child.once("close", resolve));
  clearTimeout(late);
  if (said !== "") throw new Error(said);
  return killed;
}

const bytes = (file: string): number => (existsSync(file) ? statSync(file).size : 0);

export async function killing({ most, lifeMs, deadMs, opened, input, ...rest }: Killing): Promise<Killed> {
  const folder = mkdtempSync(join(tmpdir(), "beige-kills-"));
  let kills = 0;
  try {
    for (let epoch = 1; !existsSync(join(folder, "done")); epoch++) {
      if (epoch > most + 3) throw new Error("it does not end");
      const victim = { ...rest, folder, epoch, ...(input === undefined ? {} : { input }) };
      if (await gateway(victim, epoch <= most ? lifeMs() : undefined, epoch === 1 ? opened : undefined)) kills += 1;
      await pause(await deadMs());
    }
    const count = (name: string): number => bytes(join(folder, name));
    const results = JSON.parse(readFileSync(join(folder, "done"), "utf8")) as readonly unknown[];
    return { results, kills, attached: count("attach"), dialled: count("dial"), cuts: count("cuts") };
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
}

export const sha = (data: string | Uint8Array): string => createHash("sha256").update(data).digest("hex");

/** A file of random bytes. */
export function randomFile(folder: string, size: number): { readonly path: string; readonly hash: string } {
  const data = randomBytes(size);
  const path = join(folder, `input-${size}`);
  writeFileSync(path, data);
  return { path, hash: sha(data) };
}
