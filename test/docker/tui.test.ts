// `beige tui` in a real terminal under tmux against a real gateway: what a person sees and types, over a kill of the gateway.
import { spawnSync } from "node:child_process";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { afterAll, afterEach, beforeAll, expect, test } from "vitest";
import { logTail, makeGateway, root, until } from "../gateway.ts";

const STACK = `
apiVersion: beige.dev/v1
kind: Provider
metadata: {name: scripted}
spec:
  api: echo
  echo:
    steps:
      - {match: "^list", toolCall: {tool: exec, args: {command: "echo inside $((6*7)); id -u"}}}
      - {match: "^wait", toolCall: {tool: exec, args: {command: "sleep 60"}}}
      - {match: "^fail", error: {status: 401}}
      - {match: "^evil", text: "x\\e]2;TAKEN\\ay"}
      - {match: ".", from: tool, text: "The sandbox said: $0"}
---
apiVersion: beige.dev/v1
kind: Agent
metadata: {name: travel}
spec: &spec
  model: {provider: scripted, id: echo-1}
  fallbacks: [{provider: scripted, id: echo-2}]
  instructions: You are a test.
  sandbox: {image: "beige-base:1", resources: {memory: 256Mi, cpus: 500m, pids: 128}}
---
apiVersion: beige.dev/v1
kind: Agent
metadata: {name: writer}
spec:
  model: {provider: scripted, id: echo-1}
  sandbox: {image: "beige-base:1", resources: {memory: 256Mi, cpus: 500m, pids: 128}}
`.replace("&spec", "");

const gateway = makeGateway();
const server = `beige-tui-${process.pid}`;
const tmux = (...words: string[]): string => spawnSync("tmux", ["-L", server, "-f", "/dev/null", ...words], { encoding: "utf8" }).stdout;
const screen = (): string => tmux("capture-pane", "-p", "-t", "it", "-S", "-200").trimEnd();
const key = (...names: string[]): string => tmux("send-keys", "-t", "it", ...names);

/** Waits until the screen shows it, and answers the screen. */
async function shows(what: string | RegExp, ms = 20_000): Promise<string> {
  const there = (): string | undefined => {
    const now = screen();
    return (typeof what === "string" ? now.includes(what) : what.test(now)) ? now : undefined;
  };
  return until(there, ms, String(what)).catch((error: unknown) => {
    throw new Error(`${String(error)}\n--- screen\n${screen()}\n--- gateway\n${logTail(gateway)}`);
  });
}

function type(text: string): void {
  tmux("send-keys", "-t", "it", "-l", text);
  key("Enter");
}

/** A shell in a terminal, and the program in it. Keys of providers lie in its environment, as on a developer's machine. */
async function openTui(...words: string[]): Promise<void> {
  const env = `BEIGE_HOME=${gateway.home} OPENAI_API_KEY=sk-local-0123456789 ANTHROPIC_API_KEY=sk-local-0123456789`;
  const command = `env ${env} ${process.execPath} ${join(root, "bin/beige.cjs")} tui ${words.join(" ")}; echo "code $?"; stty -a; exec sh`;
  tmux("new-session", "-d", "-s", "it", "-x", "120", "-y", "50", command);
  await shows("/ commands");
  // The line in which one types, not only the head.
  await shows(/\/workspace\n/);
}

async function closeTui(): Promise<string> {
  key("C-d");
  const last = await shows(/code \d+[^]*echoe?/);
  tmux("kill-session", "-t", "it");
  return last;
}

// eslint-disable-next-line typescript/no-explicit-any -- arbitrary answers are looked into
const get = async (path: string): Promise<any> => (await gateway.request("GET", `/api/agents/travel${path}`)).body;
const auditRows = (): readonly Record<string, unknown>[] =>
  readFileSync(join(gateway.home, "logs/audit.jsonl"), "utf8")
    .trim()
    .split("\n")
    .map((line) => JSON.parse(line) as Record<string, unknown>)
    .filter((row) => row["phase"] !== "begin");

beforeAll(async () => {
  await gateway.start();
  await gateway.apply(STACK);
});
afterEach(() => void tmux("kill-session", "-t", "it"));
afterAll(async () => {
  tmux("kill-server");
  await gateway.clean();
});

test("a conversation in the terminal: prompt, tool call, answer, /new, and on after the gateway was killed and started", async () => {
  await openTui("travel");
  type("list the files");
  const first = await shows("The sandbox said: inside 42");
  expect(first).toContain('exec command="echo inside');
  // One row a tool call and one a request, of the operator, in this session; the file is the gateway's.
  const [{ session }] = (await get("/sessions")).sessions;
  expect(session).toMatch(/^tui:/);
  await until(async () => (await get(`/sessions/${session}`)).lines.length === 4, 5000, "all that was said is kept");
  const rows = auditRows().filter((row) => row["session"] === session);
  expect(rows.filter((row) => row["type"] === "core_tool").map((row) => [row["tool"], row["decision"], row["principal"]])).toEqual([
    ["exec", "allowed", "operator"],
  ]);
  expect(rows.filter((row) => row["type"] === "llm")).toHaveLength(2);

  type("/new");
  await shows("New session started");
  type("second talk");
  await shows(/second talk[^]*second talk/);
  await until(async () => (await get("/sessions")).sessions.length === 2, 5000, "two sessions");
  const second = ((await get("/sessions")).sessions as { session: string }[])[0]?.session ?? "";
  expect(second).not.toBe(session);

  await gateway.kill();
  type("anybody there");
  await shows("no gateway answers");
  await shows("not kept yet");
  await gateway.start();
  await until(() => !screen().includes("not kept yet"), 10_000, "what was said meanwhile is kept");
  type("after the kill");
  await shows(/after the kill[^]*after the kill/);
  const last = await closeTui();
  expect(last).toContain(`go on with: beige tui travel --session ${second}`);
  expect(last).toContain("code 0");
  // The terminal is as it was: it echoes, and lines are lines.
  expect(last).toMatch(/[^-]icanon/);
  expect(last).toMatch(/[^-]echo/);

  await openTui("travel");
  await shows("anybody there");
  await shows("after the kill");
  const said = (await get(`/sessions/${second}`)).lines as { role: string; text: string }[];
  expect(said.filter((line) => line.role === "user").map((line) => line.text)).toEqual(["second talk", "anybody there", "after the kill"]);
  await closeTui();
}, 120_000);

test("other agents and sessions, words that are not here, a command of one's own in the sandbox, and errors as text", async () => {
  await gateway.beige("prompt", "travel", "said elsewhere", "--session", "cli:other");
  await openTui("travel", "--session", "cli:other");
  await shows("said elsewhere");
  type("! hostname; id -u");
  await shows(/\n 2\d{4}\n/);
  expect(screen()).not.toContain(spawnSync("hostname", { encoding: "utf8" }).stdout.trim());
  type("/login");
  await shows("/login is not here: keys are the gateway's");
  type("/resume");
  await shows("cli:other  20");
  key("Escape");
  await until(() => !screen().includes("navigate"), 5000, "the list is gone");
  type("/model scripted/echo-2");
  // The first Enter takes the model that is offered.
  await shows("/model beige/scripted/echo-2");
  key("Enter");
  await shows("Model: scripted/echo-2");
  await until(async () => (await get("/sessions/cli:other")).session.set.model?.id === "echo-2", 5000, "the session's model is set");
  type("/verbose on");
  await until(async () => (await get("/sessions/cli:other")).session.set.verbose === true, 5000, "the session is verbose");
  type("fail please");
  await shows(/Error: .*echo said 401|Error: [^]*401/);
  type("evil words");
  await shows("x]2;TAKENy");
  expect(tmux("display", "-p", "-t", "it", "#{pane_title}")).not.toContain("TAKEN");
  type("/agent nobody");
  await shows("there is no agent nobody");
  type("/agent writer");
  await shows("agent writer, session tui:");
  type("hello writer");
  await shows(/hello writer[^]*hello writer/);
  await until(
    async () => (await gateway.request("GET", "/api/agents/writer/sessions")).body.sessions.length === 1,
    5000,
    "the writer has it",
  );
  await closeTui();
  // One conversation with turns of the gateway and of the terminal in it.
  await gateway.beige("prompt", "travel", "and once more elsewhere", "--session", "cli:other");
  const said = (await get("/sessions/cli:other")).lines as { role: string; text: string }[];
  expect(said.filter((line) => line.role === "user").map((line) => line.text.split("\n")[0])).toEqual([
    "said elsewhere",
    "! hostname; id -u",
    "fail please",
    "evil words",
    "and once more elsewhere",
  ]);
}, 120_000);

test("Escape ends a tool call in the sandbox at once, and SIGTERM the terminal, which is as it was", async () => {
  await openTui("travel", "--new");
  type("wait a minute");
  await shows("sleep 60");
  key("Escape");
  await shows(/[Aa]borted|interrupted/, 5000);
  const ended = auditRows().findLast((row) => row["tool"] === "exec");
  expect(JSON.stringify(ended)).toContain("sleep 60");
  const left = await gateway.beige("exec", "travel", "--", "grep -l 'sle[e]p' /proc/[0-9]*/cmdline 2>/dev/null || echo none");
  expect(left.out.trim()).toBe("none");
  const pid = tmux("list-panes", "-t", "it", "-F", "#{pane_pid}").trim();
  const child = spawnSync("pgrep", ["-P", pid, "-f", "beige.cjs"], { encoding: "utf8" }).stdout.trim().split("\n")[0];
  process.kill(Number(child), "SIGTERM");
  const last = await shows(/code \d+[^]*echo/);
  expect(last).toMatch(/[^-]icanon/);
  tmux("kill-session", "-t", "it");
}, 60_000);

test("beige top on a terminal shows the agents again and again, over a gateway that is away, and leaves the screen as it was", async () => {
  const command = `echo before; env BEIGE_HOME=${gateway.home} ${process.execPath} ${join(root, "bin/beige.cjs")} top --interval 300ms; echo "code $?"; exec sh`;
  tmux("new-session", "-d", "-s", "it", "-x", "120", "-y", "30", command);
  const first = await shows(/travel +ready/);
  expect(first).toMatch(/AGENT +STATE +SESSIONS/);
  // The container's memory, from the kernel's files.
  expect(first).toMatch(/travel +ready .*\d+(Ki|Mi)/);
  await gateway.kill();
  await shows("no gateway answers");
  await gateway.start();
  await shows(/travel +ready/);
  key("q");
  const last = await shows("code 0");
  expect(last).toContain("before");
  expect(last).not.toContain("AGENT");
  const piped = await gateway.beige("top");
  expect(piped.out).toMatch(/^AGENT +STATE/);
}, 60_000);

test("without a terminal it says what does", async () => {
  const ran = await gateway.beige("tui", "travel");
  expect(ran.code).toBe(2);
  expect(ran.err).toContain("beige tui needs a terminal");
});
