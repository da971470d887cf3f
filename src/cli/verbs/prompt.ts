// beige prompt: one message to an agent; its answer streams to standard output, what it does to standard error.
import { readFileSync, statSync } from "node:fs";
import { resolve } from "node:path";
import type { ImagePart } from "../../core/chat.ts";
import { IMAGES_CHARS_MAX, imageKind } from "../../core/images.ts";
import type { TurnEvent } from "../../core/turn.ts";
import { BeigeError } from "../../core/errors.ts";
import { milliseconds } from "../duration.ts";
import { type Context, type Input, on, type Run, word, words } from "../flags.ts";
import { agentName } from "../names.ts";
import { clean, oneLine } from "../output.ts";
import { fit, valueText } from "../render/values.ts";

const TEXT_MAX_BYTES = 1024 * 1024;

async function textOf(context: Context, input: Input): Promise<string> {
  const said = input.args.slice(1);
  const piped = said.length === 0 ? !process.stdin.isTTY : said.length === 1 && said[0] === "-";
  const text = piped ? await context.stdin(TEXT_MAX_BYTES) : said.join(" ");
  if (text.trim() === "")
    throw new BeigeError("invalid", "there is nothing to say", { hint: 'beige prompt AGENT "TEXT", or pipe the text in' });
  return text;
}

/** Read and judged here: the gateway may be on another machine, and a wrong file is said before it is sent. */
function imageIn(path: string): ImagePart {
  const bad = (why: string): BeigeError => new BeigeError("invalid", `${path}: ${why}`, { hint: "png, jpeg, gif and webp are taken" });
  let bytes: Buffer;
  try {
    if (statSync(path).size > (IMAGES_CHARS_MAX / 4) * 3) throw bad("the image is too large");
    bytes = readFileSync(path);
  } catch (error) {
    throw error instanceof BeigeError ? error : bad(error instanceof Error ? error.message : String(error));
  }
  const mimeType = imageKind(bytes);
  if (mimeType === undefined) throw bad("this is no image");
  return { type: "image", mimeType, data: bytes.toString("base64") };
}

export const run: Run = async (context, input) => {
  const agent = agentName(input.args[0] ?? "", word(input, "namespace"));
  const session = word(input, "session");
  const images = words(input, "image").map((file) => imageIn(resolve(context.cwd, file)));
  const body = {
    text: await textOf(context, input),
    fresh: on(input, "new"),
    ...(session !== undefined && { session }),
    ...(images.length > 0 && { images }),
  };
  const idleMs = milliseconds(word(input, "timeout") ?? "1h", "--timeout");
  const events = context.client.stream<TurnEvent>({ path: `/api/agents/${agent}/prompt`, body, idleMs });
  const json = word(input, "output") === "json";
  try {
    return json ? await raw(context, events) : await spoken(context, events);
  } catch (error) {
    if (!context.signal.aborted) throw error;
    context.out.note("interrupted: the turn was ended");
    return 130;
  }
};

const failed = (event: Extract<TurnEvent, { type: "error" }>): BeigeError =>
  new BeigeError(event.code, event.message, {
    ...(event.hint !== undefined && { hint: event.hint }),
    ...(event.retryAfterMs !== undefined && { retryAfterMs: event.retryAfterMs }),
  });
const cut = (): BeigeError => new BeigeError("unavailable", "the answer ended before its end", { hint: "beige gateway logs" });

async function raw(context: Context, events: AsyncIterable<TurnEvent>): Promise<number> {
  let over = false;
  for await (const event of events) {
    await context.out.write(`${JSON.stringify(event)}\n`);
    if (event.type === "error") throw failed(event);
    over ||= event.type === "done";
  }
  if (!over) throw cut();
  return 0;
}

interface Spoken {
  /** The last byte written was a line break, or nothing was written. */
  fresh: boolean;
  any: boolean;
  over: boolean;
}

async function spoken(context: Context, events: AsyncIterable<TurnEvent>): Promise<number> {
  const state: Spoken = { fresh: true, any: false, over: false };
  for await (const event of events) await say(context, event, state);
  if (!state.fresh) await context.out.write("\n");
  if (!state.over) throw cut();
  return 0;
}

/** On a terminal both streams share the screen: a note never continues a line of the answer. */
async function note(context: Context, state: Spoken, text: string): Promise<void> {
  if (context.out.tty && !state.fresh) {
    await context.out.write("\n");
    state.fresh = true;
  }
  context.out.note(context.out.live ? fit(text, context.out.columns) : text);
}

async function text(context: Context, state: Spoken, delta: string): Promise<void> {
  const shown = context.out.terminal ? clean(delta) : delta;
  if (shown === "") return;
  await context.out.write(shown);
  state.any = true;
  state.fresh = shown.endsWith("\n");
}

async function say(context: Context, event: TurnEvent, state: Spoken): Promise<void> {
  const { out } = context;
  switch (event.type) {
    case "text":
      return text(context, state, event.delta);
    case "tool_start":
      return note(context, state, `${out.unicode ? "→" : "->"} ${oneLine(event.tool)} ${valueText(event.args, 400)}`);
    case "tool_end":
      return event.failed
        ? note(context, state, `${out.unicode ? "✖" : "x"} ${oneLine(event.tool)} failed: ${valueText(event.output, 200)}`)
        : undefined;
    case "model":
      return event.fallback ? note(context, state, `! answered by ${oneLine(event.provider)}/${oneLine(event.id)}, a fallback`) : undefined;
    case "done":
      state.over = true;
      return state.any ? undefined : text(context, state, event.text);
    case "error":
      if (!state.fresh) await out.write("\n");
      throw failed(event);
    case "compaction":
      return note(
        context,
        state,
        event.failed === undefined ? "the older part of the conversation was summarised" : `! ${oneLine(event.failed)}`,
      );
    case "user":
      return note(context, state, `> ${fit(oneLine(event.text), 200)}`);
    case "session":
    case "thinking":
      return undefined;
  }
}
