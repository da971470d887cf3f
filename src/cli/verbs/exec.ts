// beige exec: a command in an agent's sandbox, through the same gate as the agent's own; its exit code is passed on.
import { BeigeError } from "../../core/errors.ts";
import { milliseconds } from "../duration.ts";
import { type Run, word } from "../flags.ts";
import { agentName } from "../names.ts";
import { clean, oneLine } from "../output.ts";

interface Ran {
  readonly content: readonly { readonly type: string; readonly text?: string }[];
  readonly exitCode: number;
  readonly outcome?: string;
  readonly error?: string;
  readonly outputBase64?: string;
}

/** Words as the shell in the sandbox must read them to see the same words. A single word is a shell line. */
export function shellLine(words: readonly string[]): string {
  if (words.length === 1) return words[0] ?? "";
  return words.map((each) => (/^[\w@%+=:,./-]+$/.test(each) ? each : `'${each.replaceAll("'", `'\\''`)}'`)).join(" ");
}

export const run: Run = async (context, input) => {
  const agent = agentName(input.args[0] ?? "", word(input, "namespace"));
  if (input.rest.length === 0) throw new BeigeError("invalid", "no command given", { hint: `beige exec ${agent} -- ls -l` });
  const timeoutMs = milliseconds(word(input, "timeout") ?? "120s", "--timeout", 3_600_000);
  const cwd = word(input, "cwd");
  const body = { command: shellLine(input.rest), timeout: Math.max(1, Math.ceil(timeoutMs / 1000)), ...(cwd !== undefined && { cwd }) };
  const ran = await context.client.get<Ran>({ path: `/api/agents/${agent}/exec`, body, idleMs: timeoutMs + 30_000 });
  if (word(input, "output") === "json") {
    await context.out.write(`${JSON.stringify(ran, undefined, 2)}\n`);
    return ran.exitCode;
  }
  const text = ran.content.map((part) => part.text ?? "").join("");
  const refused = ran.error !== undefined && text === ran.error;
  // Bytes as they are in a pipe; on a terminal nothing that would move its cursor.
  if (!refused)
    await context.out.write(
      context.out.terminal ? clean(text) : ran.outputBase64 === undefined ? text : Buffer.from(ran.outputBase64, "base64"),
    );
  if (ran.error !== undefined) context.out.note(oneLine(ran.error));
  return ran.outcome === "denied" ? Math.max(1, ran.exitCode) : ran.exitCode;
};
