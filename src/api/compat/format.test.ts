// What the formats promise: a conversation keeps its meaning both ways, and a stream says what the whole answer says.
import fc from "fast-check";
import { expect, test } from "vitest";
import type { AssistantMessage, ChatContext, ChatEvent, Message } from "../../core/chat.ts";
import { BeigeError } from "../../core/errors.ts";
import { NO_USAGE } from "../../core/usage.ts";
import { createBlocks } from "./blocks.ts";
import { FORMATS } from "./faults.ts";
import type { Format, Head } from "./format.ts";

type Part = AssistantMessage["content"][number];
type Body = Record<string, any>; // eslint-disable-line typescript/no-explicit-any -- answers are looked into freely

const head: Head = { id: "x1", model: "dev", now: 1_700_000_000_000, usage: true };
const usage = { ...NO_USAGE, input: 10, output: 5, cacheRead: 3, cacheWrite: 2, totalTokens: 20 };
const chat = FORMATS["/v1/chat/completions"] as Format;
const responses = FORMATS["/v1/responses"] as Format;
const anthropic = FORMATS["/v1/messages"] as Format;

const words = fc.string({ minLength: 1, maxLength: 20, unit: "grapheme" });
const json = fc.dictionary(
  fc.string({ minLength: 1, maxLength: 6 }).filter((key) => key !== "__proto__"),
  fc.oneof(fc.string(), fc.integer(), fc.boolean(), fc.constant(null)),
  { maxKeys: 3 },
);
const call = fc.record({ type: fc.constant("toolCall" as const), id: fc.uuid(), name: fc.constantFrom("look", "go"), arguments: json });
const text = words.map((each): Part => ({ type: "text", text: each }));
const thinking = words.map((each): Part => ({ type: "thinking", thinking: each }));
const answer = fc.array(fc.oneof(text, thinking, call), { maxLength: 5 });

/** The same answer as a provider would stream it, cut into deltas of `size`. */
function events(content: readonly Part[], size: number): ChatEvent[] {
  const all: ChatEvent[] = [{ type: "start" }];
  for (const [contentIndex, part] of content.entries()) {
    if (part.type === "toolCall") {
      const given = JSON.stringify(part.arguments);
      // Some providers name a call at its start, others only at its end.
      all.push({ type: "toolcall_start", contentIndex, ...(size % 2 === 0 && { id: part.id, name: part.name }) });
      for (let at = 0; at < (size % 3 === 0 ? 0 : given.length); at += size)
        all.push({ type: "toolcall_delta", contentIndex, delta: given.slice(at, at + size) });
      all.push({ type: "toolcall_end", contentIndex, toolCall: part });
      continue;
    }
    const whole = part.type === "text" ? part.text : part.thinking;
    all.push({ type: `${part.type}_start`, contentIndex });
    for (let at = 0; at < whole.length; at += size)
      all.push({ type: `${part.type}_delta`, contentIndex, delta: whole.slice(at, at + size) });
    all.push({ type: `${part.type}_end`, contentIndex, content: whole });
  }
  const stopReason = content.some((part) => part.type === "toolCall") ? "toolUse" : "stop";
  all.push({
    type: "done",
    message: { role: "assistant", content, api: "a", provider: "p", model: "m", usage, stopReason, timestamp: 0 },
  });
  return all;
}

function streamed(format: Format, all: readonly ChatEvent[]): Body[] {
  const writer = format.writer(head);
  const blocks = createBlocks();
  let out = writer.begin();
  for (const event of all) {
    for (const piece of blocks.push(event)) out += writer.piece(piece);
    if (event.type === "done") out += writer.end(event.message);
  }
  return out
    .split("\n\n")
    .filter(Boolean)
    .flatMap((block) => {
      const line = block.split("\n").find((each) => each.startsWith("data: "));
      return line === undefined || line === "data: [DONE]" ? [] : [JSON.parse(line.slice(6)) as Body];
    });
}

const wholeOf = (format: Format, content: readonly Part[]): Body =>
  format.whole({ content, usage, stopReason: content.some((part) => part.type === "toolCall") ? "toolUse" : "stop" }, head);

/** All events, or only the last one, as a provider without streaming gives it. */
const shapes = fc.tuple(answer, fc.integer({ min: 1, max: 7 }), fc.boolean()).map(([content, size, sudden]) => {
  const all = events(content, size);
  return { content, all: sudden ? all.slice(-1) : all };
});

test("a stream of chat chunks adds up to the whole answer, usage last", () => {
  fc.assert(
    fc.property(shapes, ({ content, all }) => {
      const chunks = streamed(chat, all);
      const whole = wholeOf(chat, content);
      const join = (key: string): string => chunks.map((chunk) => chunk.choices[0]?.delta[key] ?? "").join("");
      expect(join("content")).toBe(whole.choices[0].message.content ?? "");
      expect(join("reasoning_content")).toBe(whole.choices[0].message.reasoning_content ?? "");
      const calls = chunks.flatMap((chunk) => chunk.choices[0]?.delta.tool_calls ?? []);
      const built: Body[] = [];
      for (const { index, function: said, ...first } of calls)
        if (built[index] === undefined) built[index] = { ...first, function: { ...said } };
        else built[index].function.arguments += said.arguments;
      expect(built).toEqual(whole.choices[0].message.tool_calls ?? []);
      expect(chunks.at(-2)?.choices[0].finish_reason).toBe(whole.choices[0].finish_reason);
      expect(chunks.at(-1)?.usage).toEqual(whole.usage);
    }),
  );
});

test("a call's arguments are passed on as they come; what begins meanwhile waits for its end", () => {
  const call = { type: "toolCall" as const, id: "c", name: "look", arguments: { at: 1 } };
  const other = { ...call, id: "d" };
  const blocks = createBlocks();
  const push = (event: ChatEvent): string[] =>
    blocks.push(event).map((piece) => ("delta" in piece ? `${piece.type} ${piece.delta}` : piece.type));
  expect(push({ type: "toolcall_start", contentIndex: 0, id: "c", name: "look" })).toEqual(["call_open"]);
  expect(push({ type: "toolcall_delta", contentIndex: 0, delta: '{"at"' })).toEqual(['args {"at"']);
  expect(push({ type: "toolcall_start", contentIndex: 1, id: "d", name: "look" })).toEqual([]);
  expect(push({ type: "toolcall_delta", contentIndex: 1, delta: '{"at":1}' })).toEqual([]);
  expect(push({ type: "text_delta", contentIndex: 2, delta: "wo" })).toEqual([]);
  expect(push({ type: "toolcall_delta", contentIndex: 0, delta: ":1}" })).toEqual(["args :1}"]);
  expect(push({ type: "toolcall_end", contentIndex: 0, toolCall: call })).toEqual(["call_close"]);
  expect(push({ type: "text_delta", contentIndex: 2, delta: "rd" })).toEqual([]);
  const message = { content: [call, other, { type: "text", text: "word" }] } as unknown as AssistantMessage;
  expect(push({ type: "done", message })).toEqual(["call_open", 'args {"at":1}', "call_close", "open", "delta word", "close"]);
});

test("a stream of response events ends with the whole answer, each item told before, in order", () => {
  fc.assert(
    fc.property(shapes, ({ content, all }) => {
      const told = streamed(responses, all);
      const whole = wholeOf(responses, content);
      expect(told.at(-1)?.response).toEqual(whole);
      expect(told.filter((each) => each.type === "response.output_item.done").map((each) => each.item)).toEqual(whole.output);
      expect(told.map((each) => each.sequence_number)).toEqual(told.map((_, at) => at));
      const deltas = told.filter((each) => each.type === "response.output_text.delta").map((each) => each.delta);
      expect(deltas.join("")).toBe(content.map((part) => (part.type === "text" ? part.text : "")).join(""));
    }),
  );
});

test("a stream of message events adds up to the whole answer", () => {
  fc.assert(
    fc.property(shapes, ({ content, all }) => {
      const built: Body[] = [];
      for (const each of streamed(anthropic, all)) {
        const block = built[each.index];
        if (each.type === "content_block_start") {
          expect(each.index).toBe(built.length);
          built.push({ ...each.content_block, json: "" });
        }
        if (each.type !== "content_block_delta" || block === undefined) continue;
        if (each.delta.type === "text_delta") block.text += each.delta.text;
        if (each.delta.type === "thinking_delta") block.thinking += each.delta.thinking;
        if (each.delta.type === "input_json_delta") block.json += each.delta.partial_json;
      }
      const got = built.map(({ json: given, ...block }) => (block.type === "tool_use" ? { ...block, input: JSON.parse(given) } : block));
      expect(got).toEqual(wholeOf(anthropic, content).content);
    }),
  );
});

const image = { type: "image" as const, mimeType: "image/png", data: "iVBORw0KGgo=" };
const user = fc
  .oneof(words, fc.constant([{ type: "text" as const, text: "look" }, image]))
  .map((content): Message => ({ role: "user", content, timestamp: 0 }));
const turn = (api: string) =>
  fc
    .tuple(
      user,
      fc.oneof(
        words.map((each): Part[] => [{ type: "text", text: each }]),
        call.map((each): Part[] => [{ type: "text", text: "wait" }, each]),
      ),
    )
    .map(([asked, content]): Message[] => {
      const called = content.find((part) => part.type === "toolCall");
      const said: Message = {
        role: "assistant",
        content,
        api,
        provider: "client",
        model: "client",
        usage: NO_USAGE,
        stopReason: called === undefined ? "stop" : "toolUse",
        timestamp: 0,
      };
      const result = called && {
        role: "toolResult" as const,
        toolCallId: called.id,
        toolName: called.name,
        content: [{ type: "text" as const, text: "found" }],
        isError: false,
        timestamp: 0,
      };
      return result === undefined ? [asked, said] : [asked, said, result];
    });
const context = (api: string): fc.Arbitrary<ChatContext> =>
  fc.tuple(words, fc.array(turn(api), { maxLength: 3 }), user).map(([own, turns, last]) => ({
    systemPrompt: `be ${own}`,
    // A user's words right after a tool's result would be one message in Anthropic's format: kept apart by an answer.
    messages: [...turns.flat(), last],
    tools: [{ name: "look", description: "looks", parameters: { type: "object", properties: {} } }],
  }));

const chatBody = (of: ChatContext): Body => ({
  model: "dev",
  messages: [
    { role: "system", content: of.systemPrompt },
    ...of.messages.map((message) => {
      if (message.role === "toolResult")
        return { role: "tool", tool_call_id: message.toolCallId, content: (message.content[0] as Body)["text"] };
      if (message.role === "user")
        return {
          role: "user",
          content:
            typeof message.content === "string"
              ? message.content
              : message.content.map((part) =>
                  part.type === "text" ? part : { type: "image_url", image_url: { url: `data:${part.mimeType};base64,${part.data}` } },
                ),
        };
      return (wholeOf(chat, message.content).choices as Body[])[0]?.["message"] as Body;
    }),
  ],
  tools: of.tools?.map((tool) => ({ type: "function", function: tool })),
});

const responsesBody = (of: ChatContext): Body => ({
  model: "dev",
  instructions: of.systemPrompt,
  input: of.messages.flatMap((message): Body[] => {
    if (message.role === "toolResult")
      return [{ type: "function_call_output", call_id: message.toolCallId, output: (message.content[0] as Body)["text"] }];
    if (message.role === "user")
      return [
        {
          role: "user",
          content:
            typeof message.content === "string"
              ? message.content
              : message.content.map((part) =>
                  part.type === "text"
                    ? { type: "input_text", text: part.text }
                    : { type: "input_image", detail: "auto", image_url: `data:${part.mimeType};base64,${part.data}` },
                ),
        },
      ];
    return wholeOf(responses, message.content).output as Body[];
  }),
  tools: of.tools?.map((tool) => ({ type: "function", ...tool })),
});

const anthropicBody = (of: ChatContext): Body => ({
  model: "dev",
  max_tokens: 10,
  system: of.systemPrompt,
  messages: of.messages.map((message) => {
    if (message.role === "toolResult")
      return { role: "user", content: [{ type: "tool_result", tool_use_id: message.toolCallId, content: message.content }] };
    if (message.role === "assistant") return { role: "assistant", content: wholeOf(anthropic, message.content).content };
    const parts = typeof message.content === "string" ? message.content : message.content.map(anthropicPart);
    return { role: "user", content: parts };
  }),
  tools: of.tools?.map(({ parameters, ...tool }) => ({ ...tool, input_schema: parameters })),
});
const anthropicPart = (part: Body): Body =>
  part["type"] === "text" ? part : { type: "image", source: { type: "base64", media_type: part["mimeType"], data: part["data"] } };

test.each([
  ["chat", chat, chatBody],
  ["responses", responses, responsesBody],
  ["anthropic", anthropic, anthropicBody],
] as const)("a conversation in the %s format is read as what was meant", (_, format, body) => {
  fc.assert(
    fc.property(context(format.api), (of) => {
      expect(format.read(body(of)).context).toEqual(of);
    }),
  );
});

const refused = (format: Format, body: Body): string => {
  try {
    format.read(body);
  } catch (error) {
    expect(error).toBeInstanceOf(BeigeError);
    return (error as Error).message;
  }
  return "";
};

const hi = [{ role: "user", content: "hi" }];
test.each([
  [chat, { messages: hi, n: 2 }, "n:"],
  [chat, { messages: hi, logprobs: true }, "logprobs:"],
  [chat, { messages: hi, audio: { voice: "x" } }, "audio:"],
  [chat, { messages: hi, stop: ["x"] }, "stop:"],
  [chat, { messages: hi, response_format: { type: "json_object" } }, "response_format:"],
  [chat, { messages: hi, tools: [{ type: "function", function: { name: "a" } }], tool_choice: "required" }, "tool_choice:"],
  [chat, { messages: [{ role: "user", content: [{ type: "input_audio" }] }] }, "messages[0].content[0].type:"],
  [chat, { messages: [{ role: "user", content: [{ type: "image_url", image_url: { url: "http://x/y.png" } }] }] }, "image_url.url:"],
  [chat, { messages: [{ role: "wizard", content: "hi" }] }, "messages[0].role:"],
  [chat, { messages: "hi" }, "messages:"],
  [responses, { input: "hi", previous_response_id: "resp_1" }, "previous_response_id:"],
  [responses, { input: "hi", background: true }, "background:"],
  [responses, { input: "hi", tools: [{ type: "web_search" }] }, "tools[0].type:"],
  [responses, { input: [{ type: "item_reference", id: "x" }] }, "input[0].type:"],
  [anthropic, { messages: hi }, "max_tokens:"],
  [anthropic, { messages: hi, max_tokens: 5, stop_sequences: ["x"] }, "stop_sequences:"],
  [anthropic, { messages: hi, max_tokens: 5, tools: [{ type: "bash_20250124", name: "bash" }] }, "tools[0].type:"],
] as const)("what cannot be honoured is refused by its name (%#)", (format, body, name) => {
  expect(refused(format, body)).toContain(name);
});

const KEYS =
  "messages input role content type tools function system text stop n response_format reasoning thinking output_config tool_choice".split(
    " ",
  );
test("nothing that a client may send breaks the reading otherwise than by a refusal", () => {
  fc.assert(
    fc.property(fc.object({ key: fc.constantFrom(...KEYS), maxDepth: 4 }), (body) => {
      for (const format of [chat, responses, anthropic]) refused(format, { max_tokens: 1, ...body });
    }),
  );
});

test("harmless hints are left out and named", () => {
  expect(chat.read({ messages: hi, top_p: 0.5, seed: 4, frequency_penalty: null }).dropped).toEqual(["top_p", "seed"]);
});
