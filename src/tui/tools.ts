// The agent's tools as the SDK calls them: each runs in the sandbox, through the gateway's one door.
import type { BashOperations, ToolDefinition } from "@mariozechner/pi-coding-agent";
import type { SessionLoop } from "../core/session.ts";
import { resultContent } from "../core/images.ts";
import { clean } from "../core/text.ts";
import type { Screen } from "./screen.ts";
import { said, type Gateway, type Talk } from "./gateway.ts";

/** What failed is said by throwing: that is how the SDK marks a result as an error. */
export const toolsOf = (
  gateway: Gateway,
  talk: () => Talk,
  { loop, screen }: { readonly loop: SessionLoop; readonly screen: Screen },
): ToolDefinition[] =>
  loop.tools.map(({ name, description, parameters }) => ({
    name,
    label: name,
    description,
    parameters,
    // In the order in which the model asked: two patches of one file must not race.
    executionMode: "sequential",
    async execute(id, shown, signal, _update, { model }) {
      const params = screen.argumentsOf(id, shown) as object;
      const answer = await gateway.tool(talk(), { tool: name, params }, signal).catch((error: unknown) => {
        throw new Error(said(error), { cause: error });
      });
      if (!answer.success) throw new Error(answer.text === "" ? `exit ${answer.exitCode}` : answer.text);
      return { content: resultContent(answer, model?.input ?? []), details: {} };
    },
  }));

/** `!command` of a person: in the agent's sandbox, never on this machine. */
export const shellOf = (gateway: Gateway, talk: () => Talk): BashOperations => ({
  async exec(command, _cwd, { onData, signal, timeout }) {
    const params = { command, ...(timeout !== undefined && { timeout }) };
    try {
      const answer = await gateway.tool(talk(), { tool: "exec", params }, signal);
      onData(Buffer.from(clean(answer.text)));
      return { exitCode: answer.exitCode };
    } catch (error) {
      if (signal?.aborted === true) throw error;
      throw new Error(said(error), { cause: error });
    }
  },
});
