// A newcomer's machine: a fresh copy of the files under version control, an empty HOME, no node_modules.
import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";
import { cpSync, mkdirSync, mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { root } from "../gateway.ts";

/** Copies what git would: tracked files, and new ones that it does not ignore. */
function copyTree(to: string): void {
  const listed = spawnSync("git", ["ls-files", "-co", "--exclude-standard", "-z"], { cwd: root, encoding: "utf8" });
  for (const file of listed.stdout.split("\0").filter(Boolean)) {
    mkdirSync(dirname(join(to, file)), { recursive: true });
    cpSync(join(root, file), join(to, file));
  }
}

const docker = (...args: string[]): string => spawnSync("docker", args, { encoding: "utf8" }).stdout ?? "";

export async function clone(): Promise<string> {
  const place = mkdtempSync(join(tmpdir(), "beige-clone-"));
  const home = join(place, "home");
  const copy = join(place, "beige");
  mkdirSync(home);
  copyTree(copy);
  // The machine's own Node, not the one that runs this.
  const path = (process.env.PATH ?? "")
    .split(":")
    .filter((part) => !part.includes("node_modules"))
    .join(":");
  const env = { PATH: path, HOME: home, BEIGE_LISTEN: "none", NODE_EXTRA_CA_CERTS: process.env.NODE_EXTRA_CA_CERTS ?? "" };
  const npm = (...args: string[]) => spawnSync("npm", args, { cwd: copy, env, encoding: "utf8", timeout: 300_000 });
  const npx = (...args: string[]) => spawnSync("npx", ["beige", ...args], { cwd: copy, env, encoding: "utf8", timeout: 60_000 });
  try {
    const first = npm("run", "quickstart");
    assert.equal(first.status, 0, first.stdout + first.stderr);
    assert.match(first.stdout, /hello from the quickstart/, "the agent called the plugin tool from its sandbox");
    const since = String(Math.floor(Date.now() / 1000));
    const second = npm("run", "quickstart");
    assert.equal(second.status, 0, second.stdout + second.stderr);
    assert.match(second.stdout, /unchanged/, second.stdout);
    const store = /"store":\s*"([0-9a-f-]+)"/.exec(npx("gateway", "status", "-o", "json").stdout)?.[1] ?? "";
    const changes = ["create", "start", "stop", "kill", "die", "destroy", "rename", "update"].flatMap((event) => [
      "--filter",
      `event=${event}`,
    ]);
    const filters = ["--filter", `label=beige.dev/store=${store}`, "--filter", "type=container", ...changes];
    const events = docker(
      "events",
      "--since",
      since,
      "--until",
      String(Math.ceil(Date.now() / 1000)),
      ...filters,
      "--format",
      "{{.Action}}",
    );
    assert.deepEqual(events.split("\n").filter(Boolean), [], "the second run changes no container");
    const diff = npx("diff", "-f", "manifests/quickstart.yaml");
    assert.equal(diff.status, 0, diff.stdout + diff.stderr);
    return "quickstart twice from an empty HOME; the second run changed nothing; diff exits 0";
  } finally {
    const store = /"store":\s*"([0-9a-f-]+)"/.exec(npx("gateway", "status", "-o", "json").stdout)?.[1];
    npx("gateway", "stop");
    const ids = store === undefined ? [] : docker("ps", "-aq", "--filter", `label=beige.dev/store=${store}`).split("\n").filter(Boolean);
    if (ids.length > 0) docker("rm", "-f", ...ids);
    rmSync(place, { recursive: true, force: true });
  }
}
