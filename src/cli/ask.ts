// Asks a person before something is lost: only on a terminal, and the answer is No unless it is yes.
import { BeigeError } from "../core/errors.ts";
import type { Context } from "./flags.ts";

/** Whether there is a person to be asked. */
export const canAsk = (context: Context): boolean => context.out.terminal && process.stderr.isTTY && process.stdin.isTTY;

/** Throws when the answer is no, or when there is nobody to ask. */
export async function confirm(context: Context, question: string, flag: string): Promise<void> {
  if (!canAsk(context)) {
    throw new BeigeError("invalid", `${question} Nobody is here to be asked.`, { hint: `${flag} says yes` });
  }
  // Most commands ask nothing: their start does not pay for it.
  const { createInterface } = await import("node:readline/promises");
  const reader = createInterface({ input: process.stdin, output: process.stderr });
  try {
    const answer = await reader.question(`${question} [y/N] `, { signal: context.signal });
    if (!/^y(es)?$/i.test(answer.trim())) throw new BeigeError("conflict", "not confirmed: nothing was changed");
  } finally {
    reader.close();
  }
}
