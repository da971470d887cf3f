// What crosses between the gateway and a plugin's own process: JSON lines, each checked by whoever reads it.
import type { ToolAnswer, ToolCaller, ToolRequestInput } from "../../core/plugin.ts";

export const LINE_BYTES_MAX = 12 * 1024 * 1024;

export interface WireInput {
  readonly args: readonly string[];
  /** Base64. */
  readonly stdin?: string;
  readonly cwd?: string;
}

export type ToChild =
  | {
      readonly op: "init";
      readonly main: string;
      readonly name: string;
      readonly config: Readonly<Record<string, unknown>>;
      readonly dataFolder: string;
    }
  | {
      readonly op: "tool";
      readonly id: number;
      readonly tool: string;
      readonly input: WireInput;
      readonly caller: ToolCaller;
      readonly config: Readonly<Record<string, unknown>>;
    }
  | { readonly op: "hook"; readonly id: number; readonly hook: string; readonly input: unknown }
  | { readonly op: "start" | "stop" | "ping"; readonly id: number }
  | { readonly op: "abort"; readonly id: number }
  | { readonly op: "secret"; readonly id: number; readonly value?: string; readonly error?: string };

/** A plugin may send anything: nothing but `op` is believed before it was looked at. */
export type FromChild =
  | { readonly op: "ready"; readonly tools: unknown; readonly hooks: unknown }
  | { readonly op: "failed"; readonly error: unknown }
  | { readonly op: "answer"; readonly id: unknown; readonly value?: unknown; readonly error?: unknown }
  | { readonly op: "secret"; readonly id: number; readonly key: unknown }
  | { readonly op: "log"; readonly message: unknown; readonly fields?: unknown };

const SAID_MAX = 4_096;
/** Text of a hostile value. */
export const saidText = (value: unknown): string => (typeof value === "string" ? value : (JSON.stringify(value) ?? "")).slice(0, SAID_MAX);

export const packInput = (input: ToolRequestInput): WireInput => ({
  args: input.args,
  ...(input.stdin === undefined ? {} : { stdin: Buffer.from(input.stdin).toString("base64") }),
  ...(input.cwd === undefined ? {} : { cwd: input.cwd }),
});

export const unpackInput = (input: WireInput): ToolRequestInput => ({
  args: input.args,
  ...(input.stdin === undefined ? {} : { stdin: Buffer.from(input.stdin, "base64") }),
  ...(input.cwd === undefined ? {} : { cwd: input.cwd }),
});

export const packAnswer = (answer: ToolAnswer): object => ({
  ...(typeof answer.output === "string" ? { output: answer.output } : { base64: Buffer.from(answer.output).toString("base64") }),
  ...(answer.exitCode === undefined ? {} : { exitCode: answer.exitCode }),
  ...(answer.error === undefined ? {} : { error: answer.error }),
});

/** Throws when it is no answer. */
export function unpackAnswer(value: unknown): ToolAnswer {
  const { output, base64, exitCode, error } = (value ?? {}) as Readonly<Record<string, unknown>>;
  const data = typeof output === "string" ? output : typeof base64 === "string" ? Buffer.from(base64, "base64") : undefined;
  if (data === undefined) throw new Error("answered without output");
  return {
    output: data,
    ...(typeof exitCode === "number" ? { exitCode } : {}),
    ...(typeof error === "string" ? { error } : {}),
  };
}
