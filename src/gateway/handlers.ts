// Runs a plugin's tool: bounded in time and size, its words without secrets.
import { isUtf8 } from "node:buffer";
import type { Principal } from "../core/call.ts";
import type { ToolAnswer, ToolRequestInput } from "../core/plugin.ts";
import type { Clock } from "../core/world.ts";
import { limited, messageOf } from "./deadline.ts";
import { failure, type ToolOutcome } from "./inside.ts";
import type { FoundTool } from "./plugins.ts";
import { saidText } from "./plugins/wire.ts";

export const TOOL_MS = 300_000;
const OUTPUT_BYTES_MAX = 4 * 1024 * 1024;
const ERROR_MAX = 4_096;

export interface HandlerContext {
  readonly agent: string;
  readonly principal: Principal;
  readonly session?: string;
  readonly call: string;
  readonly clock: Pick<Clock, "after">;
  readonly redact: (text: string) => string;
}

/** Bytes without secrets in them; those that are no UTF-8 are looked at one by one. */
function clean(given: string | Uint8Array, redact: (text: string) => string): Uint8Array {
  if (typeof given === "string") return Buffer.from(redact(given));
  const raw = Buffer.from(given.buffer, given.byteOffset, given.byteLength);
  const coding = isUtf8(raw) ? "utf8" : "latin1";
  const text = raw.toString(coding);
  const said = redact(text);
  return said === text ? given : Buffer.from(said, coding);
}

function outcomeOf(answer: ToolAnswer, redact: (text: string) => string): ToolOutcome {
  const nothing = failure("the tool answered without output", 70);
  if (typeof answer !== "object" || answer === null) return nothing;
  const { output: given } = answer;
  if (typeof given !== "string" && !(given instanceof Uint8Array)) return nothing;
  const whole = clean(given, redact);
  const output = whole.subarray(0, OUTPUT_BYTES_MAX);
  const cut = whole.length > output.length;
  const code = answer.exitCode ?? (answer.error === undefined ? 0 : 1);
  const exitCode = Number.isInteger(code) && code >= 0 && code <= 255 ? code : 1;
  const left = cut ? `${whole.length - output.length} bytes of output were left out` : undefined;
  const said = answer.error === undefined ? undefined : redact(saidText(answer.error)).slice(0, ERROR_MAX);
  const error = said ?? left ?? (exitCode === 0 ? undefined : `tool exited with code ${exitCode}`);
  return {
    output,
    exitCode,
    outcome: exitCode === 0 ? "ok" : "failed",
    ...(error === undefined ? {} : { error }),
    ...(cut ? { truncated: true } : {}),
  };
}

/** Never throws for what the plugin does; throws the signal's reason when it is aborted. */
export async function runHandler(
  found: FoundTool,
  input: ToolRequestInput,
  context: HandlerContext,
  signal: AbortSignal,
): Promise<ToolOutcome> {
  const { principal, session } = context;
  const attribution = principal.kind === "agent" ? principal.attribution : "direct";
  const caller = { agent: context.agent, attribution, callId: context.call, ...(session === undefined ? {} : { session }) };
  const stop = new AbortController();
  const both = AbortSignal.any([signal, stop.signal]);
  const limit = { ms: TOOL_MS, what: `tool ${found.definition.name}` };
  try {
    const run = (): Promise<ToolAnswer> => found.definition.run(input, { caller, config: found.config, signal: both });
    return outcomeOf(await limited(context.clock, limit, run, signal), context.redact);
  } catch (error) {
    if (signal.aborted) throw signal.reason;
    const said = context.redact(messageOf(error)).slice(0, ERROR_MAX);
    const late = (error as { code?: unknown }).code === "timeout";
    stop.abort(error);
    return { ...failure(said, late ? 124 : 1), outcome: late ? "timeout" : "failed" };
  }
}
