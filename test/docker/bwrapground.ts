// Sandboxes for tests under bubblewrap: a home and a user of their own, always cleaned up.
import { execFileSync } from "node:child_process";
import { randomBytes } from "node:crypto";
import { chmodSync, chownSync, copyFileSync, mkdirSync, mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createBwrap } from "../../sandbox/bwrap.ts";
import { realFiles, thisProcess, type Groups } from "../../sandbox/bwrap/group.ts";
import { parentsOf } from "../../sandbox/bwrap/tree.ts";
import { guestPath } from "../../sandbox/guest.ts";
import { systemClock } from "../../src/adapters/clock.ts";
import { LABEL, type Sandbox, type SandboxSpec } from "../../src/core/sandbox.ts";
import { finish } from "../contract/sandbox.ts";
import type { Place } from "./ground.ts";

const OWNER = 20_778;
const silent = { debug() {}, info() {}, warn() {}, error() {} };

export interface BwrapGround extends Place {
  /** As the next gateway. */
  readonly open: () => Sandbox;
}

/** beige-tiny:1 as a folder below BEIGE_HOME. */
export function unpackImage(home: string, name: string, image = "beige-tiny:1"): void {
  const folder = join(home, "images", name);
  mkdirSync(folder, { recursive: true });
  const script = 'id=$(docker create --network none "$1" true) && docker export "$id" | tar -x -C "$2" --exclude dev; docker rm -f "$id"';
  execFileSync("sh", ["-c", script, "sh", image, folder], { stdio: ["ignore", "ignore", "inherit"] });
}

/** Folders of the control groups of a sandbox, wherever they may be. */
export const groupsOf = (id: string): readonly string[] =>
  parentsOf(thisProcess()).flatMap((parent) => realFiles.list(parent).flatMap((name) => (name.endsWith(id) ? [join(parent, name)] : [])));

/** A host that lets nothing be limited by control groups. */
export const noGroups: Groups = {
  holds: () => [],
  make: () => Promise.resolve(undefined),
  change: () => [],
  kills: () => 0,
  remove: () => Promise.resolve(),
  sweep: () => undefined,
};

export function openBwrapGround(host: { readonly groups?: Groups } = {}): BwrapGround {
  const folder = mkdtempSync(join(tmpdir(), "beige-bwrap-"));
  const store = `test-${randomBytes(6).toString("hex")}`;
  for (const name of ["beige", "bin", "work"]) mkdirSync(join(folder, name));
  copyFileSync(guestPath(), join(folder, "beige/tool-client"));
  chmodSync(join(folder, "beige/tool-client"), 0o555);
  const root = process.getuid?.() === 0;
  const user = root ? { uid: OWNER, gid: OWNER } : { uid: process.getuid?.() ?? 0, gid: process.getgid?.() ?? 0 };
  if (root) chownSync(join(folder, "work"), OWNER, OWNER);
  let epoch = 0;
  const open = (): Sandbox => createBwrap({ home: folder, guest: guestPath(), epoch: ++epoch, clock: systemClock, log: silent, ...host });
  const sandbox = open();
  let made = 0;
  const spec = (change: Partial<SandboxSpec> = {}): SandboxSpec => {
    const name = `beige-test-${made++}`;
    return {
      name,
      labels: { [LABEL.store]: store, [LABEL.name]: name },
      image: "host",
      user,
      env: { PATH: "/tools/bin:/usr/bin:/bin", HOME: "/workspace" },
      mounts: [
        { source: join(folder, "beige"), target: "/beige", readOnly: true },
        { source: join(folder, "bin"), target: "/tools/bin", readOnly: true },
        { source: join(folder, "work"), target: "/workspace", readOnly: false },
      ],
      memoryBytes: 128 << 20,
      cpus: 1,
      pids: 128,
      tmpBytes: 16 << 20,
      network: "none",
      profile: "strict",
      ...change,
    };
  };
  return {
    sandbox,
    store,
    shell: true,
    folder,
    spec,
    open,
    up: async (change) => {
      const id = await sandbox.create(spec(change));
      await sandbox.start(id);
      return id;
    },
    run: async (id, script, more = {}) => finish(await sandbox.exec(id, { command: ["sh", "-c", script], timeoutMs: 20_000, ...more })),
    cleanup: async () => {
      for (const label of [store, `${store}2`]) for (const { id } of await sandbox.list(label)) await sandbox.remove(id);
      rmSync(folder, { recursive: true, force: true });
    },
  };
}
