// Every kubectl there is: Debian's, fetched when it is not kept yet, and those on this machine, one of each version.
import { execFileSync } from "node:child_process";
import { existsSync, mkdirSync, mkdtempSync, readdirSync, realpathSync, renameSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { delimiter, dirname, join } from "node:path";
import { root } from "../gateway.ts";

export interface Kubectl {
  readonly path: string;
  /** Such as 1.33. */
  readonly version: string;
  readonly minor: number;
}

const CACHE = join(root, "node_modules/.cache/kubectl");

/** Takes Debian's package apart into the cache; undefined where that cannot be done. */
function debians(): string | undefined {
  const path = join(CACHE, "usr/bin/kubectl");
  if (existsSync(path)) return path;
  const folder = mkdtempSync(join(tmpdir(), "beige-kubectl-"));
  try {
    const run = (command: string, args: readonly string[]): void =>
      void execFileSync(command, args, { cwd: folder, stdio: ["ignore", "ignore", "ignore"], timeout: 120_000 });
    try {
      run("apt-get", ["download", "-qq", "kubernetes-client"]);
    } catch {
      run("apt-get", ["update", "-qq"]);
      run("apt-get", ["download", "-qq", "kubernetes-client"]);
    }
    const deb = readdirSync(folder).find((name) => name.endsWith(".deb"));
    if (deb === undefined) return undefined;
    mkdirSync(dirname(CACHE), { recursive: true });
    // Beside the cache, so that it can be renamed into it whole.
    const fresh = mkdtempSync(`${CACHE}-`);
    run("dpkg", ["-x", join(folder, deb), fresh]);
    rmSync(CACHE, { recursive: true, force: true });
    renameSync(fresh, CACHE);
    return path;
  } catch {
    return undefined;
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
}

/** On PATH, and beside each of those: vendors ship several versions in one folder. */
function found(): readonly string[] {
  const onPath = (process.env["PATH"] ?? "").split(delimiter).filter((folder) => existsSync(join(folder, "kubectl")));
  const beside = onPath.map((folder) => dirname(realpathSync(join(folder, "kubectl"))));
  return [...new Set([...onPath, ...beside])].flatMap((folder) =>
    readdirSync(folder)
      .filter((name) => /^kubectl(\.\d+\.\d+)?$/.test(name))
      .map((name) => join(folder, name)),
  );
}

function inspect(path: string): Kubectl | undefined {
  try {
    const told = execFileSync(path, ["version", "--client", "-o", "json"], { encoding: "utf8", stdio: ["ignore", "pipe", "ignore"] });
    const { major, minor } = (JSON.parse(told) as { clientVersion: { major: string; minor: string } }).clientVersion;
    return { path, version: `${major}.${parseInt(minor, 10)}`, minor: parseInt(minor, 10) };
  } catch {
    return undefined;
  }
}

/** Oldest first. `KUBECTL` names further ones, separated as in PATH. */
export function kubectls(): readonly Kubectl[] {
  const named = (process.env["KUBECTL"] ?? "").split(delimiter).filter((path) => path !== "");
  const all = [...named, debians(), ...found()].flatMap((path) => (path === undefined ? [] : (inspect(path) ?? [])));
  if (all.length === 0) throw new Error("there is no kubectl: apt-get install kubernetes-client, or KUBECTL=/path/to/kubectl");
  return [...new Map(all.toReversed().map((each) => [each.version, each])).values()].toSorted((a, b) => a.minor - b.minor);
}
