// The real clients of both APIs against our doors on real sockets; what answers behind them is scripted here.
import { once } from "node:events";
import { request as httpRequest } from "node:http";
import Anthropic from "@anthropic-ai/sdk";
import { createOpenAI } from "@ai-sdk/openai";
import { generateText, streamText } from "ai";
import OpenAI from "openai";
import { afterEach, expect, test } from "vitest";
import type { AssistantMessage, ChatFailure, ToolCallPart } from "../../core/chat.ts";
import type { Agent, Provider } from "../../core/resource.ts";
import type { RoadEvent, RoadRequest } from "../../core/road.ts";
import type { TurnEvent, TurnRequest } from "../../core/turn.ts";
import { NO_USAGE } from "../../core/usage.ts";
import type { Limits } from "../limits.ts";
import { rig, type Rig } from "../rig.ts";

const usage = { ...NO_USAGE, input: 10, output: 5, cacheRead: 3, totalTokens: 18 };
const message = (content: AssistantMessage["content"], more: Partial<AssistantMessage> = {}): AssistantMessage => ({
  role: "assistant",
  content,
  api: "echo",
  provider: "p",
  model: "m",
  usage,
  stopReason: content.some((part) => part.type === "toolCall") ? "toolUse" : "stop",
  timestamp: 0,
  ...more,
});
const start: Extract<RoadEvent, { type: "start" }> = { type: "start", provider: "p", model: "m", fallback: false };
const says = (text: string): RoadEvent[] => [
  start,
  { type: "text_delta", contentIndex: 0, delta: text.slice(0, 2) },
  { type: "text_delta", contentIndex: 0, delta: text.slice(2) },
  { type: "text_end", contentIndex: 0, content: text },
  { type: "done", message: message([{ type: "text", text }]) },
];
const calls = (toolCall: ToolCallPart): RoadEvent[] => [
  start,
  { type: "toolcall_start", contentIndex: 0 },
  { type: "toolcall_end", contentIndex: 0, toolCall },
  { type: "done", message: message([toolCall]) },
];
const fails = (failure: ChatFailure): RoadEvent => ({ type: "error", message: message([], { stopReason: "error" }), failure });

interface World {
  readonly it: Rig;
  readonly asked: RoadRequest[];
  readonly turns: TurnRequest[];
  readonly aborted: number[];
  readonly url: string;
  answers: (request: RoadRequest) => Iterable<RoadEvent | number>;
  turn: readonly TurnEvent[];
}

const open: Rig[] = [];
afterEach(async () => {
  for (const it of open.splice(0)) await it.end();
});

const agentOf = (name: string): Agent => ({
  apiVersion: "beige.dev/v1",
  kind: "Agent",
  metadata: { name, namespace: "default", uid: `${name}-uid`, resourceVersion: "1", generation: 1, creationTimestamp: "" },
  spec: {
    model: { provider: "p", id: "m", thinking: "low" },
    fallbacks: [{ provider: "q", id: "n" }],
    instructions: "You plan trips.",
  } as unknown as Agent["spec"],
});

/** A number in a script is a pause in milliseconds. */
async function world(limits: Partial<Limits> = {}): Promise<World> {
  const state = {
    asked: [] as RoadRequest[],
    turns: [] as TurnRequest[],
    aborted: [] as number[],
    answers: (() => says("hello")) as World["answers"],
    turn: [] as readonly TurnEvent[],
  };
  const agents = [agentOf("dev")];
  const it = await rig({
    limits,
    directory: {
      agent: (namespace: string, name: string) => agents.find((a) => a.metadata.name === name && a.metadata.namespace === namespace),
      agents: () => agents,
      provider: (name: string) => (name === "p" || name === "q" ? ({ spec: { models: [] } } as unknown as Provider) : undefined),
    } as never,
    async *road(request, signal) {
      state.asked.push(request);
      signal.addEventListener("abort", () => state.aborted.push(performance.now()));
      for (const event of state.answers(request)) {
        if (typeof event !== "number") yield event;
        else
          await new Promise<void>((on) => {
            setTimeout(on, event);
            signal.addEventListener("abort", () => on());
          });
        if (signal.aborted) return;
      }
    },
    async *turn(request) {
      state.turns.push(request);
      yield* state.turn;
    },
  });
  open.push(it);
  return Object.assign(state, { it, url: `http://127.0.0.1:${it.port}` });
}

const openai = (w: World): OpenAI => new OpenAI({ apiKey: w.it.token, baseURL: `${w.url}/v1`, maxRetries: 2 });
const anthropic = (w: World): Anthropic => new Anthropic({ apiKey: w.it.token, baseURL: w.url, maxRetries: 2 });
const turnOf = (text: string): TurnEvent[] => [
  { type: "session", session: "api:x", inbox: "i" },
  { type: "text", delta: "let me look" },
  { type: "tool_start", id: "1", tool: "exec", args: { command: "ls" } },
  { type: "tool_end", id: "1", tool: "exec", failed: false, output: "SECRET" },
  { type: "text", delta: text },
  { type: "done", text, stop: "stop", provider: "p", model: "m", usage },
];
const hi = [{ role: "user" as const, content: "hi" }];
const look = { type: "object" as const, properties: { path: { type: "string" } } };
const toolCall: ToolCallPart = { type: "toolCall", id: "call_1", name: "look", arguments: { path: "/a" } };

test("openai: chat, whole and streamed, with usage, against one model", async () => {
  const w = await world();
  const whole = await openai(w).chat.completions.create({ model: "p/m", messages: hi });
  expect(whole.choices[0]?.message.content).toBe("hello");
  expect(whole.choices[0]?.finish_reason).toBe("stop");
  expect(whole.usage).toMatchObject({ prompt_tokens: 13, completion_tokens: 5, total_tokens: 18 });
  const stream = await openai(w).chat.completions.create({
    model: "p/m",
    messages: hi,
    stream: true,
    stream_options: { include_usage: true },
  });
  let text = "";
  let total = 0;
  for await (const chunk of stream) {
    text += chunk.choices[0]?.delta.content ?? "";
    total = chunk.usage?.total_tokens ?? total;
  }
  expect([text, total]).toEqual(["hello", 18]);
  expect(w.asked[0]).toMatchObject({ model: { provider: "p", id: "m" }, wire: { api: "openai-completions", stream: false } });
  expect(w.asked[0]?.agent).toBeUndefined();
});

test("openai: a tool loop that the client drives, with the agent's instructions before its own", async () => {
  const w = await world();
  w.answers = (asked) => {
    const context = typeof asked.context === "function" ? asked.context() : asked.context;
    const last = context.messages.at(-1);
    return last?.role === "toolResult" ? says(`saw ${JSON.stringify(last.content)} of ${last.toolName}`) : calls(toolCall);
  };
  const runner = openai(w).chat.completions.runTools({
    model: "dev",
    messages: [{ role: "system", content: "Be brief." }, ...hi],
    tools: [
      {
        type: "function",
        function: {
          name: "look",
          description: "looks",
          parameters: look,
          parse: JSON.parse,
          function: (a: { path: string }) => `at ${a.path}`,
        },
      },
    ],
  });
  expect(await runner.finalContent()).toContain("at /a");
  const [first] = w.asked;
  const context = typeof first?.context === "function" ? first.context() : first?.context;
  expect(context?.systemPrompt).toBe("You plan trips.\n\nBe brief.");
  expect(first?.wire?.body["messages"]).toMatchObject([
    { role: "system", content: "You plan trips." },
    { role: "system" },
    { role: "user" },
  ]);
  expect(first?.agent?.name).toBe("dev");
  expect(w.turns).toEqual([]);
});

test("openai: responses, whole and streamed, with a function call", async () => {
  const w = await world();
  const whole = await openai(w).responses.create({ model: "p/m", input: "hi" });
  expect(whole.output_text).toBe("hello");
  expect(whole.usage?.total_tokens).toBe(18);
  w.answers = () => calls(toolCall);
  const tools = [{ type: "function" as const, name: "look", parameters: look, strict: false }];
  const stream = openai(w).responses.stream({ model: "p/m", input: "hi", tools });
  const final = await stream.finalResponse();
  expect(final.output[0]).toMatchObject({ type: "function_call", call_id: "call_1", name: "look", arguments: '{"path":"/a"}' });
});

test("anthropic: messages with x-api-key, whole and streamed, with a tool and an image", async () => {
  const w = await world();
  const source = { type: "base64" as const, media_type: "image/png" as const, data: "iVBORw0KGgo=" };
  const content = [
    { type: "image" as const, source },
    { type: "text" as const, text: "what is it?" },
  ];
  const whole = await anthropic(w).messages.create({ model: "p/m", max_tokens: 50, messages: [{ role: "user", content }] });
  expect(whole.content).toEqual([{ type: "text", text: "hello" }]);
  expect(whole.usage).toMatchObject({ input_tokens: 10, output_tokens: 5, cache_read_input_tokens: 3 });
  const context = w.asked[0]?.context;
  expect((typeof context === "function" ? context() : context)?.messages[0]?.content).toContainEqual({
    type: "image",
    mimeType: "image/png",
    data: source.data,
  });
  w.answers = () => calls(toolCall);
  const tools = [{ name: "look", input_schema: look }];
  const beta = { headers: { "anthropic-beta": "files-1" } };
  const final = await anthropic(w).messages.stream({ model: "p/m", max_tokens: 50, messages: hi, tools }, beta).finalMessage();
  expect(w.asked.map(({ wire }) => wire?.headers)).toEqual([undefined, { "anthropic-beta": "files-1" }]);
  expect(final.content).toMatchObject([{ type: "tool_use", id: "call_1", name: "look", input: { path: "/a" } }]);
  expect(final.stop_reason).toBe("tool_use");
  await expect(anthropic(w).messages.countTokens({ model: "p/m", messages: hi })).rejects.toMatchObject({ status: 404 });
});

test("a model name that is an agent is a whole turn: its text comes back, nothing of its tools", async () => {
  const w = await world();
  w.turn = turnOf("it is 3");
  const whole = await openai(w).chat.completions.create({ model: "default.dev", messages: hi, user: "ann" });
  expect(whole.choices[0]?.message.content).toBe("let me look\n\nit is 3");
  const stream = await openai(w).chat.completions.create({ model: "dev", messages: hi, stream: true });
  let text = "";
  for await (const chunk of stream) text += chunk.choices[0]?.delta.content ?? "";
  expect(text).toBe("let me look\n\nit is 3");
  const third = await anthropic(w).messages.create(
    { model: "dev", max_tokens: 9, system: "S", messages: [{ role: "user", content: "a" }, { role: "assistant", content: "b" }, ...hi] },
    { headers: { "x-beige-session": "trip" } },
  );
  expect(JSON.stringify(third)).not.toContain("SECRET");
  expect(w.turns.map((turn) => turn.session)).toEqual(["api:ann", expect.stringMatching(/^api:once-/), "api:trip"]);
  expect(w.turns[2]).toMatchObject({ text: "hi", commands: false, agent: { name: "dev" } });
  await openai(w).responses.create({
    model: "dev",
    instructions: "S",
    input: [{ role: "user", content: "a" }, { role: "assistant", content: "b" }, ...hi],
  });
  expect(w.turns[3]?.text).toBe("The conversation so far:\n\nSystem: S\n\nUser: a\n\nAssistant: b\n\nNow the user says:\n\nhi");
});

test("a provider's own bytes reach a client of its format unchanged", async () => {
  const w = await world();
  const body =
    '{"id":"theirs","object":"chat.completion","created":1,"model":"m","choices":[{"index":0,"message":{"role":"assistant","content":"raw"},"finish_reason":"stop"}]}';
  w.answers = (asked) => [
    { ...start, wire: true },
    {
      type: "wire",
      bytes: Buffer.from(
        asked.wire?.stream === true ? 'data: {"choices":[{"index":0,"delta":{"content":"raw"}}]}\n\ndata: [DONE]\n\n' : body,
      ),
    },
    { type: "done", message: message([]) },
  ];
  const whole = await openai(w).chat.completions.create({ model: "p/m", messages: hi }).withResponse();
  expect([whole.data.id, whole.data.choices[0]?.message.content]).toEqual(["theirs", "raw"]);
  expect(whole.response.headers.get("x-beige-model")).toBe("p/m");
  expect(whole.request_id).toBe(w.asked[0]?.request);
  const stream = await openai(w).chat.completions.create({ model: "p/m", messages: hi, stream: true });
  let text = "";
  for await (const chunk of stream) text += chunk.choices[0]?.delta.content ?? "";
  expect(text).toBe("raw");
});

test.each([
  [{ code: "exhausted", message: "cooling", retryAfterMs: 42_000 }, 429],
  [{ code: "denied", message: "no" }, 403],
  [{ code: "unavailable", message: "all down" }, 503],
  [{ code: "invalid", message: "too long", overflow: true }, 400],
  [{ code: "timeout", message: "late" }, 504],
] as const)("a failure before the first word is an error of the client's own kind, asked once (%#)", async (failure, status) => {
  const w = await world();
  w.answers = () => [fails(failure)];
  const one = await openai(w)
    .chat.completions.create({ model: "p/m", messages: hi, stream: true })
    .catch((error: unknown) => error);
  expect(one).toBeInstanceOf(OpenAI.APIError);
  expect(one).toMatchObject({ status, error: { message: failure.message } });
  const two = await anthropic(w)
    .messages.create({ model: "p/m", max_tokens: 9, messages: hi })
    .catch((error: unknown) => error);
  expect(two).toBeInstanceOf(Anthropic.APIError);
  expect(two).toMatchObject({ status, error: { type: "error", error: { message: expect.stringContaining(failure.message) as string } } });
  expect(w.asked).toHaveLength(2);
  if (failure.code === "exhausted") expect((one as InstanceType<typeof OpenAI.APIError>).headers?.get("retry-after")).toBe("42");
});

test("an answer that is cut is an error to every client, and the connection does not end as if it were whole", async () => {
  const w = await world();
  w.answers = () => [...says("hello").slice(0, 2), fails({ message: "reset", partial: true })];
  const drain = async (stream: AsyncIterable<unknown>): Promise<void> => {
    for await (const _ of stream);
  };
  await expect(openai(w).chat.completions.create({ model: "p/m", messages: hi, stream: true }).then(drain)).rejects.toThrow(/cut: reset/);
  await expect(openai(w).responses.create({ model: "p/m", input: "hi", stream: true }).then(drain)).rejects.toThrow();
  await expect(anthropic(w).messages.create({ model: "p/m", max_tokens: 9, messages: hi, stream: true }).then(drain)).rejects.toThrow(
    /cut: reset/,
  );
  const raw = await w.it.ask("POST /v1/chat/completions", { body: { model: "p/m", messages: hi, stream: true } });
  expect(raw.complete).toBe(false);
  expect(raw.text).toContain('"error"');
});

test("ai: text, a stream, tools, and an error", async () => {
  const w = await world();
  const models = createOpenAI({ apiKey: w.it.token, baseURL: `${w.url}/v1` });
  for (const model of [models.chat("p/m"), models.responses("p/m")]) {
    expect((await generateText({ model, prompt: "hi" })).text).toBe("hello");
    const { textStream } = streamText({ model, prompt: "hi" });
    let text = "";
    for await (const part of textStream) text += part;
    expect(text).toBe("hello");
  }
  w.answers = () => [fails({ code: "denied", message: "not for you" })];
  await expect(generateText({ model: models.chat("p/m"), prompt: "hi", maxRetries: 0 })).rejects.toThrow("not for you");
});

test("a client that leaves ends the request at once: before the first byte, in mid-stream, and when it waits for the whole", async () => {
  const w = await world();
  for (const [stream, script] of [
    [true, [60_000]],
    [true, [...says("hello").slice(0, 2), 60_000]],
    [false, [60_000]],
  ] as const) {
    w.answers = () => script;
    const before = w.asked.length;
    const body = JSON.stringify({ model: "p/m", messages: hi, stream });
    const sent = httpRequest({
      socketPath: w.it.socket,
      method: "POST",
      path: "/v1/chat/completions",
      headers: { "content-type": "application/json" },
    });
    sent.on("error", () => undefined);
    sent.end(body);
    if (script.length > 1) await once(sent, "response");
    while (w.asked.length === before) await new Promise((on) => setTimeout(on, 2));
    const left = performance.now();
    sent.destroy();
    while (w.aborted.length === before) await new Promise((on) => setTimeout(on, 1));
    expect((w.aborted.at(-1) ?? Infinity) - left).toBeLessThan(500);
  }
});

test("a client that does not read holds the provider back, keeps no memory, and is cut in the end", async () => {
  const w = await world({ stallMs: 400 });
  const bytes = Buffer.alloc(64 * 1024, "data: x\n\n");
  let given = 0;
  w.answers = () => ({
    *[Symbol.iterator]() {
      yield { ...start, wire: true };
      for (; given < 2000; given++) yield { type: "wire", bytes };
    },
  });
  const body = JSON.stringify({ model: "p/m", messages: hi, stream: true });
  const socket = w.it.dial("socket");
  socket.pause();
  socket.write(
    `POST /v1/chat/completions HTTP/1.1\r\nhost: x\r\ncontent-type: application/json\r\ncontent-length: ${body.length}\r\n\r\n${body}`,
  );
  await expect.poll(() => w.aborted.length, { timeout: 50_000 }).toBe(1);
  expect(given).toBeGreaterThan(0);
  expect(given).toBeLessThan(100);
  expect(w.it.logged).toContain("slow reader cut");
  socket.destroy();
}, 60_000);

/** The answer as it is on the wire. */
const raw = async (w: World, path: string, more: object = {}): Promise<string> =>
  (await w.it.ask(`POST ${path}`, { body: { model: "p/m", messages: hi, max_tokens: 9, input: "hi", stream: true, ...more } })).text;

test("a stream that is silent for long says that it waits, before the first word and between events, and clients read on (P81)", async () => {
  const w = await world({ aliveMs: 100 });
  w.answers = () => [350, ...says("hello").slice(0, 2), 350, ...says("hello").slice(2)];
  for (const [path, more] of [
    ["/v1/chat/completions", {}],
    ["/v1/responses", { messages: undefined, max_tokens: undefined }],
    ["/v1/messages", { input: undefined }],
  ] as const) {
    const text = await raw(w, path, path === "/v1/chat/completions" ? { input: undefined } : more);
    const [before = "", after = ""] = text.split("he");
    expect([path, before.startsWith(": waiting\n\n"), after.includes("\n\n: waiting\n\n")], text).toEqual([path, true, true]);
  }
  const seen: string[] = [];
  for await (const chunk of await openai(w).chat.completions.create({ model: "p/m", messages: hi, stream: true }))
    seen.push(chunk.choices[0]?.delta.content ?? "");
  expect(seen.join("")).toBe("hello");
  expect(await anthropic(w).messages.stream({ model: "p/m", max_tokens: 9, messages: hi }).finalText()).toBe("hello");
  expect(await streamText({ model: createOpenAI({ apiKey: w.it.token, baseURL: `${w.url}/v1` }).chat("p/m"), prompt: "hi" }).text).toBe(
    "hello",
  );
  // A failure that comes after it is one event of the stream, and no whole answer.
  w.answers = () => [350, fails({ code: "unavailable", message: "nobody answers" })];
  const failed = openai(w).chat.completions.create({ model: "p/m", messages: hi, stream: true });
  const read = async (): Promise<void> => {
    for await (const chunk of await failed) expect(chunk).toBeUndefined();
  };
  await expect(read()).rejects.toThrow("nobody answers");
});

test.each([
  ["the middle of a provider's event", 100],
  ["a stream that is talking", 400],
])("nothing is put into %s", async (_where, aliveMs) => {
  const w = await world({ aliveMs });
  const wire = (text: string): RoadEvent => ({ type: "wire", bytes: Buffer.from(text) });
  const done = says("x").at(-1) as RoadEvent;
  const ask = (...events: (RoadEvent | number)[]): Promise<string> => {
    w.answers = () => [{ ...start, wire: true }, ...events, done];
    return raw(w, "/v1/chat/completions", { input: undefined });
  };
  if (aliveMs === 400) {
    const steady = Array.from({ length: 20 }, () => [wire("data: 1\n\n"), 40]).flat();
    return expect(await ask(...steady)).toBe("data: 1\n\n".repeat(20));
  }
  expect(await ask(wire('data: {"a"'), 350, wire(": 1}\n"), 350, wire("\n"))).toBe('data: {"a": 1}\n\n');
  expect(await ask(wire("data: 1\r\n\r\n"), 350, wire("data: 2\n\n"))).toMatch(/^data: 1\r\n\r\n(: waiting\n\n)+data: 2\n\n$/);
});

test("lines of our own streams are kept open by empty ones, before the first event too", async () => {
  const w = await world({ aliveMs: 100 });
  const context = { messages: [{ role: "user", content: "hi", timestamp: 1 }] };
  w.answers = () => [350, ...says("hello").slice(0, 2), 350, ...says("hello").slice(2)];
  const { text } = await w.it.ask("POST /api/chat/stream", { body: { agent: "dev", context } });
  expect(text).toMatch(/^\n+\{"type":"start".*\}\n/);
  expect(text).toMatch(/"he"[^\n]*\n\n+\{/);
  const lines = text.split("\n").filter((line) => line !== "");
  expect((JSON.parse(lines.at(-1) ?? "") as { type: string }).type).toBe("done");
});

test("who is not known, and what is not there, is said in the format's own words", async () => {
  const w = await world();
  const ask = (line: string, more: object): ReturnType<Rig["ask"]> =>
    w.it.ask(line, { tcp: true, body: { model: "p/m", messages: hi }, ...more });
  const bad = { authorization: "Bearer wrong" };
  expect((await ask("POST /v1/chat/completions", { headers: bad })).json).toMatchObject({
    error: { type: "authentication_error", code: "invalid_api_key" },
  });
  expect((await ask("POST /v1/messages", { headers: bad })).json).toMatchObject({ type: "error", error: { type: "authentication_error" } });
  const unknown = await ask("POST /v1/chat/completions", { body: { model: "gpt-9", messages: hi } });
  expect([unknown.status, unknown.json.error.code, unknown.json.error.message]).toEqual([
    404,
    "model_not_found",
    expect.stringContaining("GET /v1/models"),
  ]);
  const none = await ask("POST /v1/messages", { body: { model: "nobody/x", messages: hi } });
  expect([none.status, none.json.error.type]).toEqual([404, "not_found_error"]);
  expect((await ask("POST /v1/embeddings", {})).json.error.type).toBe("invalid_request_error");
  expect((await ask("POST /v1/messages", { body: "{" })).json).toMatchObject({ type: "error", error: { type: "invalid_request_error" } });
});

test("models are listed for both families of clients", async () => {
  const w = await world();
  const names: string[] = [];
  for await (const model of openai(w).models.list()) names.push(model.id);
  expect(names).toEqual(["dev", "p/m", "q/n"]);
  const theirs: string[] = [];
  for await (const model of anthropic(w).models.list()) theirs.push(model.id);
  expect(theirs).toEqual(names);
  expect((await openai(w).models.retrieve("p/m")).owned_by).toBe("p");
});

test("POST /api/chat/stream gives deltas, says a fallback and a refusal, and ends with a terminal event", async () => {
  const w = await world();
  const ask = async (body: object): Promise<{ readonly type: string }[]> => {
    const { text } = await w.it.ask("POST /api/chat/stream", { body });
    return text
      .split("\n")
      .filter(Boolean)
      .map((line) => JSON.parse(line) as { readonly type: string });
  };
  const context = { systemPrompt: "S", messages: [{ role: "user", content: "hi", timestamp: 1 }] };
  w.answers = () => [{ ...start, fallback: true }, ...says("hello").slice(1)];
  const told = await ask({ provider: "p", modelId: "m", context, agentName: "dev" });
  expect(told.map((event) => event.type)).toEqual(["start", "model_fallback", "text_delta", "text_delta", "text_end", "done"]);
  expect(JSON.stringify(told)).not.toContain("partial");
  expect(w.asked[0]).toMatchObject({ model: { provider: "p", id: "m" }, agent: { name: "dev" }, context, options: { thinking: "low" } });
  w.answers = () => [fails({ code: "denied", message: "prompt refused: rude" })];
  expect((await ask({ agent: "dev", context })).map((event) => event.type)).toEqual(["blocked", "error"]);
  for (const wrong of [
    { agent: "dev" },
    { context },
    { agent: "dev", context: { messages: [{ role: "x" }] } },
    { agent: "dev", context, extra: 1 },
  ])
    expect((await w.it.ask("POST /api/chat/stream", { body: wrong })).status).toBe(400);
});
