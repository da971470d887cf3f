// beige tui: a conversation with an agent in the terminal. What draws it is loaded by this verb alone.
import { BeigeError } from "../../core/errors.ts";
import { type Context, type Input, on, type Run, word } from "../flags.ts";
import { ensureGateway } from "../gateway.ts";
import { agentName } from "../names.ts";

function agentOf(input: Input): string | undefined {
  const named = input.args[0] ?? word(input, "agent");
  return named === undefined ? undefined : agentName(named, word(input, "namespace"));
}

function needTerminal(context: Context): void {
  if (context.out.terminal && process.stdin.isTTY && process.env["TERM"] !== "dumb") return;
  throw new BeigeError("invalid", "beige tui needs a terminal", { hint: 'beige prompt AGENT "TEXT" does without' });
}

export const run: Run = async (context, input) => {
  needTerminal(context);
  const [agent, session] = [agentOf(input), word(input, "session")];
  if (session !== undefined && on(input, "new")) throw new BeigeError("invalid", "--session and --new exclude each other");
  await ensureGateway(context);
  const { openTui } = await import("../../tui/run.ts");
  await openTui({
    client: context.client,
    fresh: on(input, "new"),
    verbose: on(input, "verbose"),
    env: process.env,
    now: context.now,
    ...(agent !== undefined && { agent }),
    ...(session !== undefined && { session }),
  });
  return 0;
};
