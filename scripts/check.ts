// `npm run check`: the static checks alone, in seconds. `--fix` mends what can be mended.
import { spawnSync } from "node:child_process";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";

const root = join(dirname(fileURLToPath(import.meta.url)), "..");
const fix = process.argv.includes("--fix");
const steps: readonly (readonly string[])[] = [
  ["oxfmt", ...(fix ? [] : ["--check"])],
  ["tsc", "-p", "."],
  ["oxlint", "--type-aware", ...(fix ? ["--fix"] : [])],
];
for (const [name = "", ...args] of steps) {
  const run = spawnSync(join(root, "node_modules", ".bin", name), args, { cwd: root, stdio: "inherit" });
  if (run.status !== 0) process.exitCode = 1;
}
