// A call: an agent, or a person on its behalf, asks for a tool. The words that the one door and all its users share.

import type { ImagePart } from "./chat.ts";
import type { ExecTerminal } from "./sandbox.ts";

/** Names an agent for traffic; `uid` is the object's. */
export interface AgentId {
  readonly namespace: string;
  readonly name: string;
  readonly uid: string;
}

/** Who asks. Authority comes from here and nowhere else. */
export type Principal =
  /** `key` names the API key that was used; without one it is the operator's own token or socket. */
  | { readonly kind: "operator"; readonly key?: string }
  | { readonly kind: "viewer"; readonly key?: string }
  /** Prompts and calls just these agents, named NAME or NS.NAME; `*` is all. */
  | { readonly kind: "caller"; readonly key: string; readonly agents: readonly string[] }
  | { readonly kind: "schedule"; readonly name: string }
  | { readonly kind: "source"; readonly name: string }
  /** `attribution` says how sure the session is; policy never reads it. */
  | { readonly kind: "agent"; readonly uid: string; readonly attribution: "direct" | "token" | "none" };

export const CORE_TOOLS = ["read", "write", "patch", "exec"] as const;
export type CoreTool = (typeof CORE_TOOLS)[number];
export const isCoreTool = (tool: string): tool is CoreTool => (CORE_TOOLS as readonly string[]).includes(tool);

/** What somebody sits at. */
export interface CallTerminal extends ExecTerminal {
  /** What it understands, as in TERM. */
  readonly term: string;
  /** Hears of every new size from now on. One listener. */
  readonly onSize: (listener: (size: ExecTerminal) => void) => void;
}

/** For somebody who sits at a command: its streams as they run, besides the capped output of the result. */
export interface CallStreams {
  /** Awaited before the next chunk: whoever reads slowly slows the command. Must not throw. */
  readonly output: (stream: "stdout" | "stderr", data: Uint8Array) => Promise<void>;
  /** Standard input; none when absent. Read until it ends or the command does. */
  readonly input?: AsyncIterable<Uint8Array>;
  /** The command gets a terminal of its own: all output is stdout then. */
  readonly terminal?: CallTerminal;
}

export interface CallRequest {
  readonly principal: Principal;
  readonly agent: AgentId;
  readonly tool: string;
  /** Core tools take named parameters; plugin tools take words as a program does. */
  readonly input:
    | { readonly params: Readonly<Record<string, unknown>> }
    | { readonly args: readonly string[]; readonly stdin?: Uint8Array; readonly cwd?: string };
  readonly session?: string;
  readonly parent?: string;
  /** Id of the request, or of the turn's, that it belongs to. */
  readonly request?: string;
  /** Of the core tool exec only. */
  readonly streams?: CallStreams;
  /** Of the core tool exec only: called before its command starts. Whoever gives it takes the command up again after a crash. */
  readonly onCommand?: (command: StartedCommand) => void;
}

/** A command that outlives its gateway, as `RejoinCall` finds it again. */
export interface StartedCommand {
  readonly call: string;
  readonly container: string;
  readonly timeoutMs: number;
}

/** What a tool answered. `error` is set when it failed; output may still be there. */
export interface CallResult {
  readonly call: string;
  readonly success: boolean;
  readonly output: Uint8Array;
  readonly exitCode: number;
  readonly error?: string;
  readonly outcome: "ok" | "failed" | "denied" | "timeout" | "cancelled" | "oom" | "lost";
  /** A part of the output was left out; the text says how much. */
  readonly truncated?: boolean;
  /** Pictures that the output names. */
  readonly images?: readonly ImagePart[];
}

/** The one door. Never throws for what a tool did; throws `unavailable` when the audit cannot be written. */
export type CallTool = (request: CallRequest, signal: AbortSignal) => Promise<CallResult>;

/** The result of a command that the gateway before this one started; undefined when it cannot be had any more. */
export type RejoinCall = (agent: AgentId, command: StartedCommand, signal: AbortSignal) => Promise<CallResult | undefined>;

/** The wire text of a refusal. */
export const denialText = (tool: string, agent: string): string => `Permission denied: tool '${tool}' not allowed for agent '${agent}'`;
