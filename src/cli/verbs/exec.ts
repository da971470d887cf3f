// beige exec: a command in an agent's sandbox, through the same gate as the agent's own; its exit code is passed on.
import { BeigeError } from "../../core/errors.ts";
import { milliseconds } from "../duration.ts";
import { type Context, type Input, on, type Run, word } from "../flags.ts";
import { agentName } from "../names.ts";
import { socketOf } from "../place.ts";

/** Words as the shell in the sandbox must read them to see the same words. A single word is a shell line. */
export function shellLine(words: readonly string[]): string {
  if (words.length === 1) return words[0] ?? "";
  return words.map((each) => (/^[\w@%+=:,./-]+$/.test(each) ? each : `'${each.replaceAll("'", `'\\''`)}'`)).join(" ");
}

const USUAL = "120s";

/** At the command: its streams as they run, with -i our standard input, and with -t this terminal. */
async function sit(context: Context, input: Input, agent: string): Promise<number> {
  const [tty, stdin] = [on(input, "tty"), on(input, "stdin")];
  const cwd = word(input, "cwd");
  // Nobody sits at it: it ends by itself.
  const timeout = word(input, "timeout") ?? (tty || stdin ? undefined : USUAL);
  if (tty && timeout !== undefined) throw new BeigeError("invalid", "--timeout does not go with -t");
  const { atCommand } = await import("../sit.ts");
  const { remotePlace } = await import("../remote.ts");
  const { home, env } = context;
  return atCommand(context, {
    place: (context.remote ? remotePlace({ env, flag: word(input, "gateway"), home }) : undefined) ?? socketOf(home),
    agent,
    command: input.rest.length === 1 ? ["sh", "-c", input.rest[0] ?? ""] : input.rest,
    tty,
    stdin,
    ...(cwd !== undefined && { cwd }),
    ...(timeout !== undefined && { timeoutS: Math.max(1, Math.ceil(milliseconds(timeout, "--timeout", 3_600_000) / 1000)) }),
  });
}

export const run: Run = async (context, input) => {
  const agent = agentName(input.args[0] ?? "", word(input, "namespace"));
  if (input.rest.length === 0) throw new BeigeError("invalid", "no command given", { hint: `beige exec ${agent} -- ls -l` });
  if (word(input, "output") !== "json") return sit(context, input, agent);
  const sat = on(input, "tty") ? "-t" : on(input, "stdin") ? "-i" : undefined;
  if (sat !== undefined) throw new BeigeError("invalid", `-o json does not go with ${sat}`);
  return bounded(context, input, agent);
};

/** One answer when it has ended, as much of the output as fits into one. */
async function bounded(context: Context, input: Input, agent: string): Promise<number> {
  const timeoutMs = milliseconds(word(input, "timeout") ?? USUAL, "--timeout", 3_600_000);
  const cwd = word(input, "cwd");
  const body = { command: shellLine(input.rest), timeout: Math.max(1, Math.ceil(timeoutMs / 1000)), ...(cwd !== undefined && { cwd }) };
  const ran = await context.client.get<{ readonly exitCode: number }>({
    path: `/api/agents/${agent}/exec`,
    body,
    idleMs: timeoutMs + 30_000,
  });
  await context.out.write(`${JSON.stringify(ran, undefined, 2)}\n`);
  return ran.exitCode;
}
