// What a verb looks like to the command line: its arguments, flags and examples. Parsing, help and completion read the same table.
import type { Client } from "./client.ts";
import type { Output } from "./output.ts";

export interface Flag {
  readonly name: string;
  readonly short?: string;
  /** Placeholder of the value; a switch has none. */
  readonly value?: string;
  /** May be given several times. */
  readonly many?: boolean;
  readonly choices?: readonly string[];
  readonly summary: string;
}

export interface Input {
  readonly args: readonly string[];
  /** What follows `--`. */
  readonly rest: readonly string[];
  readonly flags: Readonly<Record<string, string | boolean | readonly string[] | undefined>>;
}

/** Everything that a verb may touch. */
export interface Context {
  readonly env: NodeJS.ProcessEnv;
  readonly cwd: string;
  /** Absolute path of BEIGE_HOME. */
  readonly home: string;
  readonly out: Output;
  readonly client: Client;
  /** The gateway is named by address: nothing of its home is here. */
  readonly remote: boolean;
  /** Aborted by Ctrl-C, SIGTERM and a reader that went away. */
  readonly signal: AbortSignal;
  /** Milliseconds since the epoch. */
  readonly now: () => number;
  /** All of standard input, at most `limit` bytes; throws beyond. */
  readonly stdin: (limit: number) => Promise<string>;
}

/** Answers the exit code. Throws BeigeError. */
export type Run = (context: Context, input: Input) => Promise<number>;

export interface Verb {
  /** One word, or two: `audit tail`. */
  readonly name: string;
  readonly summary: string;
  /** As shown in the usage line. */
  readonly args: string;
  /** Fewest and most positional arguments. */
  readonly takes: readonly [number, number];
  /** Takes a command after `--`. */
  readonly rest?: boolean;
  readonly flags: readonly Flag[];
  readonly examples: readonly (readonly [command: string, says: string])[];
  readonly exits?: string;
  readonly load: () => Promise<Run>;
}

export const GLOBAL: readonly Flag[] = [
  { name: "home", value: "DIR", summary: "home of the gateway (BEIGE_HOME, else ~/.beige)" },
  { name: "gateway", value: "URL", summary: "http://127.0.0.1:PORT of a gateway (BEIGE_GATEWAY), with BEIGE_TOKEN" },
  { name: "color", value: "WHEN", choices: ["auto", "always", "never"], summary: "colour: auto, always, never" },
  { name: "help", short: "h", summary: "this text" },
];

export const on = (input: Input, name: string): boolean => input.flags[name] === true;

export const word = (input: Input, name: string): string | undefined => {
  const value = input.flags[name];
  return typeof value === "string" ? value : undefined;
};

export const words = (input: Input, name: string): readonly string[] => {
  const value = input.flags[name];
  return Array.isArray(value) ? (value as readonly string[]) : typeof value === "string" ? [value] : [];
};
