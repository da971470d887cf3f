// A person's terminal in a sandbox, by stock kubectl and by beige itself: a real tmux, a real gateway, a real container.
import { spawn, spawnSync } from "node:child_process";
import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { afterAll, afterEach, beforeAll, describe, expect, test } from "vitest";
import { root, until } from "../gateway.ts";
import { kubectls } from "./clients.ts";
import { BENCH_MS, bench, type Bench, type Shell } from "./rig.ts";

const kubectl = kubectls().at(-1);
const server = `beige-terminal-${process.pid}`;
const tmux = (...words: string[]): string => spawnSync("tmux", ["-L", server, "-f", "/dev/null", ...words], { encoding: "utf8" }).stdout;
const screen = (): string => tmux("capture-pane", "-p", "-t", "it", "-S", "-200").trimEnd();
const key = (...names: string[]): string => tmux("send-keys", "-t", "it", ...names);
const type = (text: string): void => {
  tmux("send-keys", "-t", "it", "-l", text);
  key("Enter");
};
/** The image has no stty. */
const SIZE = `node -p "process.stdout.getWindowSize().reverse().join(' ')"`;
/** Deaf to what ends others, with a grandchild in a session of its own. */
const TREE = `node -e "require('child_process').spawn('sleep',['4322'],{detached:true,stdio:'ignore'}); process.on('SIGTERM',()=>{}).on('SIGHUP',()=>{}); require('child_process').spawn('sleep',['4323']); setInterval(()=>{},1e6)"`;
let at: Bench;
let shell: Shell;

async function shows(what: RegExp, ms = 10_000): Promise<string> {
  return until(() => (what.test(screen()) ? screen() : undefined), ms, String(what)).catch((error: unknown) => {
    throw new Error(`${String(error)}\n--- screen\n${screen()}`);
  });
}

/** A shell of this machine in a terminal, and the command in it; after it, its exit code and the terminal's settings. */
function open(command: string): void {
  const line = `${command}; echo "code $?"; stty -a; exec sh`;
  tmux("new-session", "-d", "-s", "it", "-x", "101", "-y", "31", line);
}

const beigeLine = (flags: string, command: string, env = ""): string =>
  `env BEIGE_HOME=${at.gateway.home} ${env} ${process.execPath} ${join(root, "bin/beige.cjs")} exec ${flags} travel -- ${command}`;
const kubectlLine = (flags: string, command: string): string =>
  `env HOME=${shell.folder} KUBECONFIG=${at.kubeconfig} ${kubectl?.path} exec ${flags} travel -- ${command}`;

/** Pids in the sandbox whose command line is just this. */
async function running(words: string): Promise<string> {
  const find = `for p in /proc/[0-9]*; do [ "$(tr '\\0' ' ' < $p/cmdline 2>/dev/null)" = '${words} ' ] && echo $p; done; true`;
  const ran = await at.gateway.request("POST", "/api/agents/travel/exec", { command: find });
  return (ran.body as { content: { text: string }[] }).content[0]?.text.trim() ?? "";
}

const rows = (): readonly Record<string, unknown>[] =>
  readFileSync(join(at.gateway.home, "logs/audit.jsonl"), "utf8")
    .trim()
    .split("\n")
    .map((line) => JSON.parse(line) as Record<string, unknown>);

/** The terminal is as it was: it echoes, and lines are lines. */
function isSane(text: string): void {
  expect(text).toMatch(/[^-]icanon/);
  expect(text).toMatch(/[^-]echo[^en]/);
  expect(text).toMatch(/[^-]isig/);
}

/** Ends the process of this machine whose parent is the pane's shell. */
function endClient(signal: NodeJS.Signals): void {
  const pane = tmux("list-panes", "-t", "it", "-F", "#{pane_pid}").trim();
  const child = spawnSync("pgrep", ["-P", pane], { encoding: "utf8" }).stdout.trim().split("\n")[0];
  process.kill(Number(child), signal);
}

beforeAll(async () => {
  if (kubectl === undefined || kubectl.minor < 30) throw new Error("the newest kubectl here is older than 1.30: KUBECTL=/path/to/kubectl");
  at = await bench();
  shell = at.shell(kubectl);
  // A server without sessions ends, perhaps just while the next test asks it for one.
  tmux("new-session", "-d", "-s", "stay", "sleep 100000");
}, BENCH_MS);
afterEach(() => void tmux("kill-session", "-t", "it"));
afterAll(async () => {
  tmux("kill-server");
  await at.end();
}, 30_000);

describe.each([
  ["kubectl exec", kubectlLine],
  ["beige exec", beigeLine],
] as const)("%s", (_, line) => {
  test("a shell: its size, changes of it, ^C to the program and not to the shell, its exit code, the terminal as it was", async () => {
    open(line("-it", "sh"));
    await shows(/[#$] *$/);
    type(`readlink /proc/self/fd/0; ${SIZE}; echo T=$TERM`);
    expect(await shows(/T=\w/)).toMatch(/\/dev\/pts\/\d+\n31 101\nT=(xterm|screen|tmux)/);
    tmux("resize-window", "-t", "it", "-x", "77", "-y", "20");
    await until(
      () => {
        type(SIZE);
        return screen().includes("20 77");
      },
      10_000,
      "the new size",
    );
    type("trap 'echo shell heard' INT; sleep 4321");
    await until(() => running("sleep 4321"), 5_000, "it sleeps");
    key("C-c");
    await until(async () => (await running("sleep 4321")) === "", 2_000, "^C ended it");
    type("echo lives $((6*7))");
    await shows(/lives 42/);
    type("exit 7");
    const last = await shows(/code 7[^]*icanon[^]*echo/);
    isSane(last);
    const row = rows().findLast((each) => each["type"] === "core_tool" && JSON.stringify(each["args"]) === '["sh"]');
    expect(row).toMatchObject({ tool: "exec", decision: "allowed", principal: "operator", exitCode: 7 });
  });

  test("what a program draws passes through as it is: no line feed goes back to the left", async () => {
    open(line("-it", "cat"));
    await until(() => running("cat"), 8_000, "it runs");
    const settings = (): string =>
      spawnSync("stty", ["-a", "-F", tmux("list-panes", "-t", "it", "-F", "#{pane_tty}").trim()], { encoding: "utf8" }).stdout;
    await until(() => settings().includes("-opost"), 3_000, "output as it is");
    expect(settings()).toMatch(/-icanon[^]*-echo/);
    key("C-c");
    expect(await shows(/code 130[^]*opost[^]*icanon/)).not.toContain("-opost");
  });

  test("a program that looks at its size once, at its start, sees the terminal's", async () => {
    open(line("-it", SIZE));
    expect(await shows(/code \d/)).toMatch(/31 101\s+code 0/);
  });

  test.each(["SIGTERM", "SIGHUP", "SIGKILL"] as const)("%s of the client ends the whole tree within a second", async (signal) => {
    open(line("-it", TREE));
    await until(async () => (await running("sleep 4322")) !== "" && (await running("sleep 4323")) !== "", 8_000, "both run");
    endClient(signal);
    const from = Date.now();
    await until(async () => (await running("sleep 4322")) === "" && (await running("sleep 4323")) === "", 3_000, "the tree is gone");
    if (line === beigeLine && signal !== "SIGKILL") isSane(await shows(/code 1\d\d[^]*icanon[^]*echo/));
    const row = await until(
      () => rows().findLast((each) => JSON.stringify(each["args"]).includes("detached") && each["phase"] === "end"),
      2_000,
      "its row",
    );
    expect(row).toMatchObject({ outcome: "cancelled" });
    // The outcome is written when nothing of the tree is left; each look of ours costs a command in the sandbox.
    expect(Date.parse(String(row["ts"])) - from).toBeLessThan(1_000);
  });
});

test("beige exec -t: a gateway that is killed ends it with a sentence, and the terminal is as it was", async () => {
  open(beigeLine("-it", "cat"));
  await until(() => running("cat"), 8_000, "it runs");
  await at.gateway.kill();
  const last = await shows(/code \d[^]*icanon[^]*echo/);
  expect(last).toMatch(/the gateway went away in the middle of the command[^]*code 5/);
  isSane(last);
  await at.gateway.start({ BEIGE_KUBE_LISTEN: "0" });
  const told = await at.gateway.beige("kubeconfig");
  writeFileSync(at.kubeconfig, told.out, { mode: 0o600 });
}, 60_000);

function piped(args: readonly string[], input: Buffer, env: Readonly<Record<string, string>> = {}) {
  return new Promise<{ readonly code: number | null; readonly out: Buffer; readonly err: string }>((done) => {
    const full = { PATH: process.env["PATH"] ?? "", BEIGE_HOME: at.gateway.home, ...env };
    const child = spawn(process.execPath, [join(root, "bin/beige.cjs"), "exec", ...args], { env: full });
    const out: Buffer[] = [];
    let err = "";
    child.stdout.on("data", (part: Buffer) => out.push(part));
    child.stderr.on("data", (part: Buffer) => (err += String(part)));
    child.stdin.on("error", () => undefined).end(input);
    child.on("close", (code) => done({ code, out: Buffer.concat(out), err }));
  });
}

test("beige exec -i passes on bytes as they are, both outputs apart, and the exit code; by the port with a token too", async () => {
  const bytes = Buffer.alloc(3_000_000, Buffer.from(Array.from({ length: 251 }, (_, i) => i)));
  const echoed = await piped(["-i", "travel", "--", "cat"], bytes);
  expect([echoed.code, echoed.err, echoed.out.equals(bytes)]).toEqual([0, "", true]);
  const apart = await piped(["-i", "travel", "--cwd", "/tmp", "--", "pwd; wc -c; echo err >&2; exit 3"], Buffer.from("12345"));
  expect([apart.code, apart.out.toString(), apart.err]).toEqual([3, "/tmp\n5\n", "err\n"]);
  const port = ((await at.gateway.request("GET", "/api/health")).body as { url: string }).url;
  const token = readFileSync(join(at.gateway.home, "token"), "utf8").trim();
  const far = await piped(["-i", "travel", "--", "cat"], Buffer.from("by the port"), { BEIGE_GATEWAY: port, BEIGE_TOKEN: token });
  expect([far.code, far.out.toString()]).toEqual([0, "by the port"]);
});

test("what cannot be is said in one sentence, with the codes of every verb", async () => {
  const none = Buffer.alloc(0);
  expect(await piped(["-it", "travel", "--", "sh"], none)).toMatchObject({
    code: 2,
    err: expect.stringMatching(/^error: -t needs a terminal\nfix: /),
  });
  expect(await piped(["-i", "nobody", "--", "sh"], none)).toMatchObject({
    code: 1,
    err: expect.stringMatching(/^error: agent\/nobody does not exist\n/),
  });
  expect(await piped(["-i", "-o", "json", "travel", "--", "sh"], none)).toMatchObject({
    code: 2,
    err: expect.stringContaining("-o json does not go with -i"),
  });
  const away = { BEIGE_HOME: "/nonexistent" };
  expect(await piped(["-i", "travel", "--", "sh"], none, away)).toMatchObject({
    code: 5,
    err: expect.stringContaining("no gateway answers at"),
  });
  expect(await piped(["-i", "travel", "--timeout", "1s", "--", "sleep 60"], none)).toMatchObject({
    code: 124,
    err: expect.stringContaining("ran longer than 1 s"),
  });
});
