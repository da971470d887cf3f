// `npm run test:escape`: every attempt to get out of a sandbox, on every backend, as a table of outcome and of what stopped it.
import { spawnSync } from "node:child_process";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { bubblewrap, compiler, type Step } from "./needs.ts";

const root = join(dirname(fileURLToPath(import.meta.url)), "..");
const vitest = [join(root, "node_modules/vitest/vitest.mjs"), "run", "--project", "docker", "--disable-console-intercept"];
const steps: readonly Step[] = [
  compiler(),
  bubblewrap(),
  ["engine and images", "sh", [join(root, "sandbox/engine.sh"), "ensure"]],
  ["attempts", process.execPath, [...vitest, "--reporter=agent", "test/docker/escape.test.ts"]],
];

for (const [title, command, args] of steps) {
  const env = { ...process.env, BEIGE_TABLE: "1" };
  const run = spawnSync(command, args, { cwd: root, env, stdio: ["ignore", "inherit", "inherit"] });
  if (run.status === 0) continue;
  console.error(`${title} failed (${run.status ?? run.signal ?? run.error?.message})`);
  process.exitCode = 1;
  break;
}
