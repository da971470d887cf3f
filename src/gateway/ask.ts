// What an exec call asks for: the command and what it runs with, checked before anything of it starts.
import { sha256 } from "../core/cap.ts";
import { EXEC_DEFAULT_MS, EXEC_MAX_MS, type ExecParams } from "./exec.ts";
import { pathInside, WORKSPACE } from "./inside.ts";
import { flagOf, type Params, shownOf, textOf, wrong } from "./params.ts";

const COMMAND_BYTES_MAX = 120 * 1024;
export const STDIN_BYTES_MAX = 1024 * 1024;
/** Of all names and values together; command and variables share what a program can be given. */
export const ENV_BYTES_MAX = 32 * 1024;
export const ENV_MAX = 64;
const NAME_MAX = 128;
/** Nobody waits for one in the background: its limits are longer. */
export const BACKGROUND_DEFAULT_MS = 3_600_000;
export const BACKGROUND_MAX_MS = 24 * 3_600_000;

export interface Ask extends ExecParams {
  readonly env: Readonly<Record<string, string>>;
  readonly background: boolean;
}

function timeoutOf(params: Params, background: boolean): number {
  const value = params["timeout"];
  if (value === undefined || value === null) return background ? BACKGROUND_DEFAULT_MS : EXEC_DEFAULT_MS;
  if (typeof value !== "number" || !(value > 0)) throw wrong("exec", "timeout", "a number of seconds above 0");
  return Math.min(Math.ceil(value * 1_000), background ? BACKGROUND_MAX_MS : EXEC_MAX_MS);
}

const isRecord = (value: unknown): value is Params => typeof value === "object" && value !== null && !Array.isArray(value);
const NAME = /^[A-Za-z_][A-Za-z0-9_]*$/;

function envOf(params: Params): Readonly<Record<string, string>> {
  const given = params["env"] ?? {};
  if (!isRecord(given)) throw wrong("exec", "env", "an object of names and text");
  const names = Object.keys(given);
  if (names.length > ENV_MAX) throw wrong("exec", "env", `at most ${ENV_MAX} variables`);
  let bytes = 0;
  for (const name of names) {
    const value = given[name];
    const shown = JSON.stringify(name.slice(0, NAME_MAX));
    if (!NAME.test(name) || name.length > NAME_MAX) throw wrong("exec", `env ${shown}`, "a name of letters, digits and _");
    if (/^BEIGE_/i.test(name)) throw wrong("exec", `env ${shown}`, "another name: BEIGE_ is the gateway's own");
    if (typeof value !== "string" || value.includes("\0")) throw wrong("exec", `env ${shown}`, "text without NUL");
    bytes += Buffer.byteLength(name) + Buffer.byteLength(value) + 2;
  }
  if (bytes > ENV_BYTES_MAX) throw wrong("exec", "env", `at most ${ENV_BYTES_MAX} bytes together`);
  // No prototype: a variable may have any name.
  return Object.assign(Object.create(null) as object, given) as Readonly<Record<string, string>>;
}

/** Throws `invalid`. */
export function askOf(params: Params): Ask {
  const command = textOf("exec", params, "command", { maxBytes: COMMAND_BYTES_MAX });
  if (command === "" || command.includes("\0")) throw wrong("exec", "command", "text without NUL, and not empty");
  const given = params["cwd"] ?? undefined;
  const background = flagOf("exec", params, "background");
  const stdin = (params["stdin"] ?? undefined) === undefined ? undefined : textOf("exec", params, "stdin", { maxBytes: STDIN_BYTES_MAX });
  return {
    command,
    timeoutMs: timeoutOf(params, background),
    cwd: given === undefined ? WORKSPACE : pathInside(textOf("exec", params, "cwd", { maxBytes: 4_096 })),
    env: envOf(params),
    background,
    ...(stdin === undefined ? {} : { stdin: Buffer.from(stdin) }),
  };
}

/** For audit and hooks: the command as it is and where it runs; of values and input, which often are secrets, only their hashes. */
export function askArgs(params: Params): readonly string[] {
  const { command, cwd, env, stdin, background } = params;
  // Nothing is checked yet, and nobody waits for the hashes of a million.
  const given = isRecord(env) ? Object.keys(env).slice(0, ENV_MAX) : [];
  const hashOf = (name: string): string => sha256(shownOf((env as Params)[name]));
  const input = shownOf(stdin ?? undefined);
  return [
    shownOf(command),
    ...((cwd ?? WORKSPACE) === WORKSPACE ? [] : [`cwd ${shownOf(cwd)}`]),
    ...given.map((name) => `env ${name.slice(0, NAME_MAX)} sha256 ${hashOf(name)}`),
    ...(input === "" ? [] : [`stdin sha256 ${sha256(input)} bytes ${Buffer.byteLength(input)}`]),
    ...(background === true ? ["background"] : []),
  ];
}
