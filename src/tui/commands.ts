// What this terminal adds to the SDK's own: its words, its head, the sandbox behind `!`, and a look at each event for what must be kept.
import type { ExtensionAPI, ExtensionCommandContext, ExtensionContext } from "@mariozechner/pi-coding-agent";
import type { SettingsPatch } from "../core/session.ts";
import { clean } from "../core/text.ts";
import { editorOf, offersOf } from "./editor.ts";
import { modelOf, said, type Gateway, type Talk } from "./gateway.ts";
import { shellOf } from "./tools.ts";

export interface Commands {
  readonly gateway: Gateway;
  readonly talk: () => Talk;
  /** There may be something new to keep. */
  touch(): void;
  /** Loads a conversation, or says why not; then the SDK is told to begin another session, which is that one. */
  prepare(talk: Talk | { readonly agent: string; readonly session: "newest" | "new" }): Promise<void>;
  /** The terminal is there: who writes to it, until the next one. */
  shown(ui: ExtensionContext["ui"]): void;
  readonly verbose: () => boolean;
  setVerbose(on: boolean): void;
  /** Waits until the gateway has all that was said. */
  close(): Promise<void>;
}

type Ui = ExtensionContext["ui"];

/** Failures are words on the screen. */
const trying =
  (work: (args: string, context: ExtensionCommandContext) => Promise<void>) =>
  async (args: string, context: ExtensionCommandContext): Promise<void> => {
    try {
      await work(args.trim(), context);
    } catch (error) {
      context.ui.notify(said(error), "error");
    }
  };

function dress(ui: Ui, commands: Commands): void {
  const { agent, session } = commands.talk();
  ui.setHeader((_tui, theme) => ({
    render: () => [
      "",
      ` ${theme.bold(theme.fg("accent", "beige"))} ${theme.fg("muted", `agent ${agent}, session ${session}`)}`,
      ` ${theme.fg("dim", "/ commands · ! in the sandbox · /new · /sessions · /agent · Ctrl+D ends")}`,
      "",
    ],
    invalidate: () => undefined,
  }));
  ui.setTitle(`beige ${agent} ${session}`);
  ui.setStatus("beige", `${agent} ${session}${commands.verbose() ? " verbose" : ""}`);
  ui.setToolsExpanded(commands.verbose());
}

async function set(commands: Commands, ui: Ui, patch: SettingsPatch): Promise<void> {
  await commands.gateway
    .set(commands.talk(), patch)
    .catch((error: unknown) => ui.notify(`not set for the session: ${said(error)}`, "warning"));
}

async function switchTo(commands: Commands, context: ExtensionCommandContext, to: Parameters<Commands["prepare"]>[0]): Promise<void> {
  await context.waitForIdle();
  await commands.prepare(to);
  await context.newSession();
}

async function agents(commands: Commands, given: string, context: ExtensionCommandContext): Promise<void> {
  const known = await commands.gateway.agents();
  const lines = known.map(({ name, ready, reason }) => `${name}${ready === "True" ? "" : ` (${reason})`}`);
  const picked = given === "" ? await context.ui.select("Agent", lines) : given;
  const agent = picked?.replace(/ \(.*$/, "");
  if (agent === undefined || agent === "") return;
  if (!known.some(({ name }) => name === agent)) throw new Error(`there is no agent ${agent}: ${known.map(({ name }) => name).join(", ")}`);
  await switchTo(commands, context, { agent, session: "newest" });
}

async function sessions(commands: Commands, given: string, context: ExtensionCommandContext): Promise<void> {
  const { agent } = commands.talk();
  if (given !== "") return switchTo(commands, context, { agent, session: given });
  const rows = await commands.gateway.sessions(agent);
  if (rows.length === 0) return context.ui.notify(`agent ${agent} has no sessions yet`);
  const lines = rows.map(
    ({ session, title, updatedAt }) =>
      `${session}  ${new Date(updatedAt).toISOString().slice(0, 16)}  ${clean(title ?? "").replaceAll("\n", " ")}`,
  );
  const picked = await context.ui.select("Session", lines);
  if (picked !== undefined) await switchTo(commands, context, { agent, session: picked.split("  ", 1)[0] ?? "" });
}

async function verbose(commands: Commands, given: string, context: ExtensionCommandContext): Promise<void> {
  if (given !== "" && given !== "on" && given !== "off") throw new Error("/verbose on, or /verbose off");
  const on = given === "" ? !commands.verbose() : given === "on";
  commands.setVerbose(on);
  dress(context.ui, commands);
  context.ui.notify(`verbose ${on ? "on: tools are shown with all they say" : "off"}`);
  await set(commands, context.ui, { verbose: on });
}

async function status(commands: Commands, context: ExtensionCommandContext): Promise<void> {
  const { agent, session } = commands.talk();
  const known = (await commands.gateway.agents()).find(({ name }) => name === agent);
  const health = known === undefined ? "gone" : known.ready === "True" ? "ready" : `${known.reason}: ${known.message}`;
  const usage = context.getContextUsage();
  const filled = usage?.tokens == null ? "" : `, ${usage.tokens} of ${usage.contextWindow} tokens`;
  context.ui.notify(
    `agent ${agent} (${health}), session ${session}, model ${context.model?.id ?? "none"}, thinking ${context.thinkingLevel ?? "off"}, verbose ${commands.verbose() ? "on" : "off"}${filled}`,
  );
}

/** After each of these the conversation may have grown. */
const GROWING = [
  "message_end",
  "tool_execution_end",
  "turn_end",
  "agent_end",
  "agent_settled",
  "session_compact",
  "session_tree",
  "session_info_changed",
] as const;

export const extensionOf =
  (commands: Commands) =>
  (pi: ExtensionAPI): void => {
    const command = (name: string, description: string, work: Parameters<typeof trying>[0]): void =>
      pi.registerCommand(name, { description, handler: trying(work) });
    command("agent", "Talk to another agent: /agent NAME", (args, context) => agents(commands, args, context));
    command("sessions", "Go on with another conversation: /sessions KEY", (args, context) => sessions(commands, args, context));
    command("verbose", "Show tools with all they say: /verbose on|off", (args, context) => verbose(commands, args, context));
    command("status", "Agent, session, model", (_, context) => status(commands, context));
    pi.on("session_start", (_, { ui }) => {
      commands.shown(ui);
      ui.setEditorComponent(editorOf((why) => ui.notify(why, "warning")));
      ui.addAutocompleteProvider(offersOf);
      dress(ui, commands);
    });
    pi.on("user_bash", () => ({ operations: shellOf(commands.gateway, commands.talk) }));
    pi.on("model_select", ({ model, source }, { ui }) => {
      commands.touch();
      if (source !== "restore") void set(commands, ui, { model: modelOf(model.id) });
    });
    pi.on("thinking_level_select", ({ level }, { ui }) => {
      commands.touch();
      void set(commands, ui, { thinking: level as NonNullable<SettingsPatch["thinking"]> });
    });
    for (const event of GROWING) (pi.on as (name: string, handler: () => void) => void)(event, () => commands.touch());
    pi.on("session_shutdown", ({ reason }) => (reason === "quit" ? commands.close() : commands.touch()));
  };
