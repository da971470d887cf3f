// `npm test`: static checks, then every kind of test. Starts what they need and cleans up after itself.
import { spawnSync } from "node:child_process";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { bubblewrap, compiler, terminal, type Step } from "./needs.ts";

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

const steps: readonly Step[] = [
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
