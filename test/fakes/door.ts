// The door of tool calls on a sandbox without walls, with what it writes down in memory.
import { rmSync, mkdtempSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { systemClock } from "../../src/adapters/clock.ts";
import { systemRandom } from "../../src/adapters/random.ts";
import type { AuditCall, AuditOutcome } from "../../src/core/audit.ts";
import { type CallRequest, type CallResult, CORE_TOOLS, type Principal } from "../../src/core/call.ts";
import type { Agent } from "../../src/core/resource.ts";
import type { Log } from "../../src/core/world.ts";
import { type CallDeps, type CallDoor, createCalls } from "../../src/gateway/call.ts";
import { memoryShelf } from "../llm/world.ts";
import { localSandbox, type LocalSandbox } from "./local.ts";

const quiet: Log = { debug: () => undefined, info: () => undefined, warn: () => undefined, error: () => undefined };
export type Row = AuditCall & Partial<AuditOutcome> & { readonly phase: string; readonly call: string };
export const UID = "uid-travel";
const MODEL: Principal = { kind: "agent", uid: UID, attribution: "direct" };

export interface Door extends AsyncDisposable {
  readonly sandbox: LocalSandbox;
  readonly rows: Row[];
  readonly shelf: ReturnType<typeof memoryShelf>;
  readonly door: CallDoor;
  readonly file: (name: string) => string;
  ask(tool: string, params: object, more?: Partial<CallRequest>, signal?: AbortSignal): Promise<CallResult>;
  /** The gateway after this one, on the same workspace and shelf. */
  next(more?: Partial<CallDeps>): Door;
}

export interface DoorOptions extends Partial<CallDeps> {
  readonly folder?: string;
  readonly local?: LocalSandbox;
  readonly kept?: ReturnType<typeof memoryShelf>;
}

export function openDoor({ folder: given, local, kept, ...more }: DoorOptions = {}): Door {
  const folder = given ?? mkdtempSync(join(tmpdir(), "beige-door-"));
  const sandbox = local ?? localSandbox(folder);
  const shelf = kept ?? memoryShelf();
  const rows: Row[] = [];
  const agent = {
    kind: "Agent",
    metadata: { name: "travel", namespace: "default", uid: UID },
    spec: { coreTools: [...CORE_TOOLS], tools: [], plugins: {}, suspend: false, sandbox: { resources: {} } },
  } as unknown as Agent;
  const door = createCalls({
    directory: { agentByUid: (uid) => (uid === UID ? agent : undefined) },
    audit: {
      begin: async (call, row) => void rows.push({ ...row, call, phase: "begin" }),
      end: async (call, row, outcome) => void rows.push({ ...row, ...outcome, call, phase: "end" }),
      denied: async (call, row, error) => void rows.push({ ...row, error, call, phase: "denied" }),
    },
    plugins: { owners: () => [], find: () => undefined },
    hooks: { guardCall: async () => undefined, observeCall: async () => undefined },
    sandbox,
    shelf,
    agents: { active: () => "box1" },
    secrets: { redact: (text) => text.replaceAll("hunter22", "[secret]") },
    clock: systemClock,
    random: systemRandom,
    log: quiet,
    ...more,
  });
  const id = { namespace: "default", name: "travel", uid: UID };
  return {
    sandbox,
    rows,
    shelf,
    door,
    file: (name) => join(sandbox.workspace, name),
    ask: (tool, params, asked = {}, signal = new AbortController().signal) =>
      door.call({ principal: MODEL, agent: id, tool, input: { params: params as Record<string, unknown> }, ...asked }, signal),
    next: (changed) => openDoor({ folder, local: sandbox, kept: shelf, ...more, ...changed }),
    async [Symbol.asyncDispose]() {
      door.calls.cut(UID, "the test ends");
      for (let tries = 0; door.calls.running(UID) > 0 && tries < 200; tries++) await systemClock.sleep(10);
      rmSync(folder, { recursive: true, force: true });
    },
  };
}

export const textOf = (result: CallResult): string => Buffer.from(result.output).toString("utf8");
