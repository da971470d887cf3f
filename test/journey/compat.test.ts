// The clients that people have already, against a real gateway: whole turns, tool loops of their own, fallback, images, errors, an early end.
import { readFileSync } from "node:fs";
import { join } from "node:path";
import Anthropic from "@anthropic-ai/sdk";
import { createAnthropic } from "@ai-sdk/anthropic";
import { createOpenAI } from "@ai-sdk/openai";
import { generateText, jsonSchema, stepCountIs, tool } from "ai";
import OpenAI from "openai";
import { afterAll, beforeAll, expect, test } from "vitest";
import { makeGateway, until, type Gateway } from "../gateway.ts";
import { sse, startWire, textStream, toolStream, type Asked, type Wire } from "../llm/wire.ts";

let gateway: Gateway;
let down: Wire;
let up: Wire;
let base = "";
let token = "";

const stack = (): string => `
apiVersion: beige.dev/v1
kind: Provider
metadata: {name: script}
spec:
  api: echo
  models: [{id: echo-1, contextWindow: 100000, maxTokens: 1000, input: [text, image]}]
  echo:
    steps:
      - {match: weather in, toolCall: {tool: read, args: {path: vienna}}}
      - {from: tool, match: ".+", text: "It is $0."}
---
apiVersion: beige.dev/v1
kind: Provider
metadata: {name: down}
spec: {api: openai-completions, baseUrl: "${down.url}", models: [{id: one, contextWindow: 100000, maxTokens: 1000}]}
---
apiVersion: beige.dev/v1
kind: Provider
metadata: {name: up}
spec: {api: openai-completions, baseUrl: "${up.url}", models: [{id: two, contextWindow: 100000, maxTokens: 1000, input: [text, image]}]}
---
apiVersion: beige.dev/v1
kind: Agent
metadata: {name: scripted}
spec: {model: {provider: script, id: echo-1}, instructions: "You know the weather.", sandbox: {image: "beige-tiny:1"}}
---
apiVersion: beige.dev/v1
kind: Agent
metadata: {name: sturdy}
spec:
  model: {provider: down, id: one}
  fallbacks: [{provider: up, id: two}]
  instructions: You know the weather.
  sandbox: {image: "beige-tiny:1"}
`;

interface Said {
  readonly role: string;
  readonly content: unknown;
}
const last = (asked: Asked): Said | undefined => (asked.body["messages"] as readonly Said[]).at(-1);

/** A model that looks up the weather with the client's tool, then tells it. */
function scripted(response: Parameters<Wire["handler"]>[0], asked: Asked): void {
  const said = last(asked);
  const found = said?.role === "tool" ? JSON.stringify(said.content).replaceAll(/[^a-z0-9 ]/g, "") : undefined;
  const usesTools = Array.isArray(asked.body["tools"]);
  if (asked.body["stream"] === true) {
    sse(response);
    response.end(found === undefined && usesTools ? toolStream("read", { path: "vienna" }) : textStream(["It is ", found ?? "so", "."]));
    return;
  }
  const call = { id: "call_1", type: "function", function: { name: "read", arguments: '{"path":"vienna"}' } };
  const message =
    found === undefined && usesTools
      ? { role: "assistant", content: null, tool_calls: [call] }
      : { role: "assistant", content: `It is ${found ?? "so"}.` };
  const usage = { prompt_tokens: 12, completion_tokens: 7, total_tokens: 19 };
  const finish_reason = "tool_calls" in message ? "tool_calls" : "stop";
  response.setHeader("content-type", "application/json");
  response.end(
    JSON.stringify({
      id: "c1",
      object: "chat.completion",
      created: 1,
      model: "two",
      choices: [{ index: 0, message, finish_reason }],
      usage,
    }),
  );
}

beforeAll(async () => {
  down = await startWire(
    (response) => void response.writeHead(503, { "content-type": "application/json" }).end('{"error":{"message":"gone"}}'),
  );
  up = await startWire(scripted);
  gateway = makeGateway({ env: { BEIGE_LISTEN: "127.0.0.1:0", DOCKER_HOST: "unix:///nonexistent/engine.sock" } });
  await gateway.start();
  const told = await gateway.stream("/api/apply", { files: [{ name: "s.yaml", folder: gateway.home, text: stack() }], wait: false });
  expect(told.at(-1), JSON.stringify(told)).toMatchObject({ type: "end", exit: 0 });
  base = String((await gateway.request("GET", "/api/health")).body.url);
  token = readFileSync(join(gateway.home, "token"), "utf8").trim();
}, 60_000);

afterAll(async () => {
  await gateway.clean();
  await down[Symbol.asyncDispose]();
  await up[Symbol.asyncDispose]();
});

const openai = (): OpenAI => new OpenAI({ apiKey: token, baseURL: `${base}/v1` });
const anthropic = (): Anthropic => new Anthropic({ apiKey: token, baseURL: base });
const hi = [{ role: "user" as const, content: "hello there" }];
const asks = [{ role: "user" as const, content: "weather in vienna" }];
const place = { type: "object" as const, properties: { path: { type: "string" as const } }, required: ["path"] };
const AGENTS = ["scripted", "sturdy"] as const;

test("a plain question is a whole turn of the agent, and a named session remembers", async () => {
  const session = { headers: { "x-beige-session": "trip" } };
  const first = await openai().chat.completions.create({ model: "scripted", messages: hi }, session);
  expect(first.choices[0]?.message.content).toBe("hello there");
  expect(first.usage?.completion_tokens).toBeGreaterThan(0);
  const second = await anthropic().messages.stream({ model: "scripted", max_tokens: 50, messages: hi }, session).finalMessage();
  expect(second.content).toMatchObject([{ type: "text", text: "hello there" }]);
  const third = await openai().responses.create({ model: "scripted", input: "hello there" });
  expect(third.output_text).toBe("hello there");
  const rows = (await gateway.request("GET", "/api/audit/tail?n=50&agent=scripted")).body as {
    items?: { session?: string; type: string }[];
  };
  const text = JSON.stringify(rows);
  expect(text).toContain("api:trip");
  expect(text).toContain("api:once-");
  const kept = (await gateway.request("GET", "/api/agents/scripted/sessions")).body;
  expect(JSON.stringify(kept)).toContain("api:trip");
  expect(JSON.stringify(kept)).not.toContain("api:once-");
  const { models } = (await gateway.request("GET", "/api/agents/sturdy/models")).body;
  expect(models).toMatchObject([
    { name: "down/one", primary: true },
    { name: "up/two", primary: false, facts: { id: "two" } },
  ]);
});

test.each(AGENTS)("openai runs a tool loop against agent %s, whole and streamed", async (model) => {
  for (const stream of [false, true]) {
    const tools = [
      {
        type: "function" as const,
        function: {
          name: "read",
          description: "tells it",
          parameters: place,
          parse: JSON.parse,
          function: (a: { path: string }) => `sunny in ${a.path}`,
        },
      },
    ];
    const runner = stream
      ? openai().chat.completions.runTools({ model, messages: asks, tools, stream })
      : openai().chat.completions.runTools({ model, messages: asks, tools });
    expect(await runner.finalContent()).toBe("It is sunny in vienna.");
  }
});

test.each(AGENTS)("openai's responses run a tool loop against agent %s", async (model) => {
  const tools = [{ type: "function" as const, name: "read", parameters: place, strict: false }];
  const first = await openai().responses.create({ model, input: asks, tools });
  const call = first.output.find((item) => item.type === "function_call");
  expect(JSON.parse(call?.arguments ?? "{}")).toEqual({ path: "vienna" });
  const output = { type: "function_call_output" as const, call_id: call?.call_id ?? "", output: "sunny in vienna" };
  const second = openai().responses.stream({ model, input: [...asks, ...(first.output as never[]), output], tools });
  expect((await second.finalResponse()).output_text).toBe("It is sunny in vienna.");
});

test.each(AGENTS)("anthropic runs a tool loop against agent %s", async (model) => {
  const tools = [{ name: "read", input_schema: place }];
  const first = await anthropic().messages.stream({ model, max_tokens: 100, messages: asks, tools }).finalMessage();
  const use = first.content.find((block) => block.type === "tool_use");
  expect(use?.input).toEqual({ path: "vienna" });
  const result = { type: "tool_result" as const, tool_use_id: use?.id ?? "", content: "sunny in vienna" };
  const messages = [...asks, { role: "assistant" as const, content: first.content }, { role: "user" as const, content: [result] }];
  const second = await anthropic().messages.create({ model, max_tokens: 100, messages, tools });
  expect(second.content).toMatchObject([{ type: "text", text: "It is sunny in vienna." }]);
  expect(second.usage.output_tokens).toBeGreaterThan(0);
});

test.each(AGENTS)("ai runs a tool loop against agent %s over all three formats", async (name) => {
  const one = createOpenAI({ apiKey: token, baseURL: `${base}/v1` });
  const two = createAnthropic({ apiKey: token, baseURL: `${base}/v1` });
  for (const model of [one.chat(name), one.responses(name), two(name)]) {
    const tools = {
      read: tool({ inputSchema: jsonSchema<{ path: string }>(place), execute: (input) => Promise.resolve(`sunny in ${input.path}`) }),
    };
    const answer = await generateText({ model, prompt: "weather in vienna", tools, stopWhen: stepCountIs(3), maxRetries: 0 });
    expect(answer.text).toBe("It is sunny in vienna.");
  }
});

test("the agent's instructions go before the client's own, and the model that answered is named", async () => {
  const tools = [{ type: "function" as const, function: { name: "read", parameters: place } }];
  const messages = [{ role: "system" as const, content: "Be brief." }, ...asks];
  const answer = await openai().chat.completions.create({ model: "sturdy", messages, tools }).withResponse();
  expect(answer.response.headers.get("x-beige-model")).toBe("up/two");
  const sent = up.asked.at(-1)?.body["messages"] as Said[];
  expect(JSON.stringify(sent.filter((each) => each.role === "system" || each.role === "developer"))).toMatch(
    /You know the weather.*Be brief/,
  );
});

test("a key asks its own agents and their models, is charged to them, and sees nothing else", async () => {
  const made = await gateway.request("POST", "/api/keys", { name: "ci", role: "caller", agents: ["sturdy"] });
  const client = new OpenAI({ apiKey: String(made.body.secret), baseURL: `${base}/v1`, maxRetries: 0 });
  const names: string[] = [];
  for await (const model of client.models.list()) names.push(model.id);
  expect(names).toEqual(["sturdy", "down/one", "up/two"]);
  const answer = await client.chat.completions.create({ model: "up/two", messages: hi });
  expect(answer.choices[0]?.message.content).toBe("It is so.");
  const rows = JSON.stringify((await gateway.request("GET", "/api/audit/tail?n=5")).body);
  expect(rows).toContain('"principal":"key/ci"');
  expect(rows).toContain('"agent":"sturdy"');
  for (const model of ["scripted", "script/echo-1", "nobody"])
    await expect(client.chat.completions.create({ model, messages: hi })).rejects.toBeInstanceOf(OpenAI.NotFoundError);
  await expect(
    client.chat.completions.create({ model: "up/two", messages: hi }, { headers: { "x-beige-agent": "scripted" } }),
  ).rejects.toThrow();
  const viewer = await gateway.request("POST", "/api/keys", { name: "eyes", role: "viewer" });
  const eyes = new OpenAI({ apiKey: String(viewer.body.secret), baseURL: `${base}/v1`, maxRetries: 0 });
  await expect(eyes.chat.completions.create({ model: "sturdy", messages: hi })).rejects.toBeInstanceOf(OpenAI.PermissionDeniedError);
});

test("an image reaches the model, from either family of clients", async () => {
  const data = "iVBORw0KGgo=";
  const url = `data:image/png;base64,${data}`;
  await openai().chat.completions.create({
    model: "up/two",
    messages: [{ role: "user", content: [{ type: "image_url", image_url: { url } }] }],
  });
  expect(JSON.stringify(up.asked.at(-1)?.body)).toContain(url);
  const source = { type: "base64" as const, media_type: "image/png" as const, data };
  const content = [
    { type: "text" as const, text: "see" },
    { type: "image" as const, source },
  ];
  await anthropic().messages.create({ model: "up/two", max_tokens: 10, messages: [{ role: "user", content }] });
  expect(JSON.stringify(up.asked.at(-1)?.body)).toContain(url);
});

test("errors are of the client's own kind, say what mends them, and are asked once", async () => {
  const unknown = await openai()
    .chat.completions.create({ model: "gpt-9", messages: hi })
    .catch((error: unknown) => error);
  expect(unknown).toBeInstanceOf(OpenAI.NotFoundError);
  const wrong = await new Anthropic({ apiKey: "wrong", baseURL: base }).messages
    .create({ model: "scripted", max_tokens: 9, messages: hi })
    .catch((error: unknown) => error);
  expect(wrong).toBeInstanceOf(Anthropic.AuthenticationError);
  const before = down.asked.length;
  const failed = await openai()
    .chat.completions.create({ model: "down/one", messages: hi })
    .catch((error: unknown) => error);
  expect(failed).toBeInstanceOf(OpenAI.InternalServerError);
  expect((failed as Error).message).toContain("down/one");
  // Three passes of the gateway's own; none of the client's.
  expect(down.asked.length - before).toBe(3);
});

test("a client that stops ends the provider's answer too, in the middle of it", async () => {
  let gone = 0;
  up.handler = (response) => {
    sse(response);
    response.write(textStream(["word "]).split("\n\n").slice(0, 2).join("\n\n") + "\n\n");
    response.on("close", () => (gone = performance.now()));
  };
  try {
    for (const model of ["up/two", "sturdy"]) {
      gone = 0;
      const stream = await openai().chat.completions.create({ model, messages: hi, stream: true });
      for await (const chunk of stream) if (chunk.choices[0]?.delta.content !== undefined && chunk.choices[0].delta.content !== "") break;
      const left = performance.now();
      await until(() => gone > 0, 5000, "the provider sees it");
      expect(gone - left).toBeLessThan(1000);
    }
  } finally {
    up.handler = scripted;
  }
});

test("a provider that breaks off is never a clean end", async () => {
  up.handler = (response) => {
    sse(response);
    response.write(textStream(["half of it"]).split("\n\n").slice(0, 2).join("\n\n") + "\n\n");
    setTimeout(() => response.destroy(), 50);
  };
  try {
    const drain = async (stream: AsyncIterable<unknown>): Promise<void> => {
      for await (const _ of stream);
    };
    await expect(openai().chat.completions.create({ model: "up/two", messages: hi, stream: true }).then(drain)).rejects.toThrow();
    await expect(anthropic().messages.create({ model: "up/two", max_tokens: 9, messages: hi, stream: true }).then(drain)).rejects.toThrow();
    await expect(openai().responses.create({ model: "up/two", input: "hi", stream: true }).then(drain)).rejects.toThrow();
  } finally {
    up.handler = scripted;
  }
});
