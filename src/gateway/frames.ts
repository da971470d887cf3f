// Frames on an agent's socket: one JSON object a line, checked field by field, since an agent may send anything.
import type { CallResult } from "../core/call.ts";
import type { Hello, ToolRequest, ToolResponse } from "../../schemas/types.ts";

const ARGS_MAX = 4_096;
const TOOL_MAX = 127;
const CWD_MAX = 4_096;
const CALL_MAX = 128;
const CONTAINER = /^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$/;
const BASE64 = /^[A-Za-z0-9+/]*={0,2}$/;
const STDIN_BYTES_MAX = 1024 * 1024;
/** Text that JSON blows up beyond this goes as base64. */
const TEXT_GROWTH_MAX = 1.4;

type Bag = Readonly<Record<string, unknown>>;
export type Frame = Hello | ToolRequest | { readonly type: "wrong"; readonly wrong: string };

const wrong = (why: string): Frame => ({ type: "wrong", wrong: `frame is not understood: ${why}` });
const isText = (value: unknown, max: number): value is string => typeof value === "string" && value.length <= max;

function toolRequest(bag: Bag): Frame {
  const { tool, args, call, cwd, stdin } = bag;
  if (!isText(tool, TOOL_MAX) || tool === "") return wrong("tool must be text");
  if (!Array.isArray(args) || args.length > ARGS_MAX || !args.every((arg) => typeof arg === "string"))
    return wrong("args must be a list of text");
  if (call !== undefined && !isText(call, CALL_MAX)) return wrong("call must be text");
  if (cwd !== undefined && !isText(cwd, CWD_MAX)) return wrong("cwd must be text");
  if (stdin !== undefined && (!isText(stdin, (STDIN_BYTES_MAX / 3) * 4 + 4) || !BASE64.test(stdin)))
    return wrong("stdin must be base64 of at most 1 MiB");
  return {
    type: "tool_request",
    tool,
    args,
    ...(call === undefined ? {} : { call }),
    ...(cwd === undefined ? {} : { cwd }),
    ...(stdin === undefined ? {} : { stdin }),
  };
}

/** Anything but the fields of the protocol is dropped: what a frame says of identity is never read. */
export function parseFrame(line: Buffer): Frame {
  let value: unknown;
  try {
    value = JSON.parse(line.toString("utf8"));
  } catch {
    return wrong("it is no JSON");
  }
  if (typeof value !== "object" || value === null || Array.isArray(value)) return wrong("it is no object");
  const bag = value as Bag;
  if (bag["type"] === "tool_request") return toolRequest(bag);
  if (bag["type"] !== "hello") return wrong("type must be hello or tool_request");
  const { container } = bag;
  return isText(container, 64) && CONTAINER.test(container) ? { type: "hello", v: 1, container } : wrong("container must be a host name");
}

const line = (response: ToolResponse): string => `${JSON.stringify(response)}\n`;

/** Output that is UTF-8 goes as text, anything else as base64. */
export function responseFrame(result: CallResult): string {
  const { success, exitCode, error } = result;
  const raw = Buffer.from(result.output.buffer, result.output.byteOffset, result.output.byteLength);
  const base = {
    type: "tool_response",
    success,
    exitCode: Math.min(255, Math.max(0, exitCode)),
    ...(error === undefined ? {} : { error }),
  } as const;
  if (raw.length === 0) return line({ ...base, output: "" });
  const text = raw.toString("utf8");
  if (Buffer.from(text, "utf8").equals(raw)) {
    const answer = line({ ...base, output: text });
    if (answer.length < 64 * 1024 || answer.length <= raw.length * TEXT_GROWTH_MAX) return answer;
  }
  return line({ ...base, outputBase64: raw.toString("base64") });
}

export const errorFrame = (error: string): string => line({ type: "tool_response", success: false, error, exitCode: 1 });
