// Turns on the real agent loop with everything else in memory, for tests of the gateway's doors.
import { mkdtempSync, readdirSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createPi } from "../../src/adapters/pi.ts";
import type { CallTool, RejoinCall } from "../../src/core/call.ts";
import type { Llm } from "../../src/core/chat.ts";
import type { Agent, Provider } from "../../src/core/resource.ts";
import type { TurnEvent, TurnRequest } from "../../src/core/turn.ts";
import { createChat } from "../../src/gateway/chat.ts";
import { createEcho } from "../../src/gateway/echo.ts";
import { createLimiter } from "../../src/gateway/limiter.ts";
import { createTurns, type TurnDoor } from "../../src/gateway/turns.ts";
import * as w from "./world.ts";

const homes: string[] = [];
export const newHome = (): string => {
  const home = mkdtempSync(join(tmpdir(), "beige-turns-"));
  homes.push(home);
  return home;
};
export const cleanHomes = (): void => {
  for (const home of homes.splice(0)) rmSync(home, { recursive: true, force: true });
};

export interface Setting {
  readonly home?: string;
  readonly agents?: Agent[];
  readonly providers?: Provider[];
  readonly shelf?: ReturnType<typeof w.memoryShelf>;
  readonly call?: CallTool;
  readonly llm?: Llm;
  readonly deadlineMs?: number;
  readonly onIdle?: (uid: string) => void;
  readonly rejoin?: RejoinCall;
  readonly tools?: Parameters<typeof createTurns>[0]["tools"];
}
export interface Rig {
  readonly home: string;
  readonly door: TurnDoor;
  readonly agents: Agent[];
  readonly shelf: ReturnType<typeof w.memoryShelf>;
  readonly audit: ReturnType<typeof w.memoryAudit>;
  readonly log: ReturnType<typeof w.memoryLog>;
  readonly ask: (text: string, more?: Partial<TurnRequest>, signal?: AbortSignal) => AsyncIterable<TurnEvent>;
  readonly say: (text: string, more?: Partial<TurnRequest>) => Promise<TurnEvent[]>;
}

export function rig(setting: Setting = {}): Rig {
  const home = setting.home ?? newHome();
  const agents = setting.agents ?? [w.agent("dev", [["p", "m"]])];
  const [audit, log, shelf] = [w.memoryAudit(), w.memoryLog(), setting.shelf ?? w.memoryShelf()];
  const directory = w.directory(agents, setting.providers ?? [w.echoProvider("p", [])]);
  const deps = { directory, clock: w.clock, random: w.random, log, audit, shelf };
  const pi = createPi(deps);
  const chat = createChat({
    ...deps,
    llm: (api) => setting.llm ?? (api === "echo" ? createEcho(w.clock) : pi.llm),
    secrets: w.memorySecrets({ k: "sk-planted-4711" }),
    hooks: w.noHooks,
    ledger: w.memoryLedger(),
    limiter: createLimiter(w.clock),
  });
  const door = createTurns({
    ...deps,
    chat,
    call: setting.call ?? w.echoCall,
    runtime: pi.runtime,
    home,
    tools: setting.tools ?? w.tools,
    ...(setting.rejoin === undefined ? {} : { rejoin: setting.rejoin }),
    ...(setting.onIdle === undefined ? {} : { onIdle: setting.onIdle }),
    ...(setting.deadlineMs === undefined ? {} : { deadlineMs: setting.deadlineMs }),
  });
  const ask: Rig["ask"] = (text, more, signal) =>
    door.turn(
      { principal: { kind: "operator" }, agent: w.idOf(agents[0] ?? w.agent("dev", [])), text, ...more },
      signal ?? new AbortController().signal,
    );
  return { home, door, agents, shelf, audit, log, ask, say: (text, more) => w.all(ask(text, more)) };
}

export const folder = (home: string): string => join(home, "sessions/default.dev");
export const files = (home: string): string[] => readdirSync(folder(home)).map((name) => join(folder(home), name));
export interface Entry {
  readonly type: string;
  readonly customType?: string;
  readonly message?: { readonly role: string; readonly content: unknown; readonly stopReason?: string };
}
export const entries = (home: string): Entry[] =>
  readFileSync(files(home)[0] ?? "", "utf8")
    .trim()
    .split("\n")
    .map((line) => JSON.parse(line) as Entry);
export const said = (home: string): string[] =>
  entries(home).flatMap((entry) => {
    if (entry.message === undefined || entry.message.role === "system") return [];
    const parts = entry.message.content as { type: string; text?: string; name?: string }[];
    return [`${entry.message.role}: ${parts.map((part) => part.text ?? part.name ?? "").join("")}`];
  });
export const inbox = (at: Rig): unknown[] => at.shelf.list("inbox/").slice();
export const answer = (events: readonly TurnEvent[]): string => {
  const last = events.at(-1);
  return last?.type === "done" ? last.text : `${last?.type}: ${last?.type === "error" ? last.message : ""}`;
};
export const uid = "dev-uid";
