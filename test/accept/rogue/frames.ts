// What a rogue agent says on its own socket: another's name, another's token, and far too much.
import assert from "node:assert/strict";
import { existsSync, readFileSync, rmSync } from "node:fs";
import { join } from "node:path";
import { until } from "../../gateway.ts";
import { node, type Ground } from "./ground.ts";

interface Row {
  readonly agent: string;
  readonly tool: string;
  readonly args: readonly string[];
  readonly decision: string;
  readonly phase: string;
  readonly session?: string;
  readonly parent?: string;
}

const rows = (ground: Ground): readonly Row[] =>
  readFileSync(join(ground.gateway.home, "logs/audit.jsonl"), "utf8")
    .split("\n")
    .filter(Boolean)
    .map((line) => JSON.parse(line) as Row);

/** Sends each frame on a connection of its own; prints the answers, one a line. */
const sendProgram = (frames: readonly unknown[]): string => `
import net from "node:net";
for (const frame of ${JSON.stringify(frames)}) {
  await new Promise((done) => {
    const socket = net.connect("/beige/gateway.sock", () => socket.write(JSON.stringify(frame) + "\\n"));
    let text = "";
    let over = false;
    const end = () => { if (over) return; over = true; console.log(JSON.stringify(text.split("\\n")[0])); socket.destroy(); done(); };
    socket.on("data", (part) => { text += part; if (text.includes("\\n")) end(); });
    socket.on("error", (error) => { text = text || String(error); });
    socket.on("close", end);
    setTimeout(end, 4000).unref();
  });
}
process.exit(0);
`;

async function send(ground: Ground, frames: readonly unknown[]): Promise<readonly string[]> {
  const out = await node(ground, "mallory", sendProgram(frames));
  return out
    .split("\n")
    .filter(Boolean)
    .map((line) => JSON.parse(line) as string);
}

/** Every field that somebody might read identity from. */
async function namingAnother(ground: Ground): Promise<void> {
  const uid = await ground.uid("alice");
  const alice = { agent: "alice", name: "alice", uid, namespace: "default", user: "alice" };
  const frame = (key: string): Readonly<Record<string, unknown>> => ({
    type: "tool_request",
    tool: "memory",
    args: ["save", key, "from-mallory"],
    ...alice,
  });
  const frames = [
    { ...frame("forged1"), principal: { kind: "operator" }, attribution: "direct" },
    { ...frame("forged2"), principal: { kind: "agent", uid }, session: "cli:default", parent: "x", caller: { ...alice, callId: "x" } },
    { ...frame("forged3"), __proto__: alice, constructor: alice, agent: [alice], tool: "memory" },
    { type: "tool_request", tool: "exec", args: ["id"], params: { command: "id" }, ...alice, principal: { kind: "operator" } },
    { type: "tool_request", tool: "read", args: ["/workspace/diary"], input: { params: { path: "/workspace/diary" } }, ...alice },
    { type: "hello", container: uid.slice(0, 12), ...alice },
  ];
  const answers = await send(ground, frames);
  assert.match(answers[0] ?? "", /saved forged1/, "a frame with foreign names is this agent's own call");
  assert.match(answers[3] ?? "", /Permission denied/, "a core tool is not called from inside");
  assert.match(answers[4] ?? "", /Permission denied/);
  const hers = await ground.exec("alice", "memory list");
  assert.doesNotMatch(hers.text, /forged/, "the other agent has none of it");
  assert.match((await ground.exec("mallory", "memory list")).text, /forged1[^]*forged2[^]*forged3/, "it is all its own");
  const forged = rows(ground).filter((row) => row.args.some((arg) => arg.startsWith("forged")));
  assert.ok(forged.length >= 6 && forged.every((row) => row.agent === "mallory" && row.session === undefined), JSON.stringify(forged));
}

/** Takes a live token of the other agent, and uses it. */
async function foreignToken(ground: Ground): Promise<void> {
  const file = join(ground.workspace("alice"), "token-of-call");
  const session = "victim-session";
  const body = {
    command: "echo $BEIGE_CALL >/workspace/.t; mv /workspace/.t /workspace/token-of-call; memory save own x; sleep 6",
    session,
  };
  const running = ground.gateway.request("POST", "/api/agents/alice/exec", body);
  await until(() => existsSync(file), 10_000, "the victim's command runs");
  const token = readFileSync(file, "utf8").trim();
  assert.match(token, /^[0-9a-f]{32}$/);
  await send(ground, [{ type: "tool_request", tool: "memory", args: ["save", "stolen", "x"], call: token }]);
  const viaLauncher = await ground.exec("mallory", `BEIGE_CALL=${token} memory save stolen2 x`);
  assert.equal(viaLauncher.exitCode, 0, "a foreign token is no error: it is worth nothing");
  const taken = rows(ground).filter((row) => row.args[1] === "stolen" || row.args[1] === "stolen2");
  assert.ok(
    taken.length >= 4 && taken.every((row) => row.agent === "mallory" && row.session === undefined && row.parent === undefined),
    JSON.stringify(taken),
  );
  const own = rows(ground).filter((row) => row.args[1] === "own");
  assert.ok(
    own.length >= 2 && own.every((row) => row.agent === "alice" && row.session === session && row.parent !== undefined),
    JSON.stringify(own),
  );
  assert.equal((await running).body.exitCode, 0);
  rmSync(file, { force: true });
}

const field = (ground: Ground, name: string): number =>
  Number(new RegExp(`${name}:\\s+(\\d+) kB`).exec(readFileSync(`/proc/${ground.gateway.pid()}/status`, "utf8"))?.[1] ?? 0) / 1024;

/** Milliseconds of launcher calls inside the victim, sorted. */
async function launcherTimes(ground: Ground, calls: number): Promise<readonly number[]> {
  const program = `
import { spawnSync } from "node:child_process";
const times = [];
for (let i = 0; i < ${calls}; i++) {
  const begun = performance.now();
  const ran = spawnSync("memory", ["list"], { stdio: ["ignore", "pipe", "pipe"] });
  if (ran.status !== 0) throw new Error(String(ran.stderr));
  times.push(performance.now() - begun);
}
console.log(JSON.stringify(times));
`;
  return (JSON.parse(await node(ground, "alice", program)) as number[]).toSorted((a, b) => a - b);
}
const quantile = (times: readonly number[], part: number): number =>
  times[Math.min(times.length - 1, Math.floor(times.length * part))] ?? Infinity;

/** One sort of hostile client, for some seconds; prints what it did. */
const ATTACKS: Readonly<Record<string, string>> = {
  "1,000 silent connections": `
    for (let i = 0; i < 1000; i++) open();
    tick(() => open(), 5);`,
  "64 MiB lines": `
    const part = Buffer.alloc(1 << 20, "x");
    const flood = () => { const s = open(); let sent = 0; const more = () => { while (sent < 64 && !s.destroyed) { sent++; count++; if (!s.write(part)) return s.once("drain", more); } s.end("\\n"); }; s.on("connect", more); s.on("close", () => over || setTimeout(flood, 10)); };
    for (let i = 0; i < 8; i++) flood();`,
  "lines just too long, again and again": `
    const part = Buffer.alloc(2200000, "x");
    const again = () => { const s = open(); s.on("connect", () => s.write(part)); s.on("close", () => over || setTimeout(again, 1)); s.resume(); };
    for (let i = 0; i < 64; i++) again();`,
  "half frames": `
    const half = JSON.stringify({type: "tool_request", tool: "memory", args: ["x".repeat(1900000)]}).slice(0, -3);
    for (let i = 0; i < 60; i++) { const s = open(); s.on("connect", () => s.write(half)); }
    tick(() => { const s = open(); s.on("connect", () => s.write('{"type":"tool_re')); }, 20);`,
  "a byte at a time": `
    for (let i = 0; i < 100; i++) { const s = open(); let at = 0; s.on("connect", () => tick(() => s.destroyed || s.write("[{\\"type\\":"[at++ % 9]), 10)); }`,
  "garbage and deep JSON": `
    const deep = "[".repeat(900000) + "\\n";
    const junk = Buffer.alloc(65536, 255);
    tick(() => { const s = open(); s.on("connect", () => { s.write(count % 2 ? deep : junk); s.write("\\n\\0\\n"); }); }, 30);`,
  "calls that are never read": `
    const line = JSON.stringify({type: "tool_request", tool: "memory", args: ["help"]}) + "\\n";
    for (let i = 0; i < 40; i++) { const s = open(); s.pause(); s.on("connect", () => tick(() => s.destroyed || s.write(line), 2)); }`,
  "hellos without end": `
    tick(() => { const s = open(); s.on("connect", () => s.write('{"type":"hello","container":"c' + count + '"}\\n')); }, 10);`,
};

const attackProgram = (body: string, ms: number): string => `
import net from "node:net";
import fs from "node:fs";
let count = 0, over = false;
const open = () => { count++; const s = net.connect("/beige/gateway.sock"); s.on("error", () => {}); return s; };
const tick = (work, every) => { const t = setInterval(() => over ? clearInterval(t) : work(), every); };
${body}
fs.writeFileSync("/workspace/attacking", "");
setTimeout(() => { over = true; console.log(count); process.exit(0); }, ${ms});
`;

const ATTACK_MS = 6_000;
const CALLS = 25;
/**
 * The most that the gateway grows by in all the attacks together, though they send gigabytes:
 * the cap on frames, twice as text, and garbage that waits for its collection.
 */
const GROWTH_MIB = 256;
/** Two shared cores: the attacker's own work counts as well. */
const SLOWER = 6;
const SLACK_MS = 60;

async function hostileClients(ground: Ground): Promise<string> {
  const calm = quantile(await launcherTimes(ground, CALLS), 0.5);
  const started = join(ground.workspace("mallory"), "attacking");
  const before = field(ground, "VmRSS");
  let worst = 0;
  let peak = 0;
  for (const [what, body] of Object.entries(ATTACKS)) {
    rmSync(started, { force: true });
    const attack = node(ground, "mallory", attackProgram(body, ATTACK_MS), 40);
    // Awaited below; a failure before that must not end the run.
    attack.catch(() => undefined);
    await until(() => existsSync(started), 10_000, `the attack runs: ${what}`);
    const times = await launcherTimes(ground, CALLS);
    assert.ok(Number(await attack) > 0, what);
    const grown = field(ground, "VmHWM") - before;
    const median = quantile(times, 0.5);
    worst = Math.max(worst, median);
    peak = Math.max(peak, grown);
    assert.ok(
      median < calm * SLOWER + SLACK_MS,
      `${what}: a launcher call of the other agent takes ${median.toFixed(1)} ms instead of ${calm.toFixed(1)} ms`,
    );
    assert.ok(quantile(times, 1) < 3_000, `${what}: the slowest of ${CALLS} calls took ${quantile(times, 1).toFixed(0)} ms`);
    assert.ok(grown < GROWTH_MIB, `${what}: the gateway grew by ${grown.toFixed(0)} MiB`);
    await until(
      async () => (await ground.exec("mallory", "memory list")).exitCode === 0,
      20_000,
      `${what}: the attacker's own launcher works again`,
    );
  }
  return `${Object.keys(ATTACKS).length} sorts of hostile clients: a call of the other agent ${calm.toFixed(1)} ms before, at most ${worst.toFixed(1)} ms during (medians), gateway at most +${peak.toFixed(0)} MiB`;
}

export async function frames(ground: Ground): Promise<string> {
  await namingAnother(ground);
  await foreignToken(ground);
  const clients = await hostileClients(ground);
  return `foreign names and tokens are worth nothing; ${clients}`;
}
