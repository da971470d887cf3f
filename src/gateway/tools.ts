// The four core tools: what the model is told of them, how their parameters are checked, and what the audit keeps of them.
import type { CoreTool } from "../core/call.ts";
import { sha256 } from "../core/cap.ts";
import { askArgs, askOf, BACKGROUND_MAX_MS } from "./ask.ts";
import { type BackgroundContext, startBackground } from "./background.ts";
import { exec, type ExecContext } from "./exec.ts";
import { failure, type Inside, type ToolOutcome } from "./inside.ts";
import { countOf, flagOf, onlyKnown, type Params, shownOf, textOf as boundText } from "./params.ts";
import { patch } from "./patch.ts";
import { LINES_MAX, read } from "./read.ts";
import { FILE_BYTES_MAX, write } from "./write.ts";

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

const TIMEOUT = "Seconds until it is ended: 120 when absent and 3600 at most; in the background 3600 and 86400.";
const PATH = "Path inside the sandbox; a relative one starts at /workspace.";

export const coreToolSchemas: readonly ToolSchema[] = [
  {
    name: "read",
    description: `Read a text file, at most ${LINES_MAX} lines or 64 KiB at once (offset and limit for more), or a picture: png, jpeg, gif, webp.`,
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
    description:
      "Run a shell command. Answers standard output and standard error as they came. Tools of plugins are programs on PATH. With background it is answered at once, and the command goes on: a server, a long build.",
    parameters: object(["command"], {
      command: text("Command for sh -c."),
      timeout: { type: "number", exclusiveMinimum: 0, maximum: BACKGROUND_MAX_MS / 1000, description: TIMEOUT },
      cwd: text("Folder to run in; /workspace when absent."),
      env: { type: "object", additionalProperties: { type: "string" }, description: "Further variables; no name with BEIGE_." },
      stdin: text("Standard input; empty when absent."),
      background: { type: "boolean", description: "Go on behind the answer, which says its pid and the file with its output." },
    }),
  },
];

const FIND_BYTES_MAX = 256 * 1024;

const SMALL = { maxBytes: FILE_BYTES_MAX };
const textOf = (tool: CoreTool, params: Params, field: string): string => boundText(tool, params, field, SMALL);

export interface ToolContext extends ExecContext {
  readonly inside: Inside;
  /** Absent where nothing goes on behind its answer. */
  readonly background?: BackgroundContext;
}

type Run = (params: Params, context: ToolContext, signal: AbortSignal) => Promise<ToolOutcome>;

const RUN: Readonly<Record<CoreTool, Run>> = {
  read: (params, { inside }, signal) => {
    const offset = countOf("read", params, "offset", { most: Number.MAX_SAFE_INTEGER }) ?? 1;
    const limit = countOf("read", params, "limit", { most: LINES_MAX }) ?? LINES_MAX;
    return read(inside, { path: textOf("read", params, "path"), offset, limit }, signal);
  },
  write: (params, { inside }, signal) =>
    write(inside, { path: textOf("write", params, "path"), content: textOf("write", params, "content") }, signal),
  patch: (params, { inside }, signal) => {
    const [path, replace] = [textOf("patch", params, "path"), textOf("patch", params, "replace")];
    const find = boundText("patch", params, "find", { maxBytes: FIND_BYTES_MAX });
    return patch(inside, { path, find, replace, all: flagOf("patch", params, "all") }, signal);
  },
  exec: (params, { background, ...context }, signal) => {
    const ask = askOf(params);
    const given = { ...context, env: { ...context.env, ...ask.env } };
    if (!ask.background) return exec(context.inside, ask, given, signal);
    if (background === undefined || context.streams !== undefined)
      return Promise.resolve(failure("exec: a command in the background has no streams: leave background out", 2));
    return startBackground(ask, { ...given, ...background }, signal);
  },
};

const KNOWN = Object.fromEntries(
  coreToolSchemas.map(({ name, parameters }) => [name, Object.keys((parameters as { properties: object }).properties)]),
);

/** Throws `invalid` for parameters that do not fit. */
export function runCoreTool(tool: CoreTool, params: Params, context: ToolContext, signal: AbortSignal): Promise<ToolOutcome> {
  onlyKnown(tool, params, KNOWN[tool] ?? []);
  return RUN[tool](params, context, signal);
}

const hashed = (value: unknown): string => `sha256 ${sha256(shownOf(value))}`;

const ARGS: Readonly<Record<CoreTool, (params: Params) => readonly string[]>> = {
  exec: askArgs,
  read: (params) => [shownOf(params["path"])],
  write: (params) => [shownOf(params["path"]), hashed(params["content"]), `bytes ${Buffer.byteLength(shownOf(params["content"]))}`],
  patch: (params) => [shownOf(params["path"]), hashed(params["find"]), hashed(params["replace"])],
};

/** Arguments for audit and hooks: what was done, and of file content only its hash. */
export const auditArgs = (tool: CoreTool, params: Params): readonly string[] => ARGS[tool](params);
