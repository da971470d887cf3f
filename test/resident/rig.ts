// The guest's `init` as a plain process for tests: its pipes outlive each connection, as an engine's attach stream does.
import { spawn, type ChildProcessWithoutNullStreams } from "node:child_process";
import { randomBytes } from "node:crypto";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { systemClock } from "../../src/adapters/clock.ts";
import type { ExecExit, ExecHandle } from "../../src/core/sandbox.ts";
import type { Shelf } from "../../src/core/world.ts";
import { guestPath } from "../../sandbox/guest.ts";
import { createResident, type Resident, type ResidentOptions } from "../../sandbox/resident.ts";
import { awaitDial, type Place } from "../../sandbox/resident/dial.ts";
import type { Carrier } from "../../sandbox/resident/greet.ts";

/** What stands between the two sides; answers what goes on of a chunk, and whether the connection breaks after it. */
export type Meddle = (chunk: Uint8Array, way: "in" | "out") => { readonly pass: Uint8Array; readonly cut: boolean };

export interface Rig {
  readonly child: ChildProcessWithoutNullStreams;
  /** Connections so far. */
  readonly opened: () => number;
  readonly connect: () => Promise<Carrier>;
  /** Connections that PID 1 made itself so far. */
  readonly dialled: () => number;
  readonly dial: NonNullable<ResidentOptions["dial"]>;
  /** Where it does. */
  readonly place: Place;
  /** Ends the connection there is, as a crash of the carrier does. */
  cut(): void;
  /** Bytes to PID 1 from nobody. */
  inject(bytes: Uint8Array): void;
  /** What PID 1 said on its standard error. */
  readonly said: () => string;
  meddle?: Meddle;
  end(): Promise<void>;
}

export function openRig(binary = guestPath(), env: NodeJS.ProcessEnv = {}): Rig {
  const child = spawn(binary, ["init"], { argv0: "tool-client", env: { PATH: process.env["PATH"], BEIGE_SOCKET: "/nowhere", ...env } });
  child.stdin.on("error", () => undefined);
  // As with an engine's attach: each client hears everything, and what they all say is mixed.
  const hearers = new Set<{ data(chunk: Uint8Array): void; close(): void }>();
  const folder = mkdtempSync(join(tmpdir(), "beige-dial-"));
  const place = { path: join(folder, "supervisor.sock"), inside: join(folder, "supervisor.sock") };
  let opened = 0;
  let dialled = 0;
  let said = "";
  const own = new Set<Carrier>();
  const cut = (): void => {
    for (const one of own) one.destroy();
    own.clear();
    const were = [...hearers];
    hearers.clear();
    for (const one of were) one.close();
  };
  const through = (chunk: Uint8Array, way: "in" | "out", on: (part: Uint8Array) => void): void => {
    const { pass, cut: breaks } = rig.meddle?.(chunk, way) ?? { pass: chunk, cut: false };
    if (pass.length > 0) on(pass);
    if (breaks) queueMicrotask(cut);
  };
  // Output while nobody is connected is thrown away.
  child.stdout.on("data", (chunk: Buffer) => {
    if (hearers.size > 0) through(chunk, "out", (part) => hearers.forEach((one) => one.data(part)));
  });
  child.stderr.on("data", (chunk: Buffer) => (said += chunk.toString()));
  /** The same between the two sides of PID 1's own connection. */
  const meddled = (inner: Carrier): Carrier => {
    own.add(inner);
    return {
      write: (data) => void (own.has(inner) && through(data, "in", (part) => inner.write(part))),
      start: (on) =>
        inner.start({
          data: (chunk) => own.has(inner) && through(chunk, "out", (part) => on.data(part)),
          close: () => {
            own.delete(inner);
            on.close();
          },
        }),
      destroy: () => inner.destroy(),
    };
  };
  const rig: Rig = {
    child,
    opened: () => opened,
    connect: () => {
      opened += 1;
      let mine: { data(chunk: Uint8Array): void; close(): void } | undefined;
      return Promise.resolve({
        write: (data) => {
          if (mine !== undefined && hearers.has(mine)) through(data, "in", (part) => void child.stdin.write(part));
        },
        start: (on) => void hearers.add((mine = on)),
        destroy: () => {
          if (mine !== undefined && hearers.delete(mine)) mine.close();
        },
      });
    },
    dialled: () => dialled,
    place,
    dial: async (_id, say, signal) => {
      const found = await awaitDial({ place, say, secret: randomBytes(16), clock: systemClock, signal });
      if (found !== undefined) dialled += 1;
      return found === undefined ? undefined : meddled(found);
    },
    cut,
    inject: (bytes) => void child.stdin.write(bytes),
    said: () => said,
    end: async () => {
      rmSync(folder, { recursive: true, force: true });
      if (child.exitCode !== null || child.signalCode !== null) return;
      const ended = new Promise((resolve) => child.once("close", resolve));
      child.kill("SIGKILL");
      await ended;
    },
  };
  return rig;
}

export function residentOf(rig: Rig, more: Partial<ResidentOptions> = {}): Resident {
  return createResident({
    connect: rig.connect,
    fate: () => Promise.resolve(rig.child.exitCode === null ? { state: "running", reason: "" } : { state: "ended", reason: "it ended" }),
    epoch: 1,
    nonce: () => randomBytes(16),
    clock: systemClock,
    log: { debug() {}, info() {}, warn() {}, error() {} },
    ...more,
  });
}

export interface Whole {
  readonly stdout: Buffer;
  readonly stderr: Buffer;
  readonly exit: ExecExit;
}

export async function whole(handle: ExecHandle, input?: Uint8Array): Promise<Whole> {
  const sent = (async () => {
    if (input !== undefined) await handle.write(input);
    await handle.end();
  })().catch(() => undefined);
  const parts = { stdout: [] as Uint8Array[], stderr: [] as Uint8Array[] };
  let count = 0;
  for await (const { stream, data, free } of handle.output) {
    // Who frees what came and who keeps it are both right.
    const kept = free !== undefined && count++ % 3 > 0;
    parts[stream].push(kept ? Buffer.from(data) : data);
    if (kept) free();
  }
  await sent;
  return { stdout: Buffer.concat(parts.stdout), stderr: Buffer.concat(parts.stderr), exit: await handle.exit };
}

export function memoryShelf(): Shelf {
  const rows = new Map<string, string>();
  return {
    get: (key) => rows.get(key),
    set: (key, value) => void rows.set(key, value),
    delete: (key) => void rows.delete(key),
    list: (prefix) =>
      [...rows]
        .filter(([key]) => key.startsWith(prefix))
        .toSorted(([a], [b]) => (a < b ? -1 : 1))
        .map(([key, value]) => ({ key, value })),
  };
}
