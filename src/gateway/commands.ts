// Words of a channel that the gateway answers itself: /new /status /verbose /model /stop /start. They never reach a model.
import { nsName, type Agent } from "../core/resource.ts";
import type { SessionView, SettingsPatch } from "../core/session.ts";
import { namesOf, type ModelName } from "./models.ts";

export type Command =
  | { readonly name: "new" | "status" | "stop" | "start" }
  | { readonly name: "verbose"; readonly on?: boolean }
  | { readonly name: "model"; readonly wanted?: string }
  | { readonly name: "usage"; readonly of: string };

const WORDS = /^\/(new|status|stop|start|verbose|v|model)(?:@\w+)?(?:[ \t]+([^\r\n]*))?$/;
const USAGE: Readonly<Record<string, string>> = { verbose: "/verbose on|off", model: "/model [PROVIDER/MODEL|default]" };

/** Undefined for everything that is a message, also for unknown words that begin with a slash. */
export function commandIn(text: string): Command | undefined {
  const [, word, rest = ""] = WORDS.exec(text.trim()) ?? [];
  if (word === undefined) return undefined;
  const name = word === "v" ? "verbose" : word;
  const said = rest.trim();
  if (name === "verbose") {
    if (said === "") return { name };
    return said === "on" || said === "off" ? { name, on: said === "on" } : { name: "usage", of: name };
  }
  if (name === "model") return said === "" ? { name } : { name, wanted: said };
  return said === "" ? { name: name as "new" } : { name: "usage", of: name };
}

/** What commands do. */
export interface Levers {
  view(): SessionView;
  change(patch: SettingsPatch): void;
  renew(): void;
  /** How many messages were ended. */
  stop(): number;
}

const slashed = (name: ModelName): string => `${name.provider}/${name.id}`;

function chosen(agent: Agent, wanted: string): ModelName | string {
  const names = namesOf(agent, undefined);
  const exact = names.find((name) => slashed(name) === wanted);
  const byId = names.filter((name) => name.id === wanted);
  return exact ?? (byId.length === 1 && byId[0] !== undefined ? byId[0] : `There is no model ${wanted} here. ${list(agent)}`);
}

const list = (agent: Agent): string => `Models: ${namesOf(agent, undefined).map(slashed).join(", ")}.`;

function model(agent: Agent, wanted: string | undefined, levers: Levers): string {
  if (wanted === undefined) return `Model: ${slashed(levers.view().settings.model)}. ${list(agent)}`;
  const name = wanted === "default" ? null : chosen(agent, wanted);
  if (typeof name === "string") return name;
  levers.change({ model: name });
  return `Model: ${slashed(levers.view().settings.model)}, from the next message on.`;
}

function status(agent: Agent, view: SessionView): string {
  const { settings } = view;
  return [
    `Agent: ${nsName(agent.metadata.namespace, agent.metadata.name)}`,
    `Session: ${view.session}${view.title === undefined ? "" : ` (${view.title})`}`,
    `Model: ${slashed(settings.model)}`,
    `Thinking: ${settings.thinking}`,
    `Verbose: ${settings.verbose ? "on" : "off"}`,
    `Now: ${view.running ? "a message is being answered" : "idle"}${view.waiting > 0 ? `, ${view.waiting} wait` : ""}`,
  ].join("\n");
}

const HELLO = `Commands:
/new starts a new conversation
/status says what holds for this one
/verbose on|off says each tool before it runs
/model [NAME] shows or chooses the model
/stop ends what runs`;

/** Does it, and answers what to say. */
export function obey(command: Command, agent: Agent, levers: Levers): string {
  switch (command.name) {
    case "new":
      levers.renew();
      return "The next message starts a new conversation.";
    case "status":
      return status(agent, levers.view());
    case "start":
      return `This is agent ${nsName(agent.metadata.namespace, agent.metadata.name)}.\n${HELLO}`;
    case "stop": {
      const ended = levers.stop();
      return ended === 0 ? "Nothing runs." : `Stopped: ${ended === 1 ? "one message" : `${ended} messages`}.`;
    }
    case "verbose":
      if (command.on !== undefined) levers.change({ verbose: command.on });
      return `Verbose is ${levers.view().settings.verbose ? "on" : "off"}.`;
    case "model":
      return model(agent, command.wanted, levers);
    default:
      return `Usage: ${USAGE[command.of] ?? `/${command.of}`}`;
  }
}
