// What is published, unpacked into an empty prefix: it starts, validates, runs a gateway, and its read verbs stay light.
import { spawn, spawnSync } from "node:child_process";
import { existsSync, mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { afterAll, beforeAll, expect, test } from "vitest";

const root = join(dirname(fileURLToPath(import.meta.url)), "../..");
const prefix = mkdtempSync(join(tmpdir(), "beige-pack-"));
const home = join(prefix, "home");
const installed = join(prefix, "node_modules/beige");
const env = {
  PATH: `${dirname(process.execPath)}:${process.env["PATH"] ?? ""}`,
  HOME: prefix,
  BEIGE_HOME: home,
  BEIGE_LISTEN: "none",
  LANG: "C.UTF-8",
};
const beige = (...args: string[]) =>
  spawnSync(process.execPath, [join(installed, "bin/beige.cjs"), ...args], { cwd: prefix, env, encoding: "utf8" });

/** The tarball's content beside links to the dependencies that are installed here: the registry is not asked. */
beforeAll(() => {
  const packed = spawnSync("npm", ["pack", "--json", "--pack-destination", prefix], {
    cwd: root,
    encoding: "utf8",
    env: { ...process.env, PATH: env.PATH },
  });
  expect(packed.status, packed.stderr).toBe(0);
  const tarball = readdirSync(prefix).find((name) => name.endsWith(".tgz")) ?? "";
  mkdirSync(installed, { recursive: true });
  expect(spawnSync("tar", ["-xzf", join(prefix, tarball), "-C", installed, "--strip-components=1"]).status).toBe(0);
  const { dependencies } = JSON.parse(readFileSync(join(root, "package.json"), "utf8")) as { dependencies: Record<string, string> };
  for (const name of Object.keys(dependencies)) {
    mkdirSync(dirname(join(prefix, "node_modules", name)), { recursive: true });
    symlinkSync(join(root, "node_modules", name), join(prefix, "node_modules", name));
  }
}, 120_000);
afterAll(() => rmSync(prefix, { recursive: true, force: true }));

test("the package holds no sources, no tests and everything that it reads at run time", () => {
  const all = readdirSync(installed, { recursive: true, encoding: "utf8" });
  expect(all.filter((name) => /\.test\.|^src\/|^(?!schemas\/).*(?<!\.d)\.ts$/.test(name))).toEqual([]);
  for (const path of [
    "dist/cli.cjs",
    "dist/src/daemon.js",
    "dist/src/index.d.ts",
    "schemas/beige.json",
    "dist/plugins/memory/plugin.json",
    "dist/plugins/memory/SKILL.md",
    "manifests/quickstart.yaml",
  ]) {
    expect(existsSync(join(installed, path)), path).toBe(true);
  }
});

test("it says its version, validates and compares manifests", () => {
  const { version } = JSON.parse(readFileSync(join(root, "package.json"), "utf8")) as { version: string };
  expect(beige("version")).toMatchObject({ status: 0, stdout: `beige ${version}\n`, stderr: "" });
  expect(beige("validate", "-f", join(installed, "manifests/quickstart.yaml"))).toMatchObject({ status: 0, stderr: "" });
  expect(
    beige("diff", "-f", join(installed, "manifests/quickstart.yaml"), "--against", join(installed, "manifests/quickstart.yaml")).status,
  ).toBe(0);
  expect(beige("init")).toMatchObject({ status: 0, stdout: expect.stringContaining("next: beige apply") as string });
  expect(beige("secret", "list").status).toBe(0);
});

test("a read verb loads no HTTP, YAML, validator or Docker code", () => {
  const hook = join(prefix, "loaded.cjs");
  writeFileSync(
    hook,
    `process.on("exit", () => require("fs").writeFileSync(${JSON.stringify(join(prefix, "loaded.json"))}, JSON.stringify([process.moduleLoadList, Object.keys(require.cache)])))`,
  );
  const ran = spawnSync(process.execPath, ["-r", hook, join(installed, "bin/beige.cjs"), "get", "agents"], {
    cwd: prefix,
    env,
    encoding: "utf8",
  });
  expect(ran.status).toBe(5);
  const [builtin, files] = JSON.parse(readFileSync(join(prefix, "loaded.json"), "utf8")) as [string[], string[]];
  expect(
    builtin.filter((name) => / (http|https|http2|tls|_http_\w+|crypto|child_process|readline|internal\/deps\/undici\/undici)$/.test(name)),
  ).toEqual([]);
  expect(
    files
      .filter((name) => name !== hook)
      .map((name) => name.slice(installed.length + 1))
      .toSorted(),
  ).toEqual(["bin/beige.cjs", "dist/cli.cjs"]);
});

test("up runs the gateway in this very process, and SIGTERM ends it", async () => {
  const child = spawn(process.execPath, [join(installed, "bin/beige.cjs"), "up", "--no-schedules"], {
    cwd: prefix,
    env,
    stdio: ["ignore", "ignore", "pipe"],
  });
  let said = "";
  child.stderr.on("data", (part: Buffer) => (said += part.toString()));
  const ended = new Promise<number | null>((done) => child.on("exit", done));
  await expect.poll(() => beige("gateway", "status").status, { timeout: 30_000, interval: 300, message: said }).toBe(0);
  expect(JSON.parse(beige("gateway", "status", "-o", "json").stdout)).toMatchObject({ running: true, pid: child.pid });
  expect(beige("up").status, "a second one refuses").toBe(3);
  writeFileSync(join(prefix, "p.yaml"), "apiVersion: beige.dev/v1\nkind: Provider\nmetadata: {name: echo}\nspec: {api: echo}\n");
  expect(beige("apply", "-f", "p.yaml", "--no-start")).toMatchObject({ status: 0 });
  expect(beige("diff", "-f", "p.yaml")).toMatchObject({ status: 0, stdout: expect.stringContaining("No changes") as string });
  child.kill("SIGTERM");
  expect(await ended, said).toBe(0);
}, 90_000);
