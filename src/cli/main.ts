// The command line's entry: words to a verb, a verb to an exit code.
import { isatty } from "node:tty";
import { asBeigeError, BeigeError, ERRORS } from "../core/errors.ts";
import { createClient } from "./client.ts";
import type { Context, Input, Verb } from "./flags.ts";
import { createOutput, oneLine, type Output, type Streams } from "./output.ts";
import { findVerb, groupOf, parseInput, unknownVerb } from "./parse.ts";
import { homeOf, socketOf } from "./place.ts";
import { sayError } from "./problems.ts";
import { verbs } from "./verbs.ts";

const SIGNAL_EXIT = { SIGINT: 130, SIGTERM: 143, SIGHUP: 129, SIGPIPE: 141 } as const;
type Ending = keyof typeof SIGNAL_EXIT;

async function readStdin(limit: number, signal: AbortSignal): Promise<string> {
  const parts: Buffer[] = [];
  let size = 0;
  const stop = (): void => void process.stdin.destroy();
  signal.addEventListener("abort", stop, { once: true });
  try {
    for await (const part of process.stdin) {
      size += (part as Buffer).length;
      if (size > limit) throw new BeigeError("invalid", `standard input is longer than ${limit / 1024} KiB`);
      parts.push(part as Buffer);
    }
  } finally {
    signal.removeEventListener("abort", stop);
  }
  try {
    return new TextDecoder("utf-8", { fatal: true }).decode(Buffer.concat(parts));
  } catch (error) {
    throw new BeigeError("invalid", "standard input is not UTF-8 text", { cause: error });
  }
}

/** The first signal stops waiting; the second ends at once. */
function watchSignals(controller: AbortController): void {
  for (const name of ["SIGINT", "SIGTERM", "SIGHUP"] as const) {
    process.on(name, () => {
      // Nothing that was asked for is lost: a second signal says so.
      if (controller.signal.aborted) process.exit(SIGNAL_EXIT[name]);
      controller.abort(name);
    });
  }
}

/** Errors of a bundle that was loaded apart have another class, but the same name. */
const known = (error: unknown): BeigeError => {
  if (error instanceof Error && error.name === "BeigeError" && !(error instanceof BeigeError)) {
    const { code, message, hint, problems } = error as BeigeError;
    return new BeigeError(code in ERRORS ? code : "internal", message, {
      problems,
      cause: error,
      ...(hint !== undefined && { hint }),
    });
  }
  return asBeigeError(error);
};

interface Running {
  readonly out: Output;
  readonly signal: AbortSignal;
  json: boolean;
}

/** Wants JSON: known before the words are parsed, so that mistakes in them are said as JSON too. */
const asksJson = (argv: readonly string[]): boolean =>
  argv.some(
    (word, i) => word === "-ojson" || word === "--output=json" || (word === "json" && (argv[i - 1] === "-o" || argv[i - 1] === "--output")),
  );

/** Flags before the verb go behind it: `beige --home /x get agents`. */
function reordered(argv: readonly string[]): readonly string[] {
  let i = 0;
  while (i < argv.length && (argv[i] ?? "").startsWith("--") && argv[i] !== "--")
    i += /^--(home|gateway|color)$/.test(argv[i] ?? "") ? 2 : 1;
  const cut = argv.indexOf("--");
  const end = cut < 0 ? argv.length : cut;
  return i === 0 || i >= end ? argv : [...argv.slice(i, end), ...argv.slice(0, i), ...argv.slice(end)];
}

async function help(out: Output, words: readonly string[]): Promise<number> {
  const { helpOn } = await import("./verbs/help.ts");
  await out.write(helpOn(words));
  return 0;
}

async function runVerb(verb: Verb, input: Input, running: Running): Promise<number> {
  const { out, signal } = running;
  if (input.flags["help"] === true) return help(out, verb.name.split(" "));
  const cwd = process.cwd();
  const home = homeOf(process.env, typeof input.flags["home"] === "string" ? input.flags["home"] : undefined, cwd);
  const flag = typeof input.flags["gateway"] === "string" ? input.flags["gateway"] : undefined;
  const named = flag !== undefined || Boolean(process.env["BEIGE_GATEWAY"]);
  const place = named ? (await import("./remote.ts")).remotePlace({ env: process.env, flag, home }) : undefined;
  const context: Context = {
    env: process.env,
    cwd,
    home,
    out,
    client: createClient(place ?? socketOf(home), signal, (text) => out.note(`${out.paint("yellow", "warning:")} ${oneLine(text)}`)),
    remote: place !== undefined,
    signal,
    now: () => Date.now(),
    stdin: (limit) => readStdin(limit, signal),
  };
  return (await verb.load())(context, input);
}

async function dispatch(argv: readonly string[], running: Running): Promise<number> {
  const [first = "", second] = argv;
  if (first === "" || first === "-h" || first === "--help") return help(running.out, []);
  if (first === "--version" || first === "-V") return dispatch(["version"], running);
  const found = findVerb(argv, verbs);
  if (!found) {
    const group = groupOf(first, verbs);
    if (group.length > 0 && (second === undefined || second === "-h" || second === "--help")) {
      await help(running.out, [first]);
      return second === undefined ? 2 : 0;
    }
    throw unknownVerb(argv, verbs);
  }
  return runVerb(found.verb, parseInput(found.verb, argv.slice(found.used)), running);
}

async function main(): Promise<void> {
  const argv = reordered(process.argv.slice(2));
  const controller = new AbortController();
  watchSignals(controller);
  const color =
    /^--color=(.*)$/.exec(argv.find((word) => word.startsWith("--color=")) ?? "")?.[1] ??
    (argv.includes("--color") ? argv[argv.indexOf("--color") + 1] : undefined);
  const streams: Streams = {
    get stdout() {
      return process.stdout;
    },
    get stderr() {
      return process.stderr;
    },
    isTerminal: isatty,
  };
  const out = createOutput(streams, process.env, { gone: () => controller.abort("SIGPIPE"), ...(color !== undefined && { color }) });
  const running: Running = { out, signal: controller.signal, json: asksJson(argv) };
  let code: number;
  try {
    code = await dispatch(argv, running);
  } catch (error) {
    const said = known(error);
    code = ERRORS[said.code].exit;
    if (!controller.signal.aborted) {
      if (said.code === "internal" && process.env["BEIGE_DEBUG"] && said.cause instanceof Error) out.note(said.cause.stack ?? "");
      sayError(out, said, running.json);
    }
  }
  // Whoever ended the wait decides: a reader that went away or a signal, unless the verb had its own word for it.
  const ended = controller.signal.reason as Ending | undefined;
  process.exitCode = controller.signal.aborted && ended !== undefined ? SIGNAL_EXIT[ended] : code;
  // Before that an exit would cut a pipe at 64 KiB; without it the process would tidy up its memory first, which takes milliseconds.
  await out.flushed();
  process.exit();
}

// Not awaited at the top: the published form of this file is CommonJS.
main().catch((error: unknown) => {
  process.stderr.write(`error: ${error instanceof Error ? (error.stack ?? error.message) : String(error)}\n`);
  process.exitCode = 70;
});
