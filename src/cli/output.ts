// Writing to people and pipes: colour, width, room in the pipe, and a quiet end when the reader goes away.
import { styleText } from "node:util";
import { clean } from "../core/text.ts";

export { clean } from "../core/text.ts";

export type Paint = "red" | "green" | "yellow" | "cyan" | "dim" | "bold";

export interface Output {
  /** Standard output is a terminal that a person reads. */
  readonly tty: boolean;
  /** Standard output is a terminal, whoever reads it: nothing that moves its cursor may get there. */
  readonly terminal: boolean;
  /** Standard error is a terminal that can be repainted. */
  readonly live: boolean;
  readonly columns: number;
  readonly unicode: boolean;
  paint(style: Paint, text: string): string;
  /** To standard output, as it is. Waits while the reader is slow; does nothing once it is gone. */
  write(text: string | Uint8Array): Promise<void>;
  /** One line to standard error. */
  note(text: string): void;
  /** To standard error as it is, for the painter. */
  raw(text: string): void;
  /** Resolves when everything has left this process, or its reader has gone. */
  flushed(): Promise<void>;
}

/** A standard stream; `isTTY` is absent where it is no terminal. */
type Stream = Pick<NodeJS.WriteStream, "write" | "on"> & { readonly isTTY?: boolean; readonly columns?: number };

/** Made when they are first written to: what says nothing for a while starts without them. */
export interface Streams {
  readonly stdout: Stream;
  readonly stderr: Stream;
  /** Whether standard output or standard error is a terminal, for streams that are costly to make. */
  readonly isTerminal?: (descriptor: 1 | 2) => boolean;
}

/** With their endings watched from the first use on. */
function watched(streams: Streams, gone: () => void) {
  let stdout: Stream | undefined;
  let stderr: Stream | undefined;
  const open = (stream: Stream, ended: () => void): Stream => {
    stream.on("error", ended);
    return stream;
  };
  return {
    stdout: () => (stdout ??= open(streams.stdout, gone)),
    stderr: () => (stderr ??= open(streams.stderr, () => undefined)),
    used: () => [stdout, stderr].filter((stream) => stream !== undefined),
  };
}

/** --color wins, then NO_COLOR, FORCE_COLOR, TERM=dumb, and whether it is a terminal. */
export function wantsColour(env: NodeJS.ProcessEnv, flag: string | undefined, tty: boolean): boolean {
  if (flag === "always" || flag === "never") return flag === "always";
  if (env["NO_COLOR"]) return false;
  const forced = env["FORCE_COLOR"];
  if (forced !== undefined) return forced !== "0" && forced !== "false";
  return tty && env["TERM"] !== "dumb";
}

/** Symbols beyond ASCII only where the locale says UTF-8. */
export function wantsUnicode(env: NodeJS.ProcessEnv, tty: boolean): boolean {
  const locale = env["LC_ALL"] || env["LC_CTYPE"] || env["LANG"];
  if (env["TERM"] === "linux") return false;
  return locale === undefined || locale === "" ? !tty : /utf-?8/i.test(locale);
}

/** Others' text on one line. */
export const oneLine = (text: string): string => clean(text.replace(/\s*[\r\n]+\s*/g, " ")).trim();

const AGENTS = ["AGENT", "AI_AGENT", "CLAUDECODE", "CURSOR_AGENT", "GEMINI_CLI", "CODEX_SANDBOX", "CODEX_THREAD_ID", "CODEX_CI"];

/** A program that reads instead of a person: plain whole lines even on a terminal. It changes the form only; what asks still asks. */
export const forAgent = (env: NodeJS.ProcessEnv): boolean =>
  env["BEIGE_OUTPUT"] === undefined || env["BEIGE_OUTPUT"] === ""
    ? AGENTS.some((name) => Boolean(env[name]))
    : env["BEIGE_OUTPUT"] === "agent";

/** Text without what moves a cursor, in the colours that it has. */
const painted = (text: string): string =>
  // eslint-disable-next-line no-control-regex -- the colours are made of it
  text.replace(/(\u001b\[\d{1,3}m)|([^\u001b]+|\u001b)/g, (_, colour?: string, other = "") => colour ?? clean(other));

export function createOutput(
  streams: Streams,
  env: NodeJS.ProcessEnv,
  options: { readonly color?: string; readonly gone: () => void },
): Output {
  let open = true;
  const { stdout, stderr, used } = watched(streams, () => {
    open = false;
    options.gone();
  });
  const isTerminal = streams.isTerminal ?? ((descriptor) => (descriptor === 1 ? stdout() : stderr()).isTTY ?? false);
  const terminal = isTerminal(1);
  const agent = forAgent(env);
  const tty = terminal && !agent;
  const colour = wantsColour(env, options.color, tty);
  return {
    tty,
    terminal,
    live: isTerminal(2) && !agent && env["TERM"] !== "dumb",
    get columns() {
      // A terminal may say that it has none.
      return stdout().columns || stderr().columns || 80;
    },
    unicode: wantsUnicode(env, tty),
    paint: (style, text) => (colour ? styleText(style, text, { validateStream: false }) : text),
    write: (text) =>
      new Promise((done) => {
        if (!open || text.length === 0) done();
        else stdout().write(text, () => done());
      }),
    // Others' words come in many notes: nothing but our own colours goes through.
    note: (text) => void stderr().write(`${colour ? painted(text) : clean(text)}\n`),
    raw: (text) => void stderr().write(text),
    async flushed() {
      // What was written before it has gone when it has: they go in order.
      await Promise.all(used().map((stream) => new Promise<void>((done) => stream.write("", () => done()))));
    },
  };
}
