// Containers for tests on the real engine: own labels and names, always cleaned up.
import { randomBytes } from "node:crypto";
import { chmodSync, chownSync, copyFileSync, mkdirSync, mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { execFileSync } from "node:child_process";
import { createDocker } from "../../sandbox/docker.ts";
import { guestPath } from "../../sandbox/guest.ts";
import { systemClock } from "../../src/adapters/clock.ts";
import { LABEL, type ExecRequest, type Sandbox, type SandboxSpec } from "../../src/core/sandbox.ts";
import { finish, type Ended, type SandboxUnderTest } from "../contract/sandbox.ts";

export const SOCKET = "/var/run/docker.sock";
const OWNER = 20_777;
export const engineScript = new URL("../../sandbox/engine.sh", import.meta.url).pathname;
const silent = { debug() {}, info() {}, warn() {}, error() {} };

export interface Place extends SandboxUnderTest {
  readonly folder: string;
  /** Creates and starts one. */
  up(change?: Partial<SandboxSpec>): Promise<string>;
  run(id: string, script: string, more?: Partial<ExecRequest>): Promise<Ended>;
}

export interface Ground extends Place {
  /** Command lines of all processes inside but PID 1, its keepers of commands and the asking command's own. */
  processes(id: string): Promise<readonly string[]>;
}

export const openDocker = (socketPath = SOCKET): Sandbox =>
  createDocker({ socketPath, guest: guestPath(), epoch: Date.now(), clock: systemClock, log: silent });

/** The image beige-tiny:1 and an engine are made where absent. */
export function openGround(socketPath = SOCKET): Ground {
  if (socketPath === SOCKET) execFileSync(engineScript, ["ensure"], { stdio: ["ignore", "ignore", "inherit"] });
  const folder = mkdtempSync(join(tmpdir(), "beige-docker-"));
  const store = `test-${randomBytes(6).toString("hex")}`;
  const sandbox = openDocker(socketPath);
  for (const name of ["beige", "bin", "work"]) mkdirSync(join(folder, name));
  copyFileSync(guestPath(), join(folder, "beige/tool-client"));
  chmodSync(join(folder, "beige/tool-client"), 0o555);
  chownSync(join(folder, "work"), OWNER, OWNER);
  chmodSync(folder, 0o711);
  const names: string[] = [];
  const spec = (change: Partial<SandboxSpec> = {}): SandboxSpec => {
    const name = `beige-test-${store.slice(5)}-${names.length}`;
    names.push(name);
    return {
      name,
      labels: { [LABEL.store]: store, [LABEL.name]: name },
      image: "beige-tiny:1",
      user: { uid: OWNER, gid: OWNER },
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
  const run = async (id: string, script: string, more: Partial<ExecRequest> = {}): Promise<Ended> =>
    finish(await sandbox.exec(id, { command: ["sh", "-c", script], timeoutMs: 20_000, ...more }));
  return {
    sandbox,
    store,
    shell: true,
    folder,
    spec,
    run,
    up: async (change) => {
      const id = await sandbox.create(spec(change));
      await sandbox.start(id);
      return id;
    },
    processes: async (id) => {
      const script = 'for p in /proc/[0-9]*; do [ "$p" = /proc/1 ] || { tr "\\0" " " <$p/cmdline; echo; } 2>/dev/null; done';
      // Past the supervisor, so that its own processes do not come and go with the question.
      const lines = execFileSync("docker", ["exec", id, "sh", "-c", script], { encoding: "utf8" }).split("\n");
      const own = (line: string): boolean =>
        line.includes("/proc/[0-9]*") || line.startsWith("tr ") || /^\/beige\/tool-client (keep|pass)/.test(line);
      return lines.filter((line) => line.trim() !== "" && !own(line));
    },
    cleanup: async () => {
      try {
        for (const label of [store, `${store}2`]) for (const { id } of await sandbox.list(label)) await sandbox.remove(id);
      } finally {
        rmSync(folder, { recursive: true, force: true });
      }
    },
  };
}
