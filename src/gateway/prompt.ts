// Words for the model: the system prompt of an agent, and the user's last words in a context.
import { isCoreTool } from "../core/call.ts";
import type { ChatContext, UserMessage } from "../core/chat.ts";
import type { Agent } from "../core/resource.ts";

/** The plugin that a tool of an agent belongs to, where it is known. */
export type PackageOf = (agent: Agent, tool: string) => string | undefined;

const textOf = (message: UserMessage): string =>
  typeof message.content === "string" ? message.content : message.content.map((part) => (part.type === "text" ? part.text : "")).join("");

const lastUser = (context: ChatContext): number => context.messages.findLastIndex((message) => message.role === "user");

export function lastUserText(context: ChatContext): string | undefined {
  const message = context.messages[lastUser(context)];
  return message?.role === "user" ? textOf(message) : undefined;
}

/** The same context with other words in its last user message; its images stay. */
export function withLastUserText(context: ChatContext, text: string): ChatContext {
  const index = lastUser(context);
  return {
    ...context,
    messages: context.messages.map((message, at) => {
      if (at !== index || message.role !== "user") return message;
      const images = typeof message.content === "string" ? [] : message.content.filter((part) => part.type === "image");
      return { ...message, content: [{ type: "text", text }, ...images] };
    }),
  };
}

function toolLine(agent: Agent, tool: string, packageOf: PackageOf): string {
  const [plugin, name] = tool.includes("/") ? tool.split("/", 2) : [packageOf(agent, tool), tool];
  const where =
    plugin === undefined ? "its documentation is below /tools/packages" : `read /tools/packages/${plugin}/SKILL.md before its first use`;
  return `- ${name ?? tool}: ${where}`;
}

const NETWORK: Readonly<Record<string, string>> = {
  none: "There is no network in it.",
  open: "It can reach the network.",
  allowlist: "It can reach only some hosts.",
};
const HOSTS_TOLD = 20;

/** Which hosts, so that the model does not try the others. */
function networkLine({ mode, allow = [] }: Agent["spec"]["sandbox"]["network"]): string {
  if (mode !== "allowlist" || allow.length === 0) return NETWORK[mode] ?? "";
  const hosts = allow.slice(0, HOSTS_TOLD).map((entry) => (typeof entry === "string" ? entry : entry.host));
  const more = allow.length > HOSTS_TOLD ? ", and some more" : "";
  return `It can reach these hosts only, through the proxy that HTTPS_PROXY names: ${hosts.join(", ")}${more}.`;
}

/** Instructions as they are, then what is true of the place where the agent works. */
export function systemPrompt(agent: Agent, packageOf: PackageOf): string {
  const { instructions, sandbox, tools } = agent.spec;
  const own = typeof instructions === "string" ? instructions.trim() : "";
  const place = [
    "You work in a sandbox, a Linux container of your own. Every command that you run and every file that you read or write is inside it.",
    "/workspace is your folder: it is kept between sessions.",
    networkLine(sandbox.network),
    sandbox.profile === "strict" ? "You are not root; the system is read-only outside /workspace and /tmp." : "",
  ].filter((line) => line !== "");
  const plugins = tools.filter((tool) => !isCoreTool(tool));
  const programs =
    plugins.length === 0
      ? []
      : [`These programs are on PATH; run them as commands:\n${plugins.map((tool) => toolLine(agent, tool, packageOf)).join("\n")}`];
  return [own, place.join(" "), ...programs].filter((part) => part !== "").join("\n\n");
}
