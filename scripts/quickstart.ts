// `npm run quickstart`: from a bare machine to an answering, audited agent, by the same commands that a user types.
import { spawnSync } from "node:child_process";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";

const root = join(dirname(fileURLToPath(import.meta.url)), "..");
const beige = join(root, "bin/beige.cjs");
const stack = "manifests/quickstart.yaml";

interface Step {
  readonly say: string;
  readonly command: readonly string[];
  /** Exit codes that are fine: a diff answers 1 when there is something to do. */
  readonly fine?: readonly number[];
}

const steps: readonly Step[] = [
  { say: "a Docker engine and its base images", command: ["sh", "sandbox/engine.sh", "ensure"] },
  { say: "the gateway, with schedules on", command: [process.execPath, beige, "gateway", "start", "--schedules"] },
  { say: `beige diff -f ${stack}`, command: [process.execPath, beige, "diff", "-f", stack], fine: [0, 1] },
  { say: `beige apply -f ${stack}`, command: [process.execPath, beige, "apply", "-f", stack, "--yes"] },
  { say: "beige get all", command: [process.execPath, beige, "get", "all"] },
  { say: 'beige prompt assistant "hello"', command: [process.execPath, beige, "prompt", "assistant", "hello"] },
  { say: "beige audit tail -n 8", command: [process.execPath, beige, "audit", "tail", "-n", "8"] },
];

function run(step: Step): boolean {
  console.log(`\n$ ${step.say}`);
  const [command = "", ...args] = step.command;
  const done = spawnSync(command, args, { cwd: root, stdio: ["ignore", "inherit", "inherit"] });
  if ((step.fine ?? [0]).includes(done.status ?? -1)) return true;
  console.error(`\nthe quickstart stopped at: ${step.say} (exit ${done.status ?? done.signal})`);
  process.exitCode = done.status === null || done.status === 0 ? 1 : done.status;
  return false;
}

if (steps.every(run)) {
  console.log(`
It runs. Next:
  npx beige prompt assistant "hello again"     talk to it
  npx beige describe agent/assistant           what it is, what it may call, what happened to it
  npx beige diff -f ${stack}  what would change: nothing
  npx beige init my-agent                      a first stack of your own
  npx beige gateway stop                       stop the gateway (the sandboxes stay)`);
}
