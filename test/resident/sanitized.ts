// The guest built to notice each wrong access and each undefined step, where there is a compiler.
import { execFileSync, spawnSync } from "node:child_process";
import { readFileSync } from "node:fs";
import { join } from "node:path";

const source = new URL("../../sandbox/guest/", import.meta.url).pathname;

export const hasCompiler = (): boolean => spawnSync("gcc", ["--version"]).status === 0;

/** Answers the path of the program. */
export function buildSanitized(folder: string): string {
  const binary = join(folder, "beige-guest-sanitized");
  const sources = /^sources="([^"]+)"$/m.exec(readFileSync(join(source, "build.sh"), "utf8"))?.[1]?.split(/\s+/) ?? [];
  const flags = ["-std=gnu11", "-O1", "-g", "-fsanitize=address,undefined", "-fno-omit-frame-pointer", "-o", binary];
  execFileSync("gcc", [...flags, ...sources], { cwd: source });
  return binary;
}
