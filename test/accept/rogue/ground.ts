// What all attacks stand on: a real gateway, a rogue agent and its victim, and host files that must stay as they are.
import assert from "node:assert/strict";
import { createHash, randomBytes } from "node:crypto";
import { lstatSync, mkdirSync, mkdtempSync, readFileSync, readlinkSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { makeGateway, until, type Gateway } from "../../gateway.ts";

/** How a call through the API ended. */
export interface Called {
  readonly text: string;
  readonly exitCode: number;
  readonly outcome: string;
  readonly error: string;
}

export interface Ground {
  readonly gateway: Gateway;
  /** A host folder outside BEIGE_HOME. */
  readonly host: string;
  /** Runs a shell command in an agent's sandbox. */
  exec(agent: string, command: string, timeout?: number): Promise<Called>;
  /** Calls any tool through the API. */
  tool(agent: string, tool: string, params: Readonly<Record<string, unknown>>): Promise<Called>;
  workspace(agent: string): string;
  uid(agent: string): Promise<string>;
  clean(): Promise<void>;
}

export const sandbox = (image: string, memory: string, more = ""): string =>
  `sandbox: {image: "${image}", resources: {memory: ${memory}, cpus: 500m, pids: 96}${more}}`;

export const agent = (name: string, more: string): string => `
---
apiVersion: beige.dev/v1
kind: Agent
metadata: {name: ${name}}
spec:
  model: {provider: offline, id: echo-1}
  tools: [memory]
  ${more}
`;

export const BASE = `
apiVersion: beige.dev/v1
kind: Provider
metadata: {name: offline}
spec: {api: echo}
---
apiVersion: beige.dev/v1
kind: Plugin
metadata: {name: memory}
spec: {source: {builtin: memory}}
`;

/** mallory has Node inside, eve has busybox, alice is the victim. */
const STACK = `${BASE}
${agent("mallory", `${sandbox("beige-base:1", "192Mi")}\n  workspace: {onDelete: delete}`)}
${agent("eve", sandbox("beige-tiny:1", "64Mi"))}
${agent("alice", sandbox("beige-base:1", "192Mi"))}
`;

export async function openGround(): Promise<Ground> {
  const host = mkdtempSync(join(tmpdir(), "beige-host-"));
  const gateway = makeGateway();
  const call = async (name: string, body: unknown): Promise<Called> => {
    const { status, body: answer } = await gateway.request("POST", `/api/agents/${name}/exec`, body);
    if (status !== 200) return { text: "", exitCode: -1, outcome: `http ${status}`, error: JSON.stringify(answer) };
    return { text: answer.content[0].text, exitCode: answer.exitCode, outcome: answer.outcome, error: answer.error ?? "" };
  };
  const ground: Ground = {
    gateway,
    host,
    exec: (name, command, timeout = 60) => call(name, { command, timeout }),
    tool: (name, tool, params) => call(name, { tool, params }),
    workspace: (name) => join(gateway.home, `agents/default.${name}/workspace`),
    uid: async (name) => (await gateway.request("GET", `/api/agents/${name}`)).body.uid as string,
    clean: async () => {
      await gateway.clean();
      rmSync(host, { recursive: true, force: true });
    },
  };
  try {
    writeFileSync(join(gateway.home, "host.yaml"), "paths: {workspaces: [/], mounts: [/], plugins: [/]}\n", { mode: 0o600 });
    mkdirSync(join(host, "dir"));
    await gateway.start();
    await gateway.apply(STACK);
    return ground;
  } catch (error) {
    await ground.clean();
    throw error;
  }
}

/** Runs a Node program inside; its standard output and what went wrong. */
export async function node(ground: Ground, name: string, program: string, timeout = 60): Promise<string> {
  const file = `.${randomBytes(4).toString("hex")}.mjs`;
  const path = join(ground.workspace(name), file);
  writeFileSync(path, program, { mode: 0o644 });
  const ran = await ground.exec(name, `node --max-old-space-size=96 /workspace/${file}`, timeout);
  rmSync(path, { force: true });
  assert.equal(ran.exitCode, 0, `${name}: ${ran.text.slice(-2000)} ${ran.error}`);
  return ran.text;
}

/** A host file as it is: type, mode, owner, size and content. */
export function stateOf(path: string): string {
  const stats = lstatSync(path);
  const content = stats.isSymbolicLink()
    ? readlinkSync(path)
    : stats.isFile()
      ? createHash("sha256").update(readFileSync(path)).digest("hex")
      : "";
  return `${path} ${stats.mode} ${stats.uid} ${content}`;
}

export const ready = (ground: Ground, name: string, ms = 60_000): Promise<unknown> =>
  until(async () => (await ground.gateway.request("GET", `/api/agents/${name}`)).body.ready === "True", ms, `agent ${name} is Ready`);
