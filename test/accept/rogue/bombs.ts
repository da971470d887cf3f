// Fork bombs and memory bombs: the gateway and the other agent go on, and so does the bomber afterwards.
import assert from "node:assert/strict";
import { until } from "../../gateway.ts";
import { ready, type Called, type Ground } from "./ground.ts";

interface Served {
  readonly calls: number;
  readonly slowestMs: number;
}

/** Asks the gateway and the other agent while `work` runs. */
async function meanwhile(ground: Ground, work: Promise<Called>): Promise<Served & { readonly ended: Called }> {
  const over = new AbortController();
  const ending = work.finally(() => over.abort());
  let calls = 0;
  let slowestMs = 0;
  while (!over.signal.aborted) {
    const begun = performance.now();
    assert.equal((await ground.gateway.request("GET", "/api/health")).status, 200);
    const other = await ground.exec("alice", "memory list >/dev/null && echo served");
    assert.equal(other.text, "served\n", `the other agent: ${other.error}`);
    slowestMs = Math.max(slowestMs, performance.now() - begun);
    calls += 1;
  }
  return { calls, slowestMs, ended: await ending };
}

const SLOWEST_MS = 10_000;

async function works(ground: Ground, name: string, after: string): Promise<void> {
  await until(async () => (await ground.exec(name, "echo back")).text === "back\n", 60_000, `${name} works again after ${after}`);
}

async function bomb(
  ground: Ground,
  what: { readonly name: string; readonly agent: string; readonly command: string; readonly timeout?: number },
): Promise<Called> {
  const served = await meanwhile(ground, ground.exec(what.agent, what.command, what.timeout ?? 20));
  assert.ok(served.slowestMs < SLOWEST_MS, `${what.name}: the other agent waited ${Math.round(served.slowestMs)} ms`);
  await works(ground, what.agent, what.name);
  return served.ended;
}

/** Processes inside, but PID 1 and those that count. */
async function leftovers(ground: Ground, name: string): Promise<number> {
  const { text } = await ground.exec(name, "n=0; for p in /proc/[0-9]*; do n=$((n+1)); done; echo $n");
  return Number(text) - 3;
}

export async function bombs(ground: Ground): Promise<string> {
  const forks = [
    { name: "a fork bomb of bash", agent: "mallory", command: `bash -c ':(){ :|:& };:; sleep 30'`, timeout: 4 },
    { name: "a fork bomb of busybox", agent: "eve", command: "b() { b | b & }; b; sleep 30", timeout: 4 },
    {
      name: "a bomb of sessions of their own",
      agent: "eve",
      command: "for i in $(seq 200); do setsid sleep 1000 & done; sleep 30",
      timeout: 4,
    },
  ];
  for (const one of forks) {
    await bomb(ground, one);
    assert.ok((await leftovers(ground, one.agent)) <= 2, `${one.name} is gone`);
  }
  const hungry = await bomb(ground, {
    name: "a memory bomb of Node",
    agent: "mallory",
    command: `node --max-old-space-size=4000 -e 'const a=[];for(;;)a.push(Buffer.alloc(1<<20,1))'`,
  });
  assert.equal(hungry.outcome, "oom", `out of memory is said: ${hungry.outcome} ${hungry.exitCode} ${hungry.error}`);
  assert.match(hungry.error, /out of memory.*resources\.memory/);
  const small = await bomb(ground, { name: "a memory bomb of busybox", agent: "eve", command: "tail /dev/zero" });
  assert.equal(small.outcome, "oom", `out of memory is said: ${small.outcome} ${small.exitCode} ${small.error}`);
  const filled = await bomb(ground, {
    name: "filling /tmp",
    agent: "eve",
    command: "dd if=/dev/zero of=/tmp/fill bs=1M count=4000 2>&1; rm -f /tmp/fill; echo end",
  });
  // The kernel may have ended the shell before it removed what fills its memory.
  const emptied = async (): Promise<boolean> => (await ground.exec("eve", "rm -f /tmp/fill; echo gone")).text === "gone\n";
  await until(emptied, 10_000, "a full /tmp can be emptied");
  const read = await bomb(ground, { name: "endless output", agent: "eve", command: "yes", timeout: 3 });
  assert.equal(read.outcome, "timeout", `${read.outcome} after a full /tmp: ${filled.text.slice(-200)} ${filled.exitCode}`);
  assert.ok(read.text.length < 1_100_000, "endless output is cut");
  for (const name of ["mallory", "eve", "alice"]) await ready(ground, name);
  return `${forks.length} fork bombs, 2 memory bombs (said as oom), a full /tmp (${filled.outcome}) and endless output: all else kept serving`;
}
