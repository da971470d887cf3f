// The terminal's state: the conversation that is open, the next one, and what waits to be kept of those that were left.
import { randomBytes } from "node:crypto";
import type { ExtensionContext } from "@mariozechner/pi-coding-agent";
import { BeigeError } from "../core/errors.ts";
import type { SessionLoop } from "../core/session.ts";
import type { Commands } from "./commands.ts";
import type { Entry, Gateway, Talk } from "./gateway.ts";
import { createKeeper, type Keeper } from "./keeper.ts";
import type { Screen } from "./screen.ts";

const CHANNEL = "tui";
/** How long the end waits for a gateway that does not take what was said. */
const LAST_WORDS_MS = 5000;
const SETTLE_MS = 50;

/** A conversation as the gateway has it. */
export interface Loaded {
  readonly talk: Talk;
  readonly loop: SessionLoop;
  readonly entries: readonly Entry[];
}

export interface Terminal {
  readonly gateway: Gateway;
  readonly now: () => number;
  readonly screen: Screen;
  /** The SDK's next session; a new conversation with the same agent when absent. */
  next: Loaded | undefined;
  here: { readonly loop: SessionLoop; readonly keeper: Keeper } | undefined;
  /** Of conversations that were left. */
  readonly older: Set<Keeper>;
  ui: ExtensionContext["ui"] | undefined;
  /** As it was set in this terminal. */
  verbose: boolean | undefined;
}

/** A key that no conversation has. */
export function newKey(now: number): string {
  const minute = new Date(now).toISOString().slice(0, 16).replaceAll(/[-:]/g, "");
  return `${CHANNEL}:${minute}-${randomBytes(3).toString("hex")}`;
}

/** Everything that can fail is asked before the terminal is touched. */
export async function load(terminal: Pick<Terminal, "gateway" | "now">, to: Talk): Promise<Loaded> {
  const { gateway, now } = terminal;
  let { session } = to;
  if (session === "newest")
    session = (await gateway.sessions(to.agent)).find((row) => row.session.startsWith(`${CHANNEL}:`))?.session ?? "new";
  if (session === "new") session = newKey(now());
  const talk = { agent: to.agent, session };
  const loop = await gateway.loop(talk);
  if (loop.models.length === 0) throw new BeigeError("not_found", `agent ${to.agent} has no model whose provider is there`);
  return { talk, loop, entries: await gateway.entries(talk) };
}

export function talkOf(terminal: Terminal): Talk {
  if (terminal.here === undefined) throw new BeigeError("internal", "no conversation is open");
  return terminal.here.keeper.talk();
}

export const warn = (terminal: Terminal, text: string): void => terminal.ui?.notify(text, "warning");

export interface Opening {
  readonly talk: Talk;
  readonly entries: () => readonly Entry[];
  /** How many of them the gateway has. */
  readonly had: number;
}

/** From now on this is the conversation. */
export function open(terminal: Terminal, loop: SessionLoop, { talk, entries, had }: Opening): Keeper {
  if (terminal.here !== undefined) terminal.older.add(terminal.here.keeper);
  const after = had === 0 ? null : (entries()[had - 1]?.id ?? null);
  const keeper = createKeeper(
    terminal.gateway,
    { talk, entries, had, after, newKey: () => newKey(terminal.now()) },
    {
      onTrouble: (text) => terminal.ui?.setStatus("kept", text === undefined ? undefined : `not kept yet: ${text}`),
      onMoved: (moved) => {
        warn(terminal, `this conversation went on elsewhere; what is said here is session ${moved.session} from now on`);
        terminal.ui?.setStatus("beige", `${moved.agent} ${moved.session}`);
      },
    },
  );
  terminal.here = { loop, keeper };
  return keeper;
}

export const commandsOf = (terminal: Terminal): Commands => ({
  gateway: terminal.gateway,
  talk: () => talkOf(terminal),
  // The SDK tells first and writes the entry down after it.
  touch: () => void setTimeout(() => terminal.here?.keeper.touch(), SETTLE_MS).unref(),
  async prepare(to) {
    terminal.next = await load(terminal, to);
  },
  shown: (ui) => void (terminal.ui = ui),
  verbose: () => terminal.verbose ?? terminal.here?.loop.settings.verbose ?? false,
  setVerbose: (on) => void (terminal.verbose = on),
  async close() {
    const keepers = [...terminal.older, ...(terminal.here === undefined ? [] : [terminal.here.keeper])];
    const left = await Promise.all(keepers.map((keeper) => keeper.flush(LAST_WORDS_MS)));
    const lost = left.reduce((sum, each) => sum + each, 0);
    const { agent, session } = talkOf(terminal);
    const last =
      lost > 0
        ? `${lost} entries of this conversation were not kept: the gateway did not take them`
        : `go on with: beige tui ${agent} --session ${session}`;
    // When the terminal is as it was.
    if (lost > 0 || terminal.here?.keeper.any() === true) process.on("exit", () => void process.stderr.write(`${last}\n`));
  },
});
