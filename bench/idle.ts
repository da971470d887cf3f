// What an idle gateway with twenty agents costs in memory, and that the pi SDK is not in it before somebody prompts.
import { type ChildProcess, spawn } from "node:child_process";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { pause, until } from "../test/gateway.ts";
import { agentName, type Fleet, names, stackOf } from "./fleet.ts";
import { atMost, type Line, median, within } from "./measure.ts";

const SETTLE_MS = 4_000;
const SAMPLES = 5;

/** Resident memory of a process in MiB. */
function rssMiB(pid: number): number {
  const kib = /^VmRSS:\s+(\d+) kB$/m.exec(readFileSync(`/proc/${pid}/status`, "utf8"))?.[1];
  return Number(kib) / 1024;
}

interface Said {
  readonly id?: number;
  readonly method?: string;
  readonly params?: { readonly url?: string };
}

/** Every script that the process holds, as its debugger lists them. */
async function scripts(url: string): Promise<readonly string[]> {
  const socket = new WebSocket(url);
  const found: string[] = [];
  await new Promise((done, fail) => {
    socket.addEventListener("open", () => socket.send('{"id":1,"method":"Debugger.enable"}'));
    socket.addEventListener("error", () => fail(new Error("the debugger does not answer")));
    socket.addEventListener("message", ({ data }) => {
      const said = JSON.parse(String(data)) as Said;
      if (said.method === "Debugger.scriptParsed") found.push(said.params?.url ?? "");
      if (said.id === 1) done(undefined);
    });
  });
  socket.close();
  return found;
}

const isPi = (url: string): boolean => /node_modules\/(@mariozechner|@earendil-works)\//.test(url);

async function bareNode(): Promise<ChildProcess> {
  const child = spawn(process.execPath, ["-e", "setInterval(() => {}, 1e6)"], { stdio: "ignore" });
  await pause(500);
  return child;
}

export async function idle({ gateway }: Fleet): Promise<readonly Line[]> {
  await gateway.apply(stackOf(names));
  await gateway.stop();
  // Any port for the debugger, which only a signal opens, after the memory was measured.
  await gateway.start({ NODE_OPTIONS: "--inspect-port=127.0.0.1:0" });
  const bare = await bareNode();
  try {
    await pause(SETTLE_MS);
    const values: number[] = [];
    const floors: number[] = [];
    for (let i = 0; i < SAMPLES; i++) {
      values.push(rssMiB(gateway.pid()));
      floors.push(rssMiB(bare.pid ?? 0));
      await pause(100);
    }
    const [value, floor] = [median(values), median(floors)];
    const memory = { value, floor, ratio: value / floor, quiet: value / floor, turns: SAMPLES };
    process.kill(gateway.pid(), "SIGUSR1");
    const log = join(gateway.home, "daemon.err");
    const url = await until(() => /ws:\/\/\S+/.exec(readFileSync(log, "utf8"))?.[0], 10_000, "the debugger listens");
    const before = (await scripts(url)).filter(isPi).length;
    await gateway.stream(`/api/agents/${agentName(0)}/prompt`, { text: "hello" });
    const after = (await scripts(url)).filter(isPi).length;
    if (after === 0) throw new Error("no script of the pi SDK is seen after a prompt either: the measurement is blind");
    const after1st = rssMiB(gateway.pid());
    return [
      atMost(
        {
          line: `resident memory of an idle gateway, ${names.length} agents`,
          unit: "MiB",
          limit: 3,
          note: `floor: idle node; after the first prompt ${Math.round(after1st)} MiB`,
        },
        memory,
      ),
      within({ line: "scripts of the pi SDK before the first prompt", unit: "scripts", limit: 0, note: `after it ${after}` }, before),
    ];
  } finally {
    bare.kill("SIGKILL");
    await gateway.stop();
    await gateway.start();
  }
}
