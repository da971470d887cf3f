// Twenty agents of an installed gateway on the real engine: what several lines are measured on.
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import Dockerode from "dockerode";
import { type Gateway, makeGateway, until } from "../test/gateway.ts";

export const ENGINE = "/var/run/docker.sock";
export const AGENTS = 20;
export const IMAGE = "beige-tiny:1";

const COMMON = `apiVersion: beige.dev/v1
kind: Provider
metadata: {name: offline}
spec: {api: echo}
---
apiVersion: beige.dev/v1
kind: Plugin
metadata: {name: memory}
spec: {source: {builtin: memory}}
`;

const agent = (name: string): string => `---
apiVersion: beige.dev/v1
kind: Agent
metadata: {name: ${name}}
spec:
  model: {provider: offline, id: echo-1}
  tools: [memory]
  sandbox: {image: "${IMAGE}", resources: {memory: 64Mi, cpus: 1, pids: 64}}
`;

export const agentName = (i: number): string => `fleet-${i}`;
export const names: readonly string[] = Array.from({ length: AGENTS }, (_, i) => agentName(i));
export const stackOf = (agents: readonly string[]): string => COMMON + agents.map(agent).join("");

/** What is done at the end whatever happens, also when somebody presses Ctrl-C. */
export const atEnd: (() => Promise<void>)[] = [];

export interface Fleet {
  readonly gateway: Gateway;
  readonly docker: Dockerode;
  /** The stack on the disk. */
  readonly file: string;
  /** Deletes all agents and waits until their containers are gone. */
  disband(): Promise<void>;
}

async function disband(gateway: Gateway): Promise<void> {
  const gone = await Promise.all(
    names.map((name) => gateway.request("DELETE", `/apis/beige.dev/v1/namespaces/default/agents/${name}`).then((answer) => answer.status)),
  );
  if (!gone.every((status) => status < 300 || status === 404)) throw new Error(`deleting agents: ${gone.join(" ")}`);
  const left = async (): Promise<number> =>
    (await gateway.request("GET", "/apis/beige.dev/v1/namespaces/default/agents")).body.items.length + gateway.containers().length;
  await until(async () => (await left()) === 0, 120_000, "the agents are gone");
}

/** A gateway with its stack on the disk, nothing applied yet. */
export async function startFleet(program: string): Promise<Fleet> {
  const gateway = makeGateway({ program });
  atEnd.push(() => gateway.clean());
  await gateway.start();
  const file = join(gateway.home, "fleet.yaml");
  writeFileSync(file, stackOf(names));
  return { gateway, file, docker: new Dockerode({ socketPath: ENGINE }), disband: () => disband(gateway) };
}
