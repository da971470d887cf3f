import { spawn, spawnSync } from "node:child_process";
import { createHash } from "node:crypto";
import {
  chmodSync,
  chownSync,
  copyFileSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { afterEach, beforeEach, expect, test } from "vitest";

const bin = join(dirname(fileURLToPath(import.meta.url)), "../../bin/beige.cjs");
let root = "";
beforeEach(() => {
  root = mkdtempSync(join(tmpdir(), "beige-bin-"));
  mkdirSync(join(root, "bin"));
  copyFileSync(bin, join(root, "bin/beige.cjs"));
  writeFileSync(join(root, "old.cjs"), 'Object.defineProperty(process, "versions", { value: { ...process.versions, node: "20.20.2" } });');
});
afterEach(() => rmSync(root, { recursive: true, force: true }));

const asOld = (...args: string[]): string[] => ["-r", join(root, "old.cjs"), join(root, "bin/beige.cjs"), ...args];
function localNode(script: string): void {
  mkdirSync(join(root, "node_modules/node/bin"), { recursive: true });
  writeFileSync(join(root, "node_modules/node/bin/node"), `#!/bin/sh\n${script}\n`);
  chmodSync(join(root, "node_modules/node/bin/node"), 0o755);
}

test("an old Node is told what is needed, in one sentence and exit 2", () => {
  const ran = spawnSync(process.execPath, asOld("version"), { encoding: "utf8" });
  expect(ran).toMatchObject({ status: 2, stdout: "" });
  expect(ran.stderr).toMatch(/^error: beige needs Node 24 or newer \(this is 20\.20\.2\)\nfix: {3}.*node@24/);
});

test("an old Node hands over to the Node 24 of a clone, with words, streams and exit code", () => {
  localNode('shift; printf "%s|" "$@"; cat; echo err >&2; exit 42');
  const ran = spawnSync(process.execPath, asOld("exec", "a b", "--", "$x"), { encoding: "utf8", input: "stdin" });
  expect(ran).toMatchObject({ status: 42, stdout: "exec|a b|--|$x|stdin", stderr: "err\n" });
});

test("signals reach the Node that was handed over to, and its end by a signal is told", async () => {
  localNode('trap "echo got; exit 7" TERM; echo up; while :; do sleep 0.05; done');
  const child = spawn(process.execPath, asOld("up"), { stdio: ["ignore", "pipe", "ignore"] });
  let out = "";
  child.stdout.on("data", (part: Buffer) => {
    if (out === "") child.kill("SIGTERM");
    out += part.toString();
  });
  expect(await new Promise((done) => child.on("exit", done))).toBe(7);
  expect(out).toBe("up\ngot\n");
  localNode("kill -KILL $$");
  expect(spawnSync(process.execPath, asOld("up")).status).toBe(137);
});

test("the door itself is readable by Nodes of ten years ago", () => {
  const text = readFileSync(bin, "utf8");
  expect(text).not.toMatch(/=>|\bconst\b|\blet\b|\basync\b|`|\?\.|\?\?|\.\.\./);
});

test("a package without sources runs its built form", () => {
  mkdirSync(join(root, "dist"));
  writeFileSync(join(root, "dist/cli.cjs"), 'console.log("built", process.argv.slice(2).join(" "))');
  expect(spawnSync(process.execPath, [join(root, "bin/beige.cjs"), "get", "x"], { encoding: "utf8" }).stdout).toBe("built get x\n");
});

test("what a frequent verb compiled is kept for this very build only, and a damaged file is made anew", () => {
  const home = join(root, "home");
  mkdirSync(home);
  mkdirSync(join(root, "dist"));
  writeFileSync(join(root, "dist/extra.js"), "export const word = 'later';");
  const build = (text: string): void => {
    const body = `const say = (what) => console.log(what, process.argv.slice(2).join(" "), require("node:path").basename(__filename));\nsay(${JSON.stringify(text)});\n(module.ownImport ?? ((name) => import(name)))("./extra.js").then(({ word }) => say(word));\n`;
    writeFileSync(join(root, "dist/cli.cjs"), `// ${createHash("sha256").update(body).digest("hex")}\n${body}`);
  };
  const said = (...args: string[]): string => {
    const env = { ...process.env, BEIGE_HOME: home };
    const ran = spawnSync(process.execPath, [join(root, "bin/beige.cjs"), ...args], { encoding: "utf8", env });
    expect(ran).toMatchObject({ status: 0, stderr: "" });
    return ran.stdout;
  };
  const kept = join(home, "cache/cli-get");
  build("one");
  for (let i = 0; i < 3; i++) expect(said("get", "x")).toBe("one get x cli.cjs\nlater get x cli.cjs\n");
  const whole = readFileSync(kept);
  expect(statSync(kept).mode & 0o777).toBe(0o600);
  // The same length: an engine that compares no more than that would run the old one.
  build("two");
  for (let i = 0; i < 2; i++) expect(said("get", "x")).toBe("two get x cli.cjs\nlater get x cli.cjs\n");
  build("one");
  for (const damaged of [Buffer.alloc(0), whole.subarray(0, 300), Buffer.alloc(whole.length)]) {
    writeFileSync(kept, damaged);
    expect(said("get")).toBe("one get cli.cjs\nlater get cli.cjs\n");
    expect(readFileSync(kept).length).toBeGreaterThan(300);
  }
  said("other");
  said("../get");
  expect(readdirSync(join(home, "cache")).filter((name) => !name.startsWith("v"))).toStrictEqual(["cli-get"]);
});

test("no home is made for what is compiled, and one that takes nothing hinders nobody", () => {
  mkdirSync(join(root, "dist"));
  writeFileSync(join(root, "dist/cli.cjs"), `// ${"a".repeat(64)}\nconsole.log("built");`);
  const home = join(root, "home");
  const run = (): string =>
    spawnSync(process.execPath, [join(root, "bin/beige.cjs"), "get"], { encoding: "utf8", env: { ...process.env, BEIGE_HOME: home } })
      .stdout;
  expect(run()).toBe("built\n");
  expect(existsSync(home)).toBe(false);
  mkdirSync(home);
  writeFileSync(join(home, "cache"), "a file");
  expect(run()).toBe("built\n");
  expect(readdirSync(home)).toStrictEqual(["cache"]);
});

test("what another user can write is never run, and nothing is kept there", () => {
  mkdirSync(join(root, "dist"));
  const body = 'console.log("built");\n';
  writeFileSync(join(root, "dist/cli.cjs"), `// ${createHash("sha256").update(body).digest("hex")}\n${body}`);
  const home = join(root, "home");
  const cache = join(home, "cache");
  const run = (): readonly string[] => {
    const env = { ...process.env, BEIGE_HOME: home };
    const ran = spawnSync(process.execPath, [join(root, "bin/beige.cjs"), "get"], { encoding: "utf8", env });
    expect(ran).toMatchObject({ status: 0, stdout: "built\n", stderr: "" });
    return existsSync(cache) ? readdirSync(cache).filter((name) => name.startsWith("cli-")) : [];
  };
  const modes = { home: 0o700, cache: 0o700 };
  const lay = (more: Partial<typeof modes>): void => {
    rmSync(home, { recursive: true, force: true });
    mkdirSync(cache, { recursive: true });
    const { home: outer, cache: inner } = { ...modes, ...more };
    chmodSync(cache, inner);
    chmodSync(home, outer);
  };
  for (const more of [{ home: 0o770 }, { home: 0o707 }, { cache: 0o775 }, { cache: 0o777 }]) {
    lay(more);
    expect(run()).toStrictEqual([]);
  }
  // A link to a folder of everybody.
  lay({});
  rmSync(cache, { recursive: true });
  mkdirSync(join(root, "everybody"));
  chmodSync(join(root, "everybody"), 0o777);
  symlinkSync(join(root, "everybody"), cache);
  expect(run()).toStrictEqual([]);
  lay({});
  expect(run()).toStrictEqual(["cli-get"]);
  // Made by the program itself it is nobody else's, whatever is usual here.
  rmSync(cache, { recursive: true });
  expect(run()).toStrictEqual(["cli-get"]);
  expect(statSync(cache).mode & 0o777).toBe(0o700);
});

test("nothing is run that the owner of another's home left there, not by root either", () => {
  mkdirSync(join(root, "dist"));
  const body = 'console.log("built");\n';
  writeFileSync(join(root, "dist/cli.cjs"), `// ${createHash("sha256").update(body).digest("hex")}\n${body}`);
  const own = join(root, "home");
  const isRoot = process.getuid?.() === 0;
  for (const theirs of isRoot ? [own, join(own, "cache")] : ["/usr"]) {
    rmSync(own, { recursive: true, force: true });
    mkdirSync(join(own, "cache"), { recursive: true });
    if (isRoot) chownSync(theirs, 65_534, 65_534);
    const home = isRoot ? own : theirs;
    const env = { ...process.env, BEIGE_HOME: home };
    const ran = spawnSync(process.execPath, [join(root, "bin/beige.cjs"), "get"], { encoding: "utf8", env });
    expect(ran).toMatchObject({ status: 0, stdout: "built\n", stderr: "" });
    expect(existsSync(join(home, "cache")) ? readdirSync(join(home, "cache")) : []).toStrictEqual([]);
  }
});
