// The four core tools: what the model is told of them, how their parameters are checked, and what the audit keeps of them.
import type { CoreTool } from "../core/call.ts";
import { sha256 } from "../core/cap.ts";
import { BeigeError } from "../core/errors.ts";
import { exec, EXEC_DEFAULT_MS, EXEC_MAX_MS, type ExecContext } from "./exec.ts";
import { type Inside, pathInside, type ToolOutcome, WORKSPACE } from "./inside.ts";
import { patch } from "./patch.ts";
import { LINES_MAX, read } from "./read.ts";
import { FILE_BYTES_MAX, write } from "./write.ts";

type Params = Readonly<Record<string, unknown>>;

export interface ToolSchema {
  readonly name: CoreTool;
  readonly description: string;
  /** JSON Schema. */
  readonly parameters: object;
}

const text = (description: string): object => ({ type: "string", description });
const whole = (description: string): object => ({ type: "integer", minimum: 1, description });
const object = (required: readonly string[], properties: Readonly<Record<string, object>>): object => ({
  type: "object",
  additionalProperties: false,
  required,
  properties,
});

const PATH = "Path inside the sandbox; a relative one starts at /workspace.";

export const coreToolSchemas: readonly ToolSchema[] = [
  {
    name: "read",
    description: `Read a text file, at most ${LINES_MAX} lines or 64 KiB at once. Use offset and limit for more.`,
    parameters: object(["path"], { path: text(PATH), offset: whole("First line, from 1."), limit: whole("Number of lines.") }),
  },
  {
    name: "write",
    description: "Write a whole file. Makes missing folders, and replaces what is there.",
    parameters: object(["path", "content"], { path: text(PATH), content: text("The whole content.") }),
  },
  {
    name: "patch",
    description:
      "Replace text in a file. The text must be in the file exactly once, unless all is true. Line endings of the file are kept.",
    parameters: object(["path", "find", "replace"], {
      path: text(PATH),
      find: text("Text as it stands in the file, white space included."),
      replace: text("Text that takes its place."),
      all: { type: "boolean", description: "Replace every place." },
    }),
  },
  {
    name: "exec",
    description: "Run a shell command. Answers standard output and standard error as they came. Tools of plugins are programs on PATH.",
    parameters: object(["command"], {
      command: text("Command for sh -c."),
      timeout: { type: "number", exclusiveMinimum: 0, maximum: 3600, description: "Seconds until it is ended; 120 when absent." },
      cwd: text("Folder to run in; /workspace when absent."),
    }),
  },
];

const wrong = (tool: CoreTool, field: string, wanted: string): BeigeError =>
  new BeigeError("invalid", `${tool}: ${field} must be ${wanted}`);

function textOf(tool: CoreTool, params: Params, field: string, maxBytes = FILE_BYTES_MAX): string {
  const value = params[field];
  if (typeof value !== "string") throw wrong(tool, field, "text");
  if (Buffer.byteLength(value) > maxBytes) throw wrong(tool, field, `text of at most ${maxBytes} bytes`);
  return value;
}

function countOf(tool: CoreTool, params: Params, field: string, most: number): number | undefined {
  const value = params[field];
  if (value === undefined || value === null) return undefined;
  if (typeof value !== "number" || !Number.isSafeInteger(value) || value < 1) throw wrong(tool, field, "a whole number from 1");
  return Math.min(value, most);
}

function timeoutOf(params: Params): number {
  const value = params["timeout"];
  if (value === undefined || value === null) return EXEC_DEFAULT_MS;
  if (typeof value !== "number" || !(value > 0)) throw wrong("exec", "timeout", "a number of seconds above 0");
  return Math.min(Math.ceil(value * 1_000), EXEC_MAX_MS);
}

function flagOf(tool: CoreTool, params: Params, field: string): boolean {
  const value = params[field] ?? false;
  if (typeof value !== "boolean") throw wrong(tool, field, "true or false");
  return value;
}

const COMMAND_BYTES_MAX = 120 * 1024;
const FIND_BYTES_MAX = 256 * 1024;

type Run = (params: Params, context: ExecContext & { readonly inside: Inside }, signal: AbortSignal) => Promise<ToolOutcome>;

const RUN: Readonly<Record<CoreTool, Run>> = {
  read: (params, { inside }, signal) => {
    const offset = countOf("read", params, "offset", Number.MAX_SAFE_INTEGER) ?? 1;
    const limit = countOf("read", params, "limit", LINES_MAX) ?? LINES_MAX;
    return read(inside, { path: textOf("read", params, "path"), offset, limit }, signal);
  },
  write: (params, { inside }, signal) =>
    write(inside, { path: textOf("write", params, "path"), content: textOf("write", params, "content") }, signal),
  patch: (params, { inside }, signal) => {
    const [path, replace] = [textOf("patch", params, "path"), textOf("patch", params, "replace")];
    const find = textOf("patch", params, "find", FIND_BYTES_MAX);
    return patch(inside, { path, find, replace, all: flagOf("patch", params, "all") }, signal);
  },
  exec: (params, context, signal) => {
    const command = textOf("exec", params, "command", COMMAND_BYTES_MAX);
    if (command === "" || command.includes("\0")) throw wrong("exec", "command", "text without NUL, and not empty");
    const given = params["cwd"] ?? undefined;
    const cwd = given === undefined ? WORKSPACE : pathInside(textOf("exec", params, "cwd"));
    return exec(context.inside, { command, timeoutMs: timeoutOf(params), cwd }, context, signal);
  },
};

/** Throws `invalid` for parameters that do not fit. */
export const runCoreTool = (tool: CoreTool, ...rest: Parameters<Run>): Promise<ToolOutcome> => RUN[tool](...rest);

const shown = (value: unknown): string => (typeof value === "string" ? value : value === undefined ? "" : (JSON.stringify(value) ?? ""));
const hashed = (value: unknown): string => `sha256 ${sha256(shown(value))}`;

const ARGS: Readonly<Record<CoreTool, (params: Params) => readonly string[]>> = {
  exec: (params) => [shown(params["command"])],
  read: (params) => [shown(params["path"])],
  write: (params) => [shown(params["path"]), hashed(params["content"]), `bytes ${Buffer.byteLength(shown(params["content"]))}`],
  patch: (params) => [shown(params["path"]), hashed(params["find"]), hashed(params["replace"])],
};

/** Arguments for audit and hooks: what was done, and of file content only its hash. */
export const auditArgs = (tool: CoreTool, params: Params): readonly string[] => ARGS[tool](params);
