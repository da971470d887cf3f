// The program as a user has it: built, and installed in a folder without sources, so that the bench never measures TypeScript.
import { spawnSync } from "node:child_process";
import { cpSync, existsSync, globSync, mkdirSync, mkdtempSync, rmSync, statSync, symlinkSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { root } from "../test/gateway.ts";

const SOURCES = ["{src,controllers,sandbox,plugins,schemas,bin}/**/*", "scripts/build.ts", "package.json", "tsconfig*.json"];

const newest = (patterns: readonly string[]): number =>
  Math.max(0, ...patterns.flatMap((pattern) => globSync(pattern, { cwd: root })).map((path) => statSync(join(root, path)).mtimeMs));

/** Builds dist/ where it is older than what it is made of. */
function build(): void {
  const built = join(root, "dist/cli.cjs");
  const made = existsSync(built) ? statSync(built).mtimeMs : 0;
  const tests = globSync("{src,controllers,sandbox,plugins}/**/*.test.ts", { cwd: root });
  const sources = SOURCES.flatMap((pattern) => globSync(pattern, { cwd: root })).filter((path) => !tests.includes(path));
  if (made > newest(sources)) return;
  const run = spawnSync(process.execPath, [join(root, "scripts/build.ts")], { cwd: root, stdio: ["ignore", "ignore", "inherit"] });
  if (run.status !== 0) throw new Error("npm run build failed");
}

/** A folder as npm would make it; `remove` takes it away. */
export function install(): { readonly folder: string; remove(): void } {
  build();
  const folder = mkdtempSync(join(tmpdir(), "beige-bench-"));
  const to = join(folder, "beige");
  mkdirSync(to);
  for (const name of ["bin", "dist", "schemas", "manifests", "package.json"]) {
    cpSync(join(root, name), join(to, name), { recursive: true, preserveTimestamps: true });
  }
  symlinkSync(join(root, "node_modules"), join(to, "node_modules"));
  return { folder: to, remove: () => rmSync(folder, { recursive: true, force: true }) };
}
