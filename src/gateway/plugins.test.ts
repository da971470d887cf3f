import { existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, expect, test } from "vitest";
import { systemClock } from "../adapters/clock.ts";
import { BeigeError } from "../core/errors.ts";
import type { PluginManifest, ToolAnswer } from "../core/plugin.ts";
import type { Agent, Plugin } from "../core/resource.ts";
import type { Log } from "../core/world.ts";
import type { PluginSource, Secret } from "../../schemas/types.ts";
import { createHooks } from "./hooks.ts";
import { createPluginHost, type Plugins } from "./plugins.ts";

let home = "";
let builtins = "";
let foreign = "";
let plugins: Plugins;
let logged: string[] = [];
let wanted: Plugin[];
let changed: string[] = [];
const say = (message: string, fields?: object): void => void logged.push(`${message} ${JSON.stringify(fields ?? {})}`);
const log: Log = { debug: say, info: say, warn: say, error: say };
const secrets = {
  resolve: async (ref: Secret) => {
    if (ref.secret === "good") return "hunter22";
    throw new BeigeError("denied", "secret is not bound");
  },
  redact: (text: string) => text.replaceAll("hunter22", "[secret]"),
};

beforeEach(() => {
  const folder = mkdtempSync(join(tmpdir(), "beige-plugins-"));
  [home, builtins, foreign] = [join(folder, "home"), join(folder, "builtins"), join(folder, "foreign")];
  for (const each of [home, builtins, foreign]) mkdirSync(each);
  logged = [];
  changed = [];
  wanted = [];
  const host = () => ({ secrets: [], paths: { mounts: [], workspaces: [], plugins: [foreign] } });
  plugins = createPluginHost({
    home,
    builtins,
    host,
    secrets,
    log,
    clock: systemClock,
    wanted: () => wanted,
    onChange: (name) => changed.push(name),
  });
});
afterEach(async () => {
  await plugins.stop();
  rmSync(join(home, ".."), { recursive: true, force: true });
});

const manifestOf = (name: string, more: object = {}): PluginManifest => ({
  name,
  description: "A test.",
  provides: { tools: [name] },
  ...more,
});
const tool = (name: string, body: string): string =>
  `registrar.tool({ name: ${JSON.stringify(name)}, description: "d", run: async (input, context) => { ${body} } });`;
const code = (register: string, more = ""): string =>
  `export const createPlugin = async (context) => ({ register: async (registrar) => { ${register} }, ${more} });\n`;

function lay(where: string, name: string, index: string, manifest: object = manifestOf(name)): string {
  const root = join(where, name);
  mkdirSync(root, { recursive: true });
  writeFileSync(join(root, "plugin.json"), JSON.stringify(manifest));
  writeFileSync(join(root, "index.ts"), index);
  return root;
}

const pluginOf = (name: string, source: PluginSource, more: object = {}): Plugin =>
  ({
    metadata: { name },
    spec: { source, config: { a: { x: 1 }, list: [1] }, secrets: { token: { secret: "good" }, bad: { secret: "no" } }, ...more },
  }) as unknown as Plugin;
const agent = {
  metadata: { name: "travel", namespace: "default", uid: "u" },
  spec: { coreTools: [], tools: ["t", "w"], plugins: { t: { a: { y: 2 }, list: [9] } }, suspend: false },
} as unknown as Agent;

let version = 0;
async function load(name: string, source: PluginSource, more: object = {}): Promise<void> {
  const { root, manifest } = await plugins.peek(source, foreign);
  await plugins.load(pluginOf(name, source, more), root, manifest, `v${++version}`, new AbortController().signal);
}
const caller = { agent: "travel", attribution: "none", callId: "c" } as const;
function call(plugin: string, name: string, args: readonly string[] = [], signal = new AbortController().signal): Promise<ToolAnswer> {
  const found = plugins.find(agent, plugin, name);
  if (found === undefined) throw new Error(`no tool ${name}`);
  return found.definition.run({ args, stdin: Buffer.from([0xff, 1]) }, { caller, config: found.config, signal });
}
async function until(what: () => boolean, ms = 10_000): Promise<void> {
  const end = Date.now() + ms;
  while (!what() && Date.now() < end) await systemClock.sleep(20);
  expect(what()).toBe(true);
}

/** The same plugin, in the gateway and in a process of its own. */
const places: readonly (readonly [string, () => string, PluginSource])[] = [
  ["a plugin that ships with beige", () => builtins, { builtin: "t" }],
  ["a foreign plugin", () => foreign, { path: "t" }],
];

test.each(places)("%s has its tools called with words, input, caller and merged configuration", async (_name, where, source) => {
  lay(
    where(),
    "t",
    code(
      tool(
        "t",
        "return { output: JSON.stringify([input.args, [...input.stdin], context.caller, context.config]), exitCode: 3, error: 'e' };",
      ),
    ),
  );
  await load("t", source);
  expect(plugins.seen("t")).toEqual({ state: "loaded", fingerprint: `v${version}`, tools: ["t"], hooks: [] });
  expect(plugins.owners("t")).toEqual(["t"]);
  expect(plugins.tool(agent, "t")?.plugin).toBe("t");
  const answer = await call("t", "t", ["a b", "ü"]);
  expect(answer).toMatchObject({ exitCode: 3, error: "e" });
  expect(JSON.parse(answer.output as string)).toEqual([["a b", "ü"], [255, 1], caller, { a: { x: 1, y: 2 }, list: [9] }]);
});

test.each(places)("%s answers bytes, throws errors and hears an abort", async (_name, where, source) => {
  const body = `if (input.args[0] === "bytes") return { output: new Uint8Array([255, 0]) };
    if (input.args[0] === "throw") throw new Error("own words");
    if (input.args[0] === "nothing") return undefined;
    await new Promise((_, fail) => context.signal.addEventListener("abort", () => fail(context.signal.reason)));`;
  lay(where(), "t", code(tool("t", body)));
  await load("t", source);
  expect(Buffer.from((await call("t", "t", ["bytes"])).output as Uint8Array)).toEqual(Buffer.from([255, 0]));
  await expect(call("t", "t", ["throw"])).rejects.toThrow("own words");
  const abort = new AbortController();
  const running = call("t", "t", ["wait"], abort.signal);
  setTimeout(() => abort.abort(new Error("enough")), 50);
  await expect(running).rejects.toThrow();
  expect(Buffer.from((await call("t", "t", ["bytes"])).output as Uint8Array)).toHaveLength(2);
});

test.each(places)("%s reads the secrets that the manifest names, and no other", async (_name, where, source) => {
  const body = `const of = (key) => context2.secret(key).catch((error) => "error: " + error.message);
    return { output: JSON.stringify([await of("token"), await of("bad"), await of("other"), await of("constructor")]) };`;
  lay(where(), "t", `export default async (context2) => ({ register: async (registrar) => { ${tool("t", body)} } });`);
  await load("t", source);
  const [good, bad, other, hostile] = JSON.parse((await call("t", "t")).output as string) as string[];
  expect(good).toBe("hunter22");
  expect(bad).toBe("error: secret is not bound");
  expect(other).toContain('has no secret "other"');
  expect(hostile).toContain('has no secret "constructor"');
});

test.each(places)(
  "%s that fails is quarantined with the reason, and others serve",
  async (_name, where, source) => {
    lay(where(), "w", code(tool("w", "return { output: 'fine' };")));
    await load("w", "builtin" in source ? { builtin: "w" } : { path: "w" });
    const failures: readonly (readonly [string, string])[] = [
      ["throw new Error('at import hunter22');", "at import [secret]"],
      [code("throw new Error('at register');"), "at register"],
      ["export const createPlugin = () => Promise.reject('text');", "text"],
      ["export const nothing = 1;", "exports no createPlugin"],
      ["this is no code", ""],
      [code(tool("other", "")), "plugin.json does not list: other"],
      [code(""), "does not register tools that plugin.json lists: t"],
      [code(tool("t", "") + tool("t", "")), "twice"],
      [code(tool("exec", "")), "core tool"],
      [code(tool("t", ""), "start: async () => { throw new Error('at start'); }"), "at start"],
    ];
    for (const [index, reason] of failures) {
      lay(where(), "t", index);
      await load("t", source);
      expect(plugins.seen("t"), index).toMatchObject({ state: "failed", error: expect.stringContaining(reason) });
      expect(plugins.seen("t")?.error).not.toContain("hunter22");
      expect(plugins.find(agent, "t", "t")).toBeUndefined();
      expect((await call("w", "w")).output).toBe("fine");
    }
    lay(where(), "t", code(tool("t", "return { output: 'mended' };")));
    await load("t", source);
    expect((await call("t", "t")).output).toBe("mended");
  },
  60_000,
);

test.each(places)(
  "%s that hangs in register is given up after 5 s",
  async (_name, where, source) => {
    lay(where(), "t", code("await new Promise(() => undefined);"));
    await load("t", source);
    expect(plugins.seen("t")).toMatchObject({ state: "failed", error: "register did not answer within 5000 ms" });
  },
  15_000,
);

test.each(places)("%s is replaced at once by its new version, and the old one is stopped", async (_name, where, source) => {
  const stopped = join(home, "stopped");
  const text = (answer: string): string =>
    code(
      tool("t", `return { output: "${answer}" };`),
      `stop: async () => { (await import("node:fs")).writeFileSync(${JSON.stringify(stopped)}, "${answer}"); }`,
    );
  lay(where(), "t", text("one"));
  await load("t", source);
  expect((await call("t", "t")).output).toBe("one");
  lay(where(), "t", text("two"));
  await load("t", source);
  expect((await call("t", "t")).output).toBe("two");
  expect(readFileSync(stopped, "utf8")).toBe("one");
  await plugins.unload("t");
  expect(readFileSync(stopped, "utf8")).toBe("two");
  expect(plugins.seen("t")).toBeUndefined();
  expect(plugins.owners("t")).toEqual([]);
});

const there = (pid: number): boolean => {
  try {
    return process.kill(pid, 0);
  } catch {
    return false;
  }
};

test("a foreign plugin that loops for ever blocks nobody and is ended", async () => {
  lay(foreign, "t", code(tool("t", "if (input.args[0] === 'pid') return { output: String(process.pid) }; for (;;) {}")));
  await load("t", { path: "t" });
  const pid = Number((await call("t", "t", ["pid"])).output);
  const looping = call("t", "t", ["loop"]);
  looping.catch(() => undefined);
  let ticks = 0;
  const timer = setInterval(() => (ticks += 1), 10);
  await expect(looping).rejects.toMatchObject({ code: "unavailable", message: expect.stringContaining("hangs") });
  clearInterval(timer);
  expect(ticks).toBeGreaterThan(100);
  expect(plugins.seen("t")).toMatchObject({ state: "failed", error: expect.stringContaining("no sign of life") });
  expect(changed).toEqual(["t"]);
  await until(() => !there(pid));
}, 30_000);

test("a foreign plugin that is busy for long, but alive, may finish", async () => {
  lay(foreign, "t", code(tool("t", "await new Promise((done) => setTimeout(done, 7000)); return { output: 'slow' };")));
  await load("t", { path: "t" });
  expect((await call("t", "t")).output).toBe("slow");
}, 20_000);

test("a foreign plugin that exits, crashes, floods, lies or eats memory is quarantined", async () => {
  const deaths: readonly (readonly [string, string])[] = [
    ["process.exit(3);", "code 3"],
    ["setTimeout(() => { throw new Error('async boom'); }); await new Promise(() => undefined);", "async boom"],
    ["void Promise.reject(new Error('unhandled')); await new Promise(() => undefined);", "unhandled"],
    [
      'const fs = await import(\'node:fs\'); const line = \'{"op":"log","message":"x"}\\n\'.repeat(1000); for (;;) try { fs.writeSync(3, line); } catch (error) { if (error.code !== \'EAGAIN\') throw error; }',
      "floods",
    ],
    [
      "const fs = await import('node:fs'); const part = 'x'.repeat(1 << 16); for (;;) try { fs.writeSync(3, part); } catch (error) { if (error.code !== 'EAGAIN') throw error; }",
      "too long",
    ],
    ["(await import('node:fs')).writeSync(3, 'no json\\n'); await new Promise(() => undefined);", "no JSON"],
    ["const all = []; for (;;) all.push(new Array(1e6).fill(all.length));", ""],
  ];
  for (const [body, reason] of deaths) {
    lay(foreign, "t", code(tool("t", body)));
    await load("t", { path: "t" });
    expect(plugins.seen("t")?.state, body).toBe("loaded");
    await expect(call("t", "t"), body).rejects.toMatchObject({ code: "unavailable" });
    expect(plugins.seen("t"), body).toMatchObject({ state: "failed", error: expect.stringContaining(reason) });
  }
}, 90_000);

test("a foreign plugin sees nothing of the gateway's environment, and its folder is private", async () => {
  process.env["PLANTED"] = "hunter22";
  lay(foreign, "t", code(tool("t", "return { output: JSON.stringify([process.env, process.cwd(), process.pid]) };")));
  await load("t", { path: "t" });
  const [env, cwd, pid] = JSON.parse((await call("t", "t")).output as string) as [object, string, number];
  delete process.env["PLANTED"];
  expect(env).toEqual({});
  expect(cwd).toBe(join(home, "plugins/t"));
  expect(pid).not.toBe(process.pid);
});

test("what a plugin logs and prints reaches the operator, bounded", async () => {
  lay(
    foreign,
    "t",
    `export const createPlugin = async (context) => ({ register: async (registrar) => { context.log("hello", { n: 1 }); console.log("printed"); for (let at = 0; at < 1000; at++) console.log("noise " + at); ${tool("t", "return { output: '' };")} } });`,
  );
  await load("t", { path: "t" });
  await call("t", "t");
  expect(logged.some((line) => line.startsWith("plugin says") && line.includes("hello"))).toBe(true);
  await until(() => logged.some((line) => line.includes('"text":"printed"')));
  expect(logged.filter((line) => line.includes("noise")).length).toBeLessThan(100);
});

test("a plugin by path lies below a root that host.yaml allows, on its real path", async () => {
  const away = join(home, "../away");
  lay(away, "t", code(""));
  await expect(plugins.peek({ path: join(away, "t") }, undefined)).rejects.toMatchObject({
    code: "denied",
    hint: expect.stringContaining("plugins: ["),
  });
  symlinkSync(join(away, "t"), join(foreign, "link"));
  await expect(plugins.peek({ path: "link" }, foreign)).rejects.toMatchObject({ code: "denied" });
  await expect(plugins.peek({ path: "../away/t" }, foreign)).rejects.toMatchObject({ code: "denied" });
  await expect(plugins.peek({ path: "t" }, undefined)).rejects.toMatchObject({ code: "invalid" });
  await expect(plugins.peek({ path: "absent" }, foreign)).rejects.toMatchObject({ code: "not_found" });
  await expect(plugins.peek({ builtin: "../foreign/t" }, undefined)).rejects.toMatchObject({ code: "invalid" });
});

test("a plugin.json is checked field by field", async () => {
  const bad: readonly unknown[] = [
    [],
    { ...manifestOf("t"), name: "../t" },
    { ...manifestOf("t"), description: "" },
    { ...manifestOf("t"), main: "../x.js" },
    { ...manifestOf("t"), provides: [] },
    { ...manifestOf("t"), provides: { tools: ["exec"] } },
    { ...manifestOf("t"), provides: { tools: ["Bad Name"] } },
    { ...manifestOf("t"), provides: { hooks: ["unknownHook"] } },
    { ...manifestOf("t"), files: ["../../etc/passwd"] },
  ];
  for (const manifest of bad) {
    lay(foreign, "t", code(""), manifest as object);
    await expect(plugins.peek({ path: "t" }, foreign), JSON.stringify(manifest)).rejects.toMatchObject({ code: "invalid" });
  }
  writeFileSync(join(foreign, "t/plugin.json"), "{");
  await expect(plugins.peek({ path: "t" }, foreign)).rejects.toMatchObject({ code: "invalid" });
  rmSync(join(foreign, "t/plugin.json"));
  await expect(plugins.peek({ path: "t" }, foreign)).rejects.toMatchObject({ code: "not_found" });
  writeFileSync(join(foreign, "secret.json"), JSON.stringify(manifestOf("t")));
  symlinkSync(join(foreign, "secret.json"), join(foreign, "t/plugin.json"));
  await expect(plugins.peek({ path: "t" }, foreign)).rejects.toMatchObject({ code: "invalid" });
});

test("the hash of the code changes with any file, and a link out of the folder is refused", async () => {
  const root = lay(foreign, "t", code(""));
  const first = await plugins.peek({ path: "t" }, foreign);
  expect((await plugins.peek({ path: "t" }, foreign)).codeHash).toBe(first.codeHash);
  mkdirSync(join(root, "lib"));
  writeFileSync(join(root, "lib/x.ts"), "1");
  const second = await plugins.peek({ path: "t" }, foreign);
  expect(second.codeHash).not.toBe(first.codeHash);
  symlinkSync("/etc/hostname", join(root, "lib/link"));
  await expect(plugins.peek({ path: "t" }, foreign)).rejects.toMatchObject({ code: "invalid" });
});

test("an entry point outside of the folder is not run", async () => {
  const root = lay(foreign, "t", code(""));
  rmSync(join(root, "index.ts"));
  writeFileSync(join(home, "evil.ts"), `require("node:fs").writeFileSync(${JSON.stringify(join(home, "ran"))}, "");`);
  symlinkSync(join(home, "evil.ts"), join(root, "index.ts"));
  await plugins.load(pluginOf("t", { path: "t" }), root, manifestOf("t"), "v", new AbortController().signal);
  expect(plugins.seen("t")).toMatchObject({ state: "failed", error: expect.stringContaining("leads out") });
  expect(existsSync(join(home, "ran"))).toBe(false);
});

const guardManifest = (name: string): PluginManifest => ({ name, description: "d", provides: { hooks: ["preToolCall"] } });
const guard = (body: string): string => code(`registrar.hooks({ preToolCall: async (input) => { ${body} } });`);

test("a guard in a process of its own decides, and when it dies nothing passes until it is mended or gone", async () => {
  const hooks = createHooks({ plugins, clock: systemClock, log, redact: secrets.redact });
  const ask = (args: readonly string[]): Promise<unknown> => hooks.guardCall({ agent: "travel", tool: "exec", args, callId: "c" });
  lay(
    foreign,
    "g",
    guard("if (input.args[0] === 'die') process.exit(1); if (input.args[0] === 'rm') return { deny: 'never' };"),
    guardManifest("g"),
  );
  await load("g", { path: "g" });
  expect(await ask(["ls"])).toBeUndefined();
  expect(await ask(["rm"])).toEqual({ deny: "never" });
  expect(await ask(["die"])).toMatchObject({ deny: expect.stringContaining("guard preToolCall of plugin g failed") });
  expect(await ask(["ls"])).toMatchObject({ deny: expect.stringContaining("plugin g failed") });
  await plugins.unload("g");
  expect(await ask(["ls"])).toBeUndefined();
});

test("a guard that was there before is waited for while a gateway starts; one of a plugin that goes is not", async () => {
  const before = (name: string, more: object = {}): Plugin =>
    ({ metadata: { name, ...more }, status: { observed: { hooks: ["preToolCall", "postToolCall"] } } }) as unknown as Plugin;
  wanted = [before("late"), before("leaving", { deletionTimestamp: "2026-01-01T00:00:00Z" })];
  expect(plugins.hooks().map(({ plugin, hooks }) => [plugin, Object.keys(hooks)])).toEqual([["late", ["preToolCall"]]]);
  const asked = plugins.hooks()[0]?.hooks.preToolCall?.({ agent: "a", tool: "exec", args: [], callId: "1" });
  const refuses = code(`registrar.hooks({ preToolCall: async () => ({ deny: "no" }) });`);
  lay(foreign, "late", refuses, { ...manifestOf("late"), provides: { hooks: ["preToolCall"] } });
  await load("late", { path: "late" });
  expect(await asked).toEqual({ deny: "no" });
});
