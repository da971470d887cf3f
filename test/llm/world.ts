// What the gateway's model road needs around it in tests: a directory, a shelf, an audit chain in memory, a real clock.
import { randomBytes, randomUUID } from "node:crypto";
import { readFileSync, writeFileSync } from "node:fs";
import type { Audit, AuditCall, AuditOutcome } from "../../src/core/audit.ts";
import type { CallRequest, CallResult } from "../../src/core/call.ts";
import type { Agent, Provider } from "../../src/core/resource.ts";
import type { Usage } from "../../src/core/chat.ts";
import type { Ledger, Spend } from "../../src/core/road.ts";
import type { Clock, Directory, Log, Random, Secrets, Shelf } from "../../src/core/world.ts";
import type { EchoStep, ModelFacts, ProviderSpec } from "../../schemas/types.ts";
import { systemClock } from "../../src/adapters/clock.ts";

export const clock: Clock = systemClock;
export const random: Random = { uuid: randomUUID, hex: (bytes) => randomBytes(bytes).toString("hex"), float: Math.random };

export interface LogLine {
  readonly level: string;
  readonly message: string;
  readonly fields?: unknown;
}
export function memoryLog(): Log & { readonly lines: LogLine[] } {
  const lines: LogLine[] = [];
  const at =
    (level: string) =>
    (message: string, fields?: unknown): void => {
      lines.push({ level, message, fields });
    };
  return { lines, debug: at("debug"), info: at("info"), warn: at("warn"), error: at("error") };
}

export interface Row extends AuditCall, Partial<AuditOutcome> {
  readonly phase: string;
  readonly call: string;
}
export function memoryAudit(): Audit & { readonly rows: Row[]; broken: boolean } {
  const rows: Row[] = [];
  const audit = {
    rows,
    broken: false,
    begin: (call: string, row: AuditCall) => {
      if (audit.broken) return Promise.reject(new Error("disk full"));
      rows.push({ ...row, call, phase: "begin" });
      return Promise.resolve();
    },
    end: (call: string, row: AuditCall, outcome: AuditOutcome) => {
      rows.push({ ...row, ...outcome, call, phase: "end" });
      return Promise.resolve();
    },
    denied: (call: string, row: AuditCall, error: string) => {
      rows.push({ ...row, call, error, phase: "denied" });
      return Promise.resolve();
    },
    note: (call: string, row: AuditCall, outcome?: Partial<AuditOutcome>) => {
      rows.push({ ...row, ...outcome, call, phase: "note" });
      return Promise.resolve();
    },
  };
  return audit;
}

/** In memory, or in a file that is written whole at every change, for tests that kill the process. */
export function memoryShelf(file?: string): Shelf {
  const rows = new Map<string, string>();
  if (file !== undefined) {
    try {
      for (const [key, value] of JSON.parse(readFileSync(file, "utf8")) as [string, string][]) rows.set(key, value);
    } catch {
      // The first start has no file.
    }
  }
  const save = (): void => {
    if (file === undefined) return;
    writeFileSync(`${file}.new`, JSON.stringify([...rows]));
    // Atomic, as a database's commit is.
    renameFile(`${file}.new`, file);
  };
  return {
    get: (key) => rows.get(key),
    set: (key, value) => {
      rows.set(key, value);
      save();
    },
    delete: (key) => {
      rows.delete(key);
      save();
    },
    list: (prefix) =>
      [...rows]
        .filter(([key]) => key.startsWith(prefix))
        .toSorted(([a], [b]) => (a < b ? -1 : 1))
        .map(([key, value]) => ({ key, value })),
  };
}

import { renameSync as renameFile } from "node:fs";

export function memorySecrets(values: Readonly<Record<string, string>> = {}): Secrets {
  return {
    check: () => Promise.resolve({ ok: true }),
    resolve: (ref) => {
      const value = values[ref.secret ?? ref.env ?? ""];
      return value === undefined ? Promise.reject(new Error("no such secret")) : Promise.resolve(value);
    },
    redact: (text) => Object.values(values).reduce((left, value) => left.replaceAll(value, "[secret]"), text),
  };
}

const meta = (name: string, namespace: string): Agent["metadata"] => ({
  name,
  namespace,
  uid: `${name}-uid`,
  resourceVersion: "1",
  generation: 1,
  creationTimestamp: "2026-01-01T00:00:00Z",
});

export const facts = (id: string, more: Partial<ModelFacts> = {}): ModelFacts => ({
  id,
  contextWindow: 100_000,
  maxTokens: 1000,
  input: ["text"],
  reasoning: false,
  ...more,
});

export const provider = (name: string, spec: Partial<ProviderSpec>): Provider => ({
  apiVersion: "beige.dev/v1",
  kind: "Provider",
  metadata: meta(name, ""),
  spec: { api: "echo", concurrency: -1, timeoutSeconds: 300, models: [], ...spec },
});

export const echoProvider = (name: string, steps: readonly Partial<EchoStep>[], more: Partial<ProviderSpec> = {}): Provider =>
  provider(name, { echo: { steps: steps.map((step) => ({ match: ".", from: "user", delayMs: 0, ...step })) }, ...more });

export function agent(name: string, models: readonly [string, string][], more: Partial<Agent["spec"]> = {}): Agent {
  const [first = ["none", "none"] as const, ...rest] = models;
  return {
    apiVersion: "beige.dev/v1",
    kind: "Agent",
    metadata: meta(name, "default"),
    spec: {
      model: { provider: first[0], id: first[1], thinking: "off" },
      fallbacks: rest.map(([from, id]) => ({ provider: from, id })),
      instructions: "You are a test.",
      coreTools: ["read", "write", "patch", "exec"],
      tools: [],
      plugins: {},
      sandbox: {
        backend: "docker",
        image: "beige-tiny:1",
        start: "eager",
        profile: "strict",
        scope: "agent",
        path: "/usr/bin:/bin",
        resources: { memory: "64Mi", cpus: 1, pids: 64, tmp: "16Mi" },
        network: { mode: "none" },
        mounts: [],
        env: {},
      },
      workspace: { onDelete: "retain", snapshot: "never", shared: false },
      update: { strategy: "drain", drainTimeoutSeconds: 60 },
      suspend: false,
      ...more,
    },
  };
}

export function directory(agents: Agent[], providers: Provider[]): Directory {
  return {
    agent: (namespace, name) => agents.find((one) => one.metadata.namespace === namespace && one.metadata.name === name),
    agentByUid: (uid) => agents.find((one) => one.metadata.uid === uid),
    agents: () => agents,
    provider: (name) => providers.find((one) => one.metadata.name === name),
    plugin: () => undefined,
    plugins: () => [],
    schedule: () => undefined,
  };
}

export const idOf = (one: Agent): { namespace: string; name: string; uid: string } => ({
  namespace: one.metadata.namespace,
  name: one.metadata.name,
  uid: one.metadata.uid,
});

/** Counts what is reserved and settled; `open` is empty when everything is. */
export function memoryLedger(): Ledger & { readonly open: Map<string, Spend>; readonly rows: Settled[]; refuse: Error | undefined } {
  const ledger = {
    open: new Map<string, Spend>(),
    rows: [] as Settled[],
    refuse: undefined as Error | undefined,
    reserve(spend: Spend) {
      if (ledger.refuse !== undefined) throw ledger.refuse;
      if (ledger.open.has(spend.call)) throw new Error("reserved twice");
      ledger.open.set(spend.call, spend);
    },
    settle(call: string, usage: Usage, how: Settled["how"]) {
      const spend = ledger.open.get(call);
      if (spend === undefined) return;
      ledger.open.delete(call);
      ledger.rows.push({ spend, usage, how });
    },
  };
  return ledger;
}
export interface Settled {
  readonly spend: Spend;
  readonly usage: Usage;
  readonly how: "answered" | "failed" | "cancelled";
}

export const noHooks = {
  reads: () => false,
  prePrompt: () => Promise.resolve(undefined),
  postResponse: () => Promise.resolve(),
  modelSwitched: () => Promise.resolve(),
};

/** Answers every call with what it was asked. */
export const echoCall = (request: CallRequest): Promise<CallResult> =>
  Promise.resolve({
    call: randomUUID(),
    success: true,
    output: Buffer.from(`ran ${JSON.stringify("params" in request.input ? request.input.params : {})}`),
    exitCode: 0,
    outcome: "ok",
  });

export const tools = ["read", "write", "patch", "exec"].map((name) => ({
  name,
  description: `${name} in the sandbox`,
  parameters: { type: "object", properties: { command: { type: "string" }, path: { type: "string" } } },
}));

export async function all<T>(events: AsyncIterable<T>): Promise<T[]> {
  const out: T[] = [];
  for await (const event of events) out.push(event);
  return out;
}
