// Opens a conversation with an agent in the terminal. Whatever can be refused is refused before the terminal is touched and the SDK loaded.
import { BeigeError } from "../core/errors.ts";
import { closeEnvironment } from "./environment.ts";
import { createGateway, type Client, type Gateway } from "./gateway.ts";
import { createScreen } from "./screen.ts";
import { load, type Terminal } from "./terminal.ts";

export interface TuiOptions {
  readonly client: Client;
  /** The one agent there is, when absent. */
  readonly agent?: string;
  /** Key of the conversation; the newest of this channel when absent. */
  readonly session?: string;
  readonly fresh: boolean;
  readonly verbose: boolean;
  readonly env: NodeJS.ProcessEnv;
  readonly now: () => number;
}

async function agentOf(gateway: Gateway, given: string | undefined): Promise<string> {
  if (given !== undefined) return given;
  const names = (await gateway.agents()).map(({ name }) => name);
  const [only] = names;
  if (only === undefined) throw new BeigeError("not_found", "there is no agent", { hint: "beige init NAME writes a first one" });
  if (names.length === 1) return only;
  throw new BeigeError("invalid", "which agent?", { hint: `beige tui ${names.join(" | ")}` });
}

/** Does not come back when all goes well: the SDK ends the process. */
export async function openTui(options: TuiOptions): Promise<void> {
  const { client, now, env, fresh } = options;
  const gateway = createGateway(client);
  const agent = await agentOf(gateway, options.agent);
  const next = await load({ gateway, now }, { agent, session: options.session ?? (fresh ? "new" : "newest") });
  const verbose = options.verbose ? true : undefined;
  const terminal: Terminal = { gateway, now, screen: createScreen(), next, here: undefined, older: new Set(), ui: undefined, verbose };
  const folder = closeEnvironment(env);
  const { start } = await import("./factory.ts");
  await start(terminal, folder);
}
