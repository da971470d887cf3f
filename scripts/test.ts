// `npm test`: static checks, then every kind of test. Starts what they need and cleans up after itself.
import { spawn, spawnSync } from "node:child_process";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { bubblewrap, compiler, promtool, terminal, type Step } from "./needs.ts";

const root = join(dirname(fileURLToPath(import.meta.url)), "..");

/** No step takes so long; one that hangs is ended and has failed. */
const STEP_MS = 25 * 60_000;
/** So long is each side of the supervisor's protocol under bent streams. */
const FUZZ_SECONDS = 60;

/** Runs one step with its output shown; answers whether it passed. */
function step(title: string, command: string, args: readonly string[]): boolean {
  console.log(`\n== ${title}`);
  const run = spawnSync(command, args, { cwd: root, stdio: ["ignore", "inherit", "inherit"], timeout: STEP_MS, killSignal: "SIGKILL" });
  if (run.status !== 0) console.error(`${title} failed (${run.status ?? run.signal ?? run.error?.message})`);
  return run.status === 0;
}

/** Runs a step beside the others, on what processor time they leave; its output comes when it is asked for. */
function beside(title: string, args: readonly string[]): () => Promise<boolean> {
  const run = spawn("nice", ["-n", "10", process.execPath, ...args], { cwd: root, stdio: ["ignore", "pipe", "pipe"], timeout: STEP_MS });
  const said: Buffer[] = [];
  for (const from of [run.stdout, run.stderr]) from.on("data", (data: Buffer) => void said.push(data));
  const ended = new Promise<boolean>((done) => {
    run.once("error", () => done(false));
    run.once("close", (code) => done(code === 0));
  });
  return async () => {
    const passed = await ended;
    console.log(`\n== ${title}\n${Buffer.concat(said).toString()}`);
    return passed;
  };
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
  promtool(),
  ["engine and images", "sh", [join(root, "sandbox/engine.sh"), "ensure"]],
  ["unit, contract, golden and sim tests", process.execPath, vitest("unit")],
];
const onEngine: readonly Step[] = [
  ["tests on the Docker engine", process.execPath, vitest("docker")],
  ["journeys on the Docker engine", process.execPath, vitest("stories")],
  ["stock kubectl and a client library", process.execPath, vitest("kubectl")],
  ["acceptance", process.execPath, [join(root, "scripts/accept.ts")]],
];

const failing = (all: readonly Step[]): readonly string[] =>
  all.filter(([title, command, args]) => !step(title, command, args)).map(([title]) => title);

const failed = [...failing(steps)];
const fuzzed = beside("bent streams of the supervisor's protocol", [join(root, "scripts/fuzz.ts"), String(FUZZ_SECONDS)]);
failed.push(...failing(onEngine));
if (!(await fuzzed())) failed.push("bent streams");
console.log(failed.length === 0 ? "\nall passed" : `\nfailed: ${failed.join(", ")}`);
process.exitCode = failed.length === 0 ? 0 : 1;
