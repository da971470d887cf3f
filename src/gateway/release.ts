// A whole answer and the hooks: read before anybody else where one asks for that, then given away as the events that it would have been.
import type { Audit } from "../core/audit.ts";
import type { AssistantMessage, ChatEvent, ChatFailure } from "../core/chat.ts";
import { answerText } from "../core/draft.ts";
import type { Hooks } from "../core/plugin.ts";
import type { RoadRequest } from "../core/road.ts";
import type { Log, Random, Secrets } from "../core/world.ts";
import { agentName, rowOf } from "./admit.ts";

/** What chat needs of the plugins; each runner is bounded in time by whoever provides it. */
export interface ChatHooks extends Required<Pick<Hooks, "prePrompt" | "postResponse" | "modelSwitched">>, Pick<Hooks, "preResponse"> {
  /** Whether any hook reads or changes the text of an agent's requests and answers: then bytes are translated. Absent: as if. */
  readonly reads?: (agent: string) => boolean;
  /** Whether any hook wants whole answers before they are given away. Absent: none does. */
  readonly holds?: () => boolean;
}

/** An answered request. */
export interface Whole {
  readonly deps: {
    readonly hooks: ChatHooks;
    readonly audit: Pick<Audit, "denied">;
    readonly random: Random;
    readonly secrets: Secrets;
    readonly log: Log;
  };
  readonly request: RoadRequest;
  /** PROVIDER/MODEL that was to answer, and that did. */
  readonly first: string;
  readonly used: string;
  readonly wire: boolean;
}

const whoOf = (request: RoadRequest): { readonly agent: string; readonly session?: string } => ({
  agent: agentName(request),
  ...(request.session === undefined ? {} : { session: request.session }),
});

type Released =
  | { readonly type: "done"; readonly message: AssistantMessage }
  | { readonly type: "withheld"; readonly failure: ChatFailure };

/** The answer as the hooks left it, or why nobody gets it; that is written down. */
export async function released({ deps, request, used }: Whole, message: AssistantMessage): Promise<Released> {
  const ask = deps.hooks.preResponse;
  const said = ask === undefined ? { message } : await read(ask, whoOf(request), message);
  if ("message" in said) return { type: "done", message: said.message };
  const reason = deps.secrets.redact(said.deny);
  await deps.audit.denied(deps.random.uuid(), { ...rowOf(request, used), decision: "denied" }, `answer withheld: ${reason}`);
  return { type: "withheld", failure: { code: "denied", message: `answer withheld: ${reason}` } };
}

/** Observers: never waited for, never heard of. */
export function afterwards({ deps, request, first, used, wire }: Whole, message: AssistantMessage): void {
  const who = whoOf(request);
  const quiet = (error: unknown): void => deps.log.warn("hook failed", { error: deps.secrets.redact(String(error)) });
  const { provider, model } = message;
  if (!wire) deps.hooks.postResponse({ ...who, text: answerText(message), provider, model }).catch(quiet);
  if (first !== used) deps.hooks.modelSwitched({ ...who, from: first, to: used }).catch(quiet);
}

type Ask = Required<Hooks>["preResponse"];

/** The answer as the hooks left it, or why nobody gets it. */
export async function read(
  ask: Ask,
  who: { readonly agent: string; readonly session?: string },
  message: AssistantMessage,
): Promise<{ readonly message: AssistantMessage } | { readonly deny: string }> {
  const text = answerText(message);
  const { provider, model, content } = message;
  const thinking = content.map((part) => (part.type === "thinking" ? part.thinking : "")).join("");
  const toolCalls = content.flatMap((part) => (part.type === "toolCall" ? [{ name: part.name, arguments: part.arguments }] : []));
  const said = await ask({ ...who, text, thinking, toolCalls, provider, model });
  if (said === undefined) return { message };
  if ("deny" in said) return said;
  return { message: said.text === text ? message : withText(message, said.text) };
}

/** The new text stands where the first piece of the old one stood; an answer without text gets it before its tool calls. */
function withText(message: AssistantMessage, text: string): AssistantMessage {
  const { content } = message;
  const first = content.findIndex((part) => part.type === "text");
  const calls = content.findIndex((part) => part.type === "toolCall");
  const at = first >= 0 ? first : calls >= 0 ? calls : content.length;
  const others = (parts: AssistantMessage["content"]): AssistantMessage["content"] => parts.filter((part) => part.type !== "text");
  const part = text === "" ? [] : [{ type: "text" as const, text }];
  return { ...message, content: [...others(content.slice(0, at)), ...part, ...others(content.slice(at))] };
}

/** All events of a whole answer between its first and its last. */
export const eventsOf = ({ content }: AssistantMessage): readonly ChatEvent[] =>
  content.flatMap((part, contentIndex): readonly ChatEvent[] => {
    if (part.type === "text")
      return [
        { type: "text_start", contentIndex },
        { type: "text_delta", contentIndex, delta: part.text },
        { type: "text_end", contentIndex, content: part.text },
      ];
    if (part.type === "thinking")
      return [
        { type: "thinking_start", contentIndex },
        { type: "thinking_delta", contentIndex, delta: part.thinking },
        { type: "thinking_end", contentIndex, content: part.thinking },
      ];
    return [
      { type: "toolcall_start", contentIndex, id: part.id, name: part.name },
      { type: "toolcall_delta", contentIndex, delta: JSON.stringify(part.arguments) },
      { type: "toolcall_end", contentIndex, toolCall: part },
    ];
  });
