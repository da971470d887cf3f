// The rig of the gateway's lines: the gateway (or a peer) alone on the first core, the clients and their provider on the second.
import { type ChildProcess, spawn, spawnSync } from "node:child_process";
import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { type Gateway, makeGateway, root, until } from "../test/gateway.ts";
import { atEnd } from "./fleet.ts";
import type { Done, Goal, Job } from "./gateway-load.ts";
import type { Ask, Told } from "./gateway-provider.ts";

const GATEWAY_CORE = 0;
const LOAD_CORE = 1;

export interface Rig {
  readonly gateway: Gateway;
  readonly direct: Goal;
  readonly ours: Goal;
  /** The same endpoint by the unix socket, which takes more connections. */
  readonly inside: Goal;
  run(job: Job): Promise<Done>;
  closes(): Promise<readonly string[]>;
  open(): Promise<number>;
}

/** Moves a process with all its threads to one core. */
export function pin(pid: number, core: number = GATEWAY_CORE): void {
  const done = spawnSync("taskset", ["-apc", String(core), String(pid)], { stdio: "ignore" });
  if (done.status !== 0) throw new Error("taskset (util-linux) is needed to give the gateway a core of its own");
}

/** Processor time of a process with all its threads, in milliseconds. */
export function cpuMs(pid: number): number {
  const nano = readdirSync(`/proc/${pid}/task`).map((id) =>
    Number(readFileSync(`/proc/${pid}/task/${id}/schedstat`, "utf8").split(" ", 1)[0]),
  );
  return nano.reduce((sum, each) => sum + each, 0) / 1e6;
}

/** How long a process's main thread could have run while others had its core, in milliseconds. */
export const waitedMs = (pid: number): number => Number(readFileSync(`/proc/${pid}/schedstat`, "utf8").split(" ")[1]) / 1e6;

export function rssMiB(pid: number): number {
  return Number(/^VmRSS:\s+(\d+) kB$/m.exec(readFileSync(`/proc/${pid}/status`, "utf8"))?.[1]) / 1024;
}

function helper(name: string): ChildProcess {
  const child = spawn(process.execPath, [join(root, "bench", name)], { stdio: ["ignore", "ignore", "inherit", "ipc"] });
  pin(child.pid ?? 0, LOAD_CORE);
  atEnd.push(async () => void child.kill("SIGKILL"));
  return child;
}

const heard = <T>(child: ChildProcess): Promise<T> =>
  new Promise((done, fail) => {
    const gone = (): void => fail(new Error("a process of the bench ended"));
    child.once("exit", gone);
    child.once("message", (told) => {
      child.off("exit", gone);
      done(told as T);
    });
  });

const stackOf = (port: number): string => `apiVersion: beige.dev/v1
kind: Provider
metadata: {name: bench}
spec: {api: openai-completions, baseUrl: "http://127.0.0.1:${port}/v1"}
`;

/** The ports that a gateway says it listens on. */
async function portOf(gateway: Gateway): Promise<number> {
  const url = await until(
    async () => (await gateway.request("GET", "/api/health")).body.url as string | undefined,
    5_000,
    "a port is open",
  );
  return Number(new URL(url).port);
}

export async function startRig(program: string): Promise<Rig> {
  const provider = helper("gateway-provider.ts");
  const { port = 0 } = await heard<Told>(provider);
  const load = helper("gateway-load.ts");
  const gateway = makeGateway({ program, env: { BEIGE_LISTEN: "0" } });
  atEnd.push(() => gateway.clean());
  await gateway.start();
  pin(gateway.pid());
  await gateway.apply(stackOf(port));
  const token = readFileSync(join(gateway.home, "token"), "utf8").trim();
  const asked = async (ask: Ask): Promise<Told> => {
    const answer = heard<Told>(provider);
    provider.send(ask);
    return answer;
  };
  const endpoint = { path: "/v1/chat/completions", token, provider: "bench" };
  return {
    gateway,
    direct: { ...endpoint, to: port },
    ours: { ...endpoint, to: await portOf(gateway) },
    inside: { ...endpoint, to: join(gateway.home, "beige.sock") },
    async run(job) {
      const answer = heard<Done>(load);
      load.send(job);
      const done = await answer;
      if (done.error !== undefined) throw new Error(`${job.model}: ${done.error}`);
      return done;
    },
    closes: async () => (await asked({ ask: "closes" })).closes ?? [],
    open: async () => (await asked({ ask: "open" })).open ?? 0,
  };
}
