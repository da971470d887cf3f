// `npm test`: static checks, then every kind of test. Starts what they need and cleans up after itself.
import { spawnSync } from "node:child_process";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";

const root = join(dirname(fileURLToPath(import.meta.url)), "..");

/** No step takes so long; one that hangs is ended and has failed. */
const STEP_MS = 25 * 60_000;

/** Runs one step with its output shown; answers whether it passed. */
function step(title: string, command: string, args: readonly string[]): boolean {
  console.log(`\n== ${title}`);
  const run = spawnSync(command, args, { cwd: root, stdio: ["ignore", "inherit", "inherit"], timeout: STEP_MS, killSignal: "SIGKILL" });
  if (run.status !== 0) console.error(`${title} failed (${run.status ?? run.signal ?? run.error?.message})`);
  return run.status === 0;
}

const bin = (name: string): string => join(root, "node_modules", ".bin", name);
const vitest = (project: string): readonly string[] => [join(root, "node_modules/vitest/vitest.mjs"), "run", "--project", project];

/** The C compiler for static binaries: the guest is rebuilt and compared, and escape attempts are compiled. */
function compiler(): readonly [string, string, readonly string[]] {
  const install =
    "command -v musl-gcc >/dev/null || { apt-get update -qq && apt-get install -y -qq --no-install-recommends musl-tools gcc >/dev/null; }";
  return ["a compiler for the sandbox's tests", "sh", ["-c", install]];
}

/** The backend without an engine is tested beside the one with it. */
function bubblewrap(): readonly [string, string, readonly string[]] {
  const install =
    "command -v bwrap >/dev/null || { apt-get update -qq && apt-get install -y -qq --no-install-recommends bubblewrap util-linux >/dev/null; }";
  return ["bubblewrap for the sandbox's tests", "sh", ["-c", install]];
}

/** A terminal for the tests of `beige tui` and `beige top`. */
function terminal(): readonly [string, string, readonly string[]] {
  const install = "command -v tmux >/dev/null || { apt-get update -qq && apt-get install -y -qq --no-install-recommends tmux >/dev/null; }";
  return ["a terminal for the tests of the terminal", "sh", ["-c", install]];
}

const steps: readonly (readonly [string, string, readonly string[]])[] = [
  ["types", bin("tsc"), ["-p", "."]],
  ["lint", bin("oxlint"), ["--type-aware"]],
  ["format", bin("oxfmt"), ["--check"]],
  compiler(),
  terminal(),
  bubblewrap(),
  ["engine and images", "sh", [join(root, "sandbox/engine.sh"), "ensure"]],
  ["unit, contract, golden and sim tests", process.execPath, vitest("unit")],
  ["tests on the Docker engine", process.execPath, vitest("docker")],
  ["stock kubectl and a client library", process.execPath, vitest("kubectl")],
  ["acceptance", process.execPath, [join(root, "scripts/accept.ts")]],
];

const failed = steps.filter(([title, command, args]) => !step(title, command, args)).map(([title]) => title);
console.log(failed.length === 0 ? "\nall passed" : `\nfailed: ${failed.join(", ")}`);
process.exitCode = failed.length === 0 ? 0 : 1;
