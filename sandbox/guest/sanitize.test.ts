// The same promises, kept by a guest that was built to notice each wrong access and each undefined step.
import { execFileSync, spawnSync } from "node:child_process";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, expect, test } from "vitest";
import { residentSuite } from "../../test/resident/suite.ts";

const folder = mkdtempSync(join(tmpdir(), "beige-sanitize-"));
const binary = join(folder, "beige-guest-sanitized");
const source = new URL(".", import.meta.url).pathname;
const hasCompiler = spawnSync("gcc", ["--version"]).status === 0;

function build(): void {
  const script = execFileSync("cat", [join(source, "build.sh")], { encoding: "utf8" });
  const sources = /^sources="([^"]+)"$/m.exec(script)?.[1]?.split(/\s+/) ?? [];
  const flags = ["-std=gnu11", "-O1", "-g", "-fsanitize=address,undefined", "-fno-omit-frame-pointer", "-o", binary];
  execFileSync("gcc", [...flags, ...sources], { cwd: source });
}

beforeAll(() => {
  if (hasCompiler) build();
}, 60_000);
afterAll(() => rmSync(folder, { recursive: true, force: true }));

if (hasCompiler) residentSuite("resident supervisor under sanitizers", () => binary);
else test("without gcc on this machine the guest is not built with sanitizers", () => expect(hasCompiler).toBe(false));
