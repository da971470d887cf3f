// A rogue agent plants links in its workspace: nothing that the gateway does for it may follow one out.
import assert from "node:assert/strict";
import { randomBytes } from "node:crypto";
import { existsSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { until } from "../../gateway.ts";
import { agent, BASE, node, sandbox, stateOf, type Called, type Ground } from "./ground.ts";

const random = (): string => randomBytes(12).toString("hex");
const RACE_MS = 5_000;

/** Host files that hold a random value each. */
interface Planted {
  readonly paths: readonly string[];
  readonly values: readonly string[];
}

function plant(ground: Ground): Planted {
  const { home } = ground.gateway;
  const own = [join(ground.host, "dir/canary"), join(ground.workspace("alice"), "diary"), join(home, "env")];
  const values = own.map((path) => {
    const value = random();
    // Readable by everybody where the gateway does not mind: only the wall protects it.
    writeFileSync(path, `${value}\n`, { mode: path.endsWith("env") ? 0o600 : 0o666 });
    return value;
  });
  return {
    paths: [...own, join(home, "token"), join(home, "host.yaml"), "/etc/passwd", "/etc/hostname"],
    values: [...values, readFileSync(join(home, "token"), "utf8").trim()],
  };
}

/** Every way of naming a host path from inside. */
const spellings = (path: string): readonly string[] => [
  path,
  `/proc/1/root${path}`,
  `/proc/self/root${path}`,
  `/proc/self/cwd/..${path}`,
  `../../../../../..${path}`,
  `/workspace/../../..${path}`,
];

function linkProgram(targets: readonly string[]): string {
  return `
import fs from "node:fs";
import path from "node:path";
const targets = ${JSON.stringify(targets)};
targets.forEach((target, i) => {
  fs.symlinkSync(target, "/workspace/file" + i);
  fs.symlinkSync(path.dirname(target), "/workspace/dir" + i);
});
fs.mkdirSync("/workspace/chain", {recursive: true});
fs.symlinkSync("../dir0", "/workspace/chain/up");
`;
}

function assertSafe(answer: Called, values: readonly string[], what: string): void {
  const said = `${answer.text}${answer.error}`;
  for (const value of values) assert.ok(!said.includes(value), `${what} answered a host file's content: ${said.slice(0, 300)}`);
}

/** read, write and patch over every link, and over a path through every linked folder. */
async function touchLinks(ground: Ground, planted: Planted, targets: readonly string[]): Promise<number> {
  let calls = 0;
  const hostname = readFileSync("/etc/hostname", "utf8").trim();
  const values = [...planted.values, ...(hostname.length > 6 ? [hostname] : [])];
  const paths = targets.flatMap((target, i) => [`file${i}`, `dir${i}/${target.split("/").at(-1)}`]);
  for (const path of [...paths, "chain/up/canary", ...planted.paths]) {
    const attempts = [
      ground.tool("mallory", "read", { path }),
      ground.tool("mallory", "write", { path, content: "owned\n" }),
      ground.tool("mallory", "patch", { path, find: "a", replace: "b", all: true }),
    ];
    for (const answer of await Promise.all(attempts)) assertSafe(answer, values, path);
    calls += attempts.length;
  }
  return calls;
}

/** One name is a file, a link out, and a folder's link in turn, as fast as it goes. */
const swapProgram = (target: string): string => `
import fs from "node:fs";
import path from "node:path";
fs.mkdirSync("/workspace/race", {recursive: true});
const end = Date.now() + ${RACE_MS};
let n = 0;
while (Date.now() < end) {
  // The gateway's writes come in between: what fails is tried again.
  try {
    fs.writeFileSync("/workspace/race/a", "inside\\n");
    fs.renameSync("/workspace/race/a", "/workspace/race/x");
    fs.rmSync("/workspace/race/b", {force: true});
    fs.symlinkSync(${JSON.stringify(target)}, "/workspace/race/b");
    fs.renameSync("/workspace/race/b", "/workspace/race/x");
    fs.rmSync("/workspace/race/d", {recursive: true, force: true});
    fs.mkdirSync("/workspace/race/d");
    fs.rmSync("/workspace/race/d", {recursive: true, force: true});
    fs.symlinkSync(path.dirname(${JSON.stringify(target)}), "/workspace/race/d");
    n++;
  } catch {}
}
console.log(n);
`;

async function race(ground: Ground, planted: Planted, target: string): Promise<{ readonly swaps: number; readonly calls: number }> {
  const over = new AbortController();
  const swapping = node(ground, "mallory", swapProgram(target), 30).finally(() => over.abort());
  let calls = 0;
  const worker = async (path: string): Promise<void> => {
    while (!over.signal.aborted) {
      for (const [tool, params] of [
        ["read", {}],
        ["write", { content: "owned\n" }],
        ["patch", { find: "inside", replace: "owned" }],
      ] as const) {
        assertSafe(await ground.tool("mallory", tool, { path, ...params }), planted.values, path);
        calls += 1;
      }
    }
  };
  const workers = ["race/x", `race/d/${target.split("/").at(-1)}`].map(worker);
  const [swaps] = await Promise.all([swapping, ...workers]);
  return { swaps: Number(swaps), calls };
}

/** Output too long for the answer goes to a file of the workspace: its folder may be a link as well. */
async function floodThroughLink(ground: Ground): Promise<void> {
  const { home } = ground.gateway;
  for (const to of [ground.host, home, "/etc"]) {
    await ground.exec(
      "mallory",
      `rm -rf /workspace/.beige; mkdir /workspace/.beige; ln -s ${to} /workspace/.beige/output; rm -rf /workspace/.beige.d; true`,
    );
    const ran = await ground.exec("mallory", `node -e 'process.stdout.write("x".repeat(3000000))'`);
    assert.ok(ran.text.length < 1_200_000, "a long output is cut");
    for (const place of [ground.host, home, "/etc"]) assert.ok(!existsSync(join(place, ".beige")), place);
  }
}

/** Links, depth, odd names and locked folders: the workspace goes, what its links name stays. */
async function deleteAgent(ground: Ground, targets: readonly string[]): Promise<void> {
  const outside = [join(ground.host, "dir"), ground.host, ground.workspace("alice"), ground.gateway.home, "/etc"];
  const program = `
import fs from "node:fs";
const outside = ${JSON.stringify([...outside, ...targets])};
outside.forEach((target, i) => fs.symlinkSync(target, "/workspace/out" + i));
process.chdir("/workspace");
for (let i = 0; i < 3000; i++) { fs.mkdirSync("d"); process.chdir("d"); if (i % 50 === 0) fs.symlinkSync(outside[i / 50 % outside.length], "out"); }
fs.mkdirSync("/workspace/locked"); fs.symlinkSync(outside[0], "/workspace/locked/out"); fs.chmodSync("/workspace/locked", 0);
fs.writeFileSync("/workspace/new\\nline", ""); fs.writeFileSync("/workspace/-rf", "");
`;
  await node(ground, "mallory", program);
  const gone = await ground.gateway.beige("delete", "agent", "mallory", "-y");
  assert.equal(gone.code, 0, gone.out + gone.err);
  await until(() => !existsSync(ground.workspace("mallory")), 30_000, "the workspace is removed");
}

/** What an agent leaves behind goes to the next one of its name: the files, not what links among them name. */
async function inherit(ground: Ground, targets: readonly string[]): Promise<void> {
  const planted = targets.map((target, i) => `ln -s '${target}' /workspace/heir${i}`).join("; ");
  const left = await ground.exec("eve", `${planted}; echo mine >/workspace/mine; mkdir /workspace/d; ln -s '${targets[0]}' /workspace/d/l`);
  assert.equal(left.exitCode, 0, left.error);
  const gone = await ground.gateway.beige("delete", "agent", "eve", "-y");
  assert.equal(gone.code, 0, gone.out + gone.err);
  await ground.gateway.apply(`${BASE}${agent("eve", sandbox("beige-tiny:1", "64Mi"))}`, { set: "heir" });
  const heir = await ground.exec("eve", "echo more >>/workspace/mine && cat /workspace/mine");
  assert.equal(heir.text, "mine\nmore\n", `the next agent of the name has its files: ${heir.error}`);
}

export async function links(ground: Ground): Promise<string> {
  const planted = plant(ground);
  const targets = planted.paths.flatMap(spellings);
  const guarded = [...planted.paths, ground.host, ground.workspace("alice")];
  const before = guarded.map(stateOf);
  await node(ground, "mallory", linkProgram([...targets, join(ground.gateway.home, "state.db")]));
  const calls = await touchLinks(ground, planted, targets);
  const raced = await race(ground, planted, planted.paths[0] ?? "");
  await floodThroughLink(ground);
  assert.deepEqual(guarded.map(stateOf), before, "no host file has changed");
  assert.ok(!readFileSync(join(ground.gateway.home, "state.db")).includes("owned\n"), "the store was not written to");
  assert.ok(raced.swaps > 50 && raced.calls > 8, `the race ran: ${JSON.stringify(raced)}`);
  await inherit(ground, [...guarded, join(ground.host, "dir")]);
  assert.deepEqual(guarded.map(stateOf), before, "handing on followed no link");
  await deleteAgent(ground, targets);
  assert.deepEqual(guarded.map(stateOf), before, "deleting followed no link");
  return `${calls} calls over links and ${raced.calls} during ${raced.swaps} swaps stayed inside; handing on and deleting a workspace followed none`;
}
