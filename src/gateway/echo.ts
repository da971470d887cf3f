// The built-in provider: answers from a script, deterministically and offline, through the same port as a real one.
import vm from "node:vm";
import { NO_USAGE, priced } from "../core/usage.ts";
import type { AssistantMessage, ChatContext, ChatEvent, ChatFailure, ChatTarget, Llm, Message } from "../core/chat.ts";
import type { Clock } from "../core/world.ts";
import type { EchoStep } from "../../schemas/types.ts";

/** Longest text that a pattern is run on, in UTF-16 units, and the time that one run of a risky one may take. */
const MATCH_MAX = 8192;
const MATCH_MS = 500;
const CHUNK = 12;

/** Risky patterns run in a context of their own: only there can V8 be told to give up after a time. */
const box: { pattern: string; text: string } = { pattern: "", text: "" };
const context = vm.createContext(box, { codeGeneration: { strings: false, wasm: false } });
const script = new vm.Script("new RegExp(pattern, 's').exec(text)");

/** With one open repetition and no back-reference the work grows with the square of a bounded text at most. */
const harmless = (pattern: string): boolean => (pattern.match(/[*+]|\{\d*,/g)?.length ?? 0) <= 1 && !/\\[1-9k]/.test(pattern);

function timedMatch(pattern: string, text: string): ArrayLike<string | undefined> | null {
  box.pattern = pattern;
  box.text = text;
  return script.runInContext(context, { timeout: MATCH_MS }) as ArrayLike<string | undefined> | null;
}

/** Groups of the match; a pattern that is invalid, or risky and not in time, matches nothing. */
function groups(pattern: string, whole: string, time: { out: boolean }): readonly (string | undefined)[] | undefined {
  const text = whole.slice(0, MATCH_MAX);
  const safe = harmless(pattern);
  if (!safe && time.out) return undefined;
  try {
    // The clock decides only where it must: a busy machine must not change an answer.
    const found = safe ? new RegExp(pattern, "s").exec(text) : timedMatch(pattern, text);
    return found === null ? undefined : Array.from(found);
  } catch (error) {
    if ((error as { readonly code?: unknown }).code === "ERR_SCRIPT_EXECUTION_TIMEOUT") time.out = true;
    return undefined;
  }
}

const textOf = (message: Message): string =>
  typeof message.content === "string" ? message.content : message.content.map((part) => (part.type === "text" ? part.text : "")).join("");

interface Chosen {
  readonly index: number;
  readonly step: EchoStep;
  readonly found: readonly (string | undefined)[];
}

function choose(steps: readonly EchoStep[], message: Message | undefined, used: ReadonlySet<number>): Chosen | undefined {
  if (message === undefined || message.role === "assistant") return undefined;
  const from = message.role === "user" ? "user" : "tool";
  const text = textOf(message);
  // One that ran out of time uses up the time of all: a script of a thousand such must not hold everybody for minutes.
  const time = { out: false };
  for (const [index, step] of steps.entries()) {
    if (used.has(index) || step.from !== from) continue;
    const found = groups(step.match, text, time);
    if (found !== undefined) return { index, step, found };
  }
  return undefined;
}

/** Which steps this turn has used already: the turn is played again from its user message, so nothing has to be remembered. */
function usedSteps(steps: readonly EchoStep[], messages: readonly Message[]): ReadonlySet<number> {
  const used = new Set<number>();
  const start = messages.findLastIndex((message) => message.role === "user");
  for (let at = start + 1; at < messages.length; at++) {
    const message = messages[at];
    if (message?.role !== "assistant" || message.stopReason === "error" || message.stopReason === "aborted") continue;
    const chosen = choose(steps, messages[at - 1], used);
    if (chosen !== undefined) used.add(chosen.index);
  }
  return used;
}

/** `$0` is the whole message, `$1` the first group, `$$` a dollar. */
const fill = (template: string, message: string, found: readonly (string | undefined)[]): string =>
  template.replaceAll(/\$(\$|\d)/g, (_, which: string) => (which === "$" ? "$" : which === "0" ? message : (found[Number(which)] ?? "")));

type Answer = { readonly text: string } | { readonly call: { readonly tool: string; readonly args: Record<string, unknown> } };

const tokens = (text: string): number => Math.ceil(text.length / 4);

function answerMessage(answer: Answer, ask: { target: ChatTarget; context: ChatContext; nowMs: number }): AssistantMessage {
  const { target, context: asked, nowMs } = ask;
  const input = tokens(asked.systemPrompt ?? "") + asked.messages.reduce((sum, message) => sum + tokens(textOf(message)), 0);
  const output = "text" in answer ? tokens(answer.text) : tokens(JSON.stringify(answer.call));
  return {
    role: "assistant",
    content:
      "text" in answer
        ? [{ type: "text", text: answer.text }]
        : [{ type: "toolCall", id: `echo_${asked.messages.length}`, name: answer.call.tool, arguments: structuredClone(answer.call.args) }],
    api: "echo",
    provider: target.provider,
    model: target.model.id,
    usage: priced({ ...NO_USAGE, input, output }, target.model.cost),
    stopReason: "text" in answer ? "stop" : "toolUse",
    timestamp: nowMs,
  };
}

function* textEvents(text: string): Generator<ChatEvent> {
  yield { type: "text_start", contentIndex: 0 };
  const points = Array.from(text);
  for (let at = 0; at < points.length; at += CHUNK) {
    yield { type: "text_delta", contentIndex: 0, delta: points.slice(at, at + CHUNK).join("") };
  }
  yield { type: "text_end", contentIndex: 0, content: text };
}

function* answerEvents(message: AssistantMessage): Generator<ChatEvent> {
  yield { type: "start" };
  const part = message.content[0];
  if (part?.type === "text") yield* textEvents(part.text);
  if (part?.type === "toolCall") {
    yield { type: "toolcall_start", contentIndex: 0, id: part.id, name: part.name };
    yield { type: "toolcall_delta", contentIndex: 0, delta: JSON.stringify(part.arguments) };
    yield { type: "toolcall_end", contentIndex: 0, toolCall: part };
  }
  yield { type: "done", message };
}

const failureOf = (error: { readonly status: number; readonly retryAfterMs?: number }): ChatFailure => ({
  status: error.status,
  message: `echo error ${error.status}`,
  ...(error.retryAfterMs === undefined ? {} : { retryAfterMs: error.retryAfterMs }),
});

export function createEcho(clock: Clock): Llm {
  return {
    async *stream(target, asked, _options, signal) {
      const stopped = (stopReason: "error" | "aborted", failure: ChatFailure): ChatEvent => {
        const blank = answerMessage({ text: "" }, { target, context: asked, nowMs: clock.now() });
        return { type: "error", message: { ...blank, content: [], usage: NO_USAGE, stopReason, errorMessage: failure.message }, failure };
      };
      const steps = target.echo?.steps ?? [];
      const last = asked.messages.at(-1);
      const chosen = choose(steps, last, usedSteps(steps, asked.messages));
      const said = last === undefined ? "" : textOf(last);
      try {
        if (chosen !== undefined && chosen.step.delayMs > 0) await clock.sleep(chosen.step.delayMs, signal);
        if (chosen?.step.error !== undefined) {
          yield stopped("error", failureOf(chosen.step.error));
          return;
        }
        const answer: Answer =
          chosen?.step.toolCall !== undefined
            ? { call: chosen.step.toolCall }
            : { text: chosen === undefined ? said : fill(chosen.step.text ?? "$0", said, chosen.found) };
        for (const event of answerEvents(answerMessage(answer, { target, context: asked, nowMs: clock.now() }))) {
          signal.throwIfAborted();
          yield event;
        }
      } catch (error) {
        if (!signal.aborted) throw error;
        yield stopped("aborted", { message: "aborted" });
      }
    },
  };
}
