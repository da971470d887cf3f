import { afterEach, expect, test } from "vitest";
import * as w from "../../test/llm/world.ts";
import { answerWith, refuseWith, sse, startWire, textStream, toolStream, usage, type Handler, type Wire } from "../../test/llm/wire.ts";
import type { ChatContext, ChatEvent, ChatFailure, ChatTarget } from "../core/chat.ts";
import { createPi } from "./pi.ts";

const pi = createPi({ log: w.memoryLog() });
const wires: Wire[] = [];
afterEach(async () => {
  for (const wire of wires.splice(0)) await wire[Symbol.asyncDispose]();
});

async function serve(handler: Handler): Promise<Wire> {
  const wire = await startWire(handler);
  wires.push(wire);
  return wire;
}

const target = (wire: Wire, more: Partial<ChatTarget> = {}): ChatTarget => ({
  provider: "local",
  api: "openai-completions",
  baseUrl: wire.url,
  apiKey: "sk-test-key",
  model: w.facts("m", { cost: { input: 1, output: 2, cacheRead: 0, cacheWrite: 0 } }),
  timeoutMs: 10_000,
  ...more,
});
const context: ChatContext = {
  systemPrompt: "be good",
  messages: [{ role: "user", content: "hi", timestamp: 1 }],
  tools: [{ name: "exec", description: "run", parameters: { type: "object", properties: { command: { type: "string" } } } }],
};
const ask = (wire: Wire, more: Partial<ChatTarget> = {}, signal = new AbortController().signal): Promise<ChatEvent[]> =>
  w.all(pi.llm.stream(target(wire, more), context, { thinking: "off", session: "telegram:secret-chat" }, signal));

const textOf = (events: readonly ChatEvent[]): string => events.map((event) => (event.type === "text_delta" ? event.delta : "")).join("");
const failureOf = (events: readonly ChatEvent[]): ChatFailure | undefined => {
  const last = events.at(-1);
  return last?.type === "error" ? last.failure : undefined;
};

test("an answer streams, with its usage, and the request carries prompt, tools and key", async () => {
  const wire = await serve(answerWith(textStream(["Hel", "lo"])));
  const events = await ask(wire);
  expect(textOf(events)).toBe("Hello");
  expect(events.at(-1)).toMatchObject({
    type: "done",
    message: {
      provider: "local",
      model: "m",
      api: "openai-completions",
      stopReason: "stop",
      usage: { input: usage.prompt_tokens, output: usage.completion_tokens },
    },
  });
  expect(JSON.stringify(events)).not.toContain('"partial"');
  expect(wire.asked.length).toBe(1);
  const [asked] = wire.asked;
  expect(asked?.path).toBe("/v1/chat/completions");
  expect(asked?.headers).toMatchObject({ authorization: "Bearer sk-test-key", "user-agent": "beige" });
  expect(asked?.body).toMatchObject({ model: "m", stream: true, tools: [{ function: { name: "exec" } }] });
  expect(JSON.stringify(asked?.body)).toContain("be good");
  expect(JSON.stringify([asked?.body, asked?.headers])).not.toContain("secret-chat");
});

test("a tool call arrives whole", async () => {
  const wire = await serve(answerWith(toolStream("exec", { command: "id && ls" })));
  expect((await ask(wire)).at(-1)).toMatchObject({
    message: { stopReason: "toolUse", content: [{ type: "toolCall", id: "call_1", name: "exec", arguments: { command: "id && ls" } }] },
  });
});

test("the same answer comes out wherever the bytes are cut, with CRLF, comments and without a final newline (P83)", async () => {
  const plain = textStream(["Grüße ", "🎉"]);
  const bytes = Buffer.from(plain);
  const variants = [plain.replaceAll("\n", "\r\n"), `: ping\n\n${plain.replaceAll("data: {", ": keep-alive\n\ndata: {")}`, plain.trimEnd()];
  const wire = await serve(() => undefined);
  for (const text of variants) {
    wire.handler = answerWith(text);
    expect(textOf(await ask(wire))).toBe("Grüße 🎉");
  }
  for (let at = 1; at < bytes.length; at += 7) {
    wire.handler = async (response) => {
      sse(response);
      response.write(bytes.subarray(0, at));
      await new Promise((next) => setImmediate(next));
      response.end(bytes.subarray(at));
    };
    expect(textOf(await ask(wire))).toBe("Grüße 🎉");
  }
  wire.handler = async (response) => {
    sse(response);
    for (const byte of bytes) {
      response.write(Buffer.of(byte));
      await new Promise((next) => setImmediate(next));
    }
    response.end();
  };
  expect(textOf(await ask(wire))).toBe("Grüße 🎉");
}, 60_000);

const soon = new Date(Date.now() + 45_000).toUTCString();
test.each([
  ["seconds", { "retry-after": "7" }, "{}", 7000, 7000],
  ["milliseconds", { "retry-after-ms": "1500" }, "{}", 1500, 1500],
  ["a date", { "retry-after": soon }, "{}", 40_000, 46_000],
  ["a field of the body", {}, '{"error":{"message":"slow","retry_after_seconds":59}}', 59_000, 59_000],
  ["a sentence", {}, '{"error":{"message":"Please try again in 20s."}}', 20_000, 20_000],
  ["a day at most", { "retry-after": "9999999" }, "{}", 86_400_000, 86_400_000],
])("a 429 tells its wait as %s (P91), after one request (P95)", async (_, headers, body, least, most) => {
  const wire = await serve(refuseWith(429, body, headers));
  const failure = failureOf(await ask(wire));
  expect(failure?.status).toBe(429);
  expect(failure?.retryAfterMs).toBeGreaterThanOrEqual(least);
  expect(failure?.retryAfterMs).toBeLessThanOrEqual(most);
  expect(wire.asked.length).toBe(1);
});

test.each([400, 401, 403, 404, 408, 409, 422, 500, 503, 529])("status %i comes through after one request", async (status) => {
  const wire = await serve(refuseWith(status, JSON.stringify({ error: { message: `it is ${status}` } })));
  expect(failureOf(await ask(wire))).toMatchObject({ status, message: expect.stringContaining(`it is ${status}`) as string });
  expect(wire.asked.length).toBe(1);
});

test("an error page in HTML, however long, is a bounded failure", async () => {
  const wire = await serve((response) => {
    response.writeHead(502, { "content-type": "text/html" });
    response.end(`<html>${"x".repeat(10_000_000)}</html>`);
  });
  const failure = failureOf(await ask(wire));
  expect(failure?.status).toBe(502);
  expect(failure?.message.length).toBeLessThanOrEqual(4000);
});

test("HTML, JSON and nothing at all with status 200 are failures, not empty answers", async () => {
  const wire = await serve(() => undefined);
  for (const text of ["<html>welcome to the hotel</html>", '{"choices":[]}', "", "data: {\n\n", "data: [DONE]\n\n"]) {
    wire.handler = answerWith(text);
    expect((await ask(wire)).at(-1)?.type).toBe("error");
  }
});

test("a redirect is not followed: the key stays with its host", async () => {
  const other = await serve(answerWith(textStream(["stolen"])));
  const wire = await serve((response) => {
    response.writeHead(307, { location: `${other.url}/chat/completions` });
    response.end();
  });
  expect(failureOf(await ask(wire))?.status).toBe(307);
  expect(other.asked).toEqual([]);
});

test("an error event inside a 200 stream is a failure with its own status", async () => {
  const first = textStream(["Hel"]).split("\n\n").slice(0, 2).join("\n\n");
  const wire = await serve(answerWith('data: {"error":{"code":429,"message":"rate limited, try again in 3 seconds"}}\n\n'));
  expect(failureOf(await ask(wire))).toMatchObject({ status: 429, retryAfterMs: 3000 });
  wire.handler = answerWith(`${first}\n\ndata: {"error":{"message":"Overloaded mid-stream"}}\n\n`);
  const events = await ask(wire);
  expect(textOf(events)).toBe("Hel");
  expect(failureOf(events)?.message).toContain("Overloaded mid-stream");
});

test("a stream that is cut, reset or ends early is a failure", async () => {
  const half = textStream(["Hel", "lo"]).slice(0, 300);
  const wire = await serve((response) => {
    sse(response);
    response.write(half);
    setTimeout(() => response.socket?.destroy(), 20);
  });
  expect((await ask(wire)).at(-1)?.type).toBe("error");
  wire.handler = (response) => void response.socket?.resetAndDestroy();
  expect(failureOf(await ask(wire))).not.toHaveProperty("status");
  wire.handler = answerWith(half);
  expect((await ask(wire)).at(-1)?.type).toBe("error");
});

test("an abort ends the request upstream within a second, before the first byte and in mid-stream", async () => {
  const wire = await serve(() => undefined);
  for (const handler of [
    () => undefined,
    (response: Parameters<Handler>[0]) => (sse(response), void response.write(textStream(["x"]).slice(0, 200))),
  ]) {
    wire.handler = handler;
    const before = wire.dropped();
    const gone = new AbortController();
    setTimeout(() => gone.abort(), 60);
    expect((await ask(wire, {}, gone.signal)).at(-1)?.type).toBe("error");
    await expect.poll(() => wire.dropped(), { timeout: 1000 }).toBe(before + 1);
  }
});

test("a line that never ends is cut off", async () => {
  const wire = await serve((response) => {
    sse(response);
    response.on("error", () => undefined);
    const block = Buffer.alloc(1024 * 1024, 0x61);
    const more = (): void => {
      while (!response.destroyed && response.write(block));
      if (!response.destroyed) response.once("drain", more);
    };
    more();
  });
  expect(failureOf(await ask(wire))?.message).toContain("too long");
}, 30_000);

test("a context that is too long is told apart", async () => {
  const wire = await serve(
    refuseWith(
      400,
      '{"error":{"message":"This model\'s maximum context length is 4096 tokens. However, your messages resulted in 9000 tokens.","code":"context_length_exceeded"}}',
    ),
  );
  expect(failureOf(await ask(wire))).toMatchObject({ status: 400, overflow: true });
});

test("without a key of its own a provider gets none from the environment, whatever its name", async () => {
  process.env["OPENAI_API_KEY"] = "sk-from-environment";
  try {
    const wire = await serve(answerWith(textStream(["hi"])));
    const { apiKey: _, ...keyless } = target(wire, { provider: "openai" });
    await w.all(pi.llm.stream(keyless, context, { thinking: "off" }, new AbortController().signal));
    expect(JSON.stringify(wire.asked)).not.toContain("sk-from-environment");
  } finally {
    delete process.env["OPENAI_API_KEY"];
  }
});

test("keys that mean commands or variables to the SDK are sent as they are", async () => {
  const wire = await serve(answerWith(textStream(["hi"])));
  for (const apiKey of ["!touch /tmp/beige-never", "$HOME", "${HOME}"]) {
    await ask(wire, { apiKey });
    expect(wire.asked.at(-1)?.headers.authorization).toBe(`Bearer ${apiKey}`);
  }
});
