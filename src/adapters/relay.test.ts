import { createHash, randomBytes } from "node:crypto";
import { once } from "node:events";
import { createServer, type AddressInfo, type Socket } from "node:net";
import { setTimeout as pause } from "node:timers/promises";
import { afterEach, expect, test } from "vitest";
import { SPOKEN, type Api } from "../../test/llm/formats.ts";
import { answerWith, refuseWith, sse, startWire, type Handler, type Wire } from "../../test/llm/wire.ts";
import * as w from "../../test/llm/world.ts";
import type { ChatTarget } from "../core/chat.ts";
import type { RelayEvent, WireApi } from "../core/road.ts";
import { createRelay } from "./relay.ts";

const RELAYED: readonly WireApi[] = ["openai-completions", "openai-responses", "anthropic-messages"];
const relay = createRelay({ idleMs: 400, eventBytes: 2_000_000, wholeBytes: 4_000_000 });
const wires: Wire[] = [];
afterEach(async () => {
  for (const wire of wires.splice(0)) await wire[Symbol.asyncDispose]();
});
async function serve(handler: Handler): Promise<Wire> {
  const wire = await startWire(handler);
  wires.push(wire);
  return wire;
}

const target = (wire: Wire, api: Api, more: Partial<ChatTarget> = {}): ChatTarget => ({
  provider: "local",
  api,
  baseUrl: `${wire.origin}${SPOKEN[api].base}`,
  apiKey: "sk-test-key",
  model: w.facts("m", { cost: { input: 1, output: 2, cacheRead: 0, cacheWrite: 0 } }),
  timeoutMs: 5000,
  ...more,
});
interface How {
  readonly stream?: boolean;
  readonly body?: Record<string, unknown>;
  readonly more?: Partial<ChatTarget>;
  readonly signal?: AbortSignal;
}
const send = (wire: Wire, api: WireApi, how: How = {}): AsyncIterable<RelayEvent> =>
  relay.send(
    target(wire, api, how.more),
    { api, body: { ...SPOKEN[api].ask(how.stream ?? true), ...how.body }, stream: how.stream ?? true },
    how.signal ?? new AbortController().signal,
  );
const ask = (wire: Wire, api: WireApi, how: How = {}): Promise<RelayEvent[]> => w.all(send(wire, api, how));
const bytesOf = (events: readonly RelayEvent[]): string =>
  Buffer.concat(events.map((event) => (event.type === "wire" ? event.bytes : Buffer.alloc(0)))).toString();
const asksUsage = { stream_options: { include_usage: true } };

test.each(RELAYED)("%s: the bytes come out as they came, with usage, price and reason beside them", async (api) => {
  const wire = await serve(() => undefined);
  for (const text of [SPOKEN[api].text(["Grüße ", "🎉"]), SPOKEN[api].thinking("hm", "ok")]) {
    wire.handler = answerWith(text);
    const events = await ask(wire, api, { body: api === "openai-completions" ? asksUsage : {} });
    expect(bytesOf(events)).toBe(text);
    expect(events.at(-1)).toMatchObject({
      type: "done",
      message: {
        provider: "local",
        model: "m",
        api,
        stopReason: "stop",
        usage: { input: 12, output: 7, totalTokens: 19, cost: { input: 12e-6 } },
      },
    });
  }
  wire.handler = answerWith(SPOKEN[api].tool("exec", { command: "id" }));
  expect((await ask(wire, api)).at(-1)).toMatchObject({ type: "done", message: { stopReason: "toolUse" } });
  const [asked] = wire.asked;
  expect(asked?.path).toBe(SPOKEN[api].streamPath);
  expect(asked?.body).toMatchObject({ model: "m", stream: true });
  const key = api === "anthropic-messages" ? asked?.headers["x-api-key"] : asked?.headers.authorization;
  expect(key).toBe(api === "anthropic-messages" ? "sk-test-key" : "Bearer sk-test-key");
});

test.each(RELAYED)("%s: an answer that is not streamed comes as one piece", async (api) => {
  const body = SPOKEN[api].whole?.("hello") ?? "";
  const wire = await serve((response) => void response.writeHead(200, { "content-type": "application/json" }).end(body));
  const events = await ask(wire, api, { stream: false });
  expect(events.map((event) => event.type)).toEqual(["wire", "done"]);
  expect(bytesOf(events)).toBe(body);
  expect(events.at(-1)).toMatchObject({ message: { usage: { input: 12, output: 7 } } });
  expect(wire.asked[0]?.body).not.toHaveProperty("stream_options");
});

test.each(RELAYED)("%s: content is told from what only announces it", async (api) => {
  const wire = await serve(async (response) => {
    sse(response);
    for (const event of SPOKEN[api].text(["", "x"]).split(/(?<=\n\n)/)) {
      response.write(event);
      await new Promise((next) => setTimeout(next, 3));
    }
    response.end();
  });
  const events = await ask(wire, api);
  const first = events.findIndex((event) => event.type === "wire" && event.shows);
  expect(bytesOf(events.slice(0, first))).not.toMatch(/"x"/);
  expect(bytesOf(events.slice(first, first + 1))).toMatch(/"x"/);
});

test("what a client asks to try out is asked for at the provider", async () => {
  const wire = await serve(answerWith(SPOKEN["anthropic-messages"].text(["hi"])));
  const asked = { api: "anthropic-messages" as const, body: SPOKEN["anthropic-messages"].ask(true), stream: true };
  const { signal } = new AbortController();
  await w.all(relay.send(target(wire, asked.api), { ...asked, headers: { "anthropic-beta": "context-1m, files" } }, signal));
  await w.all(relay.send(target(wire, asked.api), asked, signal));
  expect(wire.asked.map(({ headers }) => headers["anthropic-beta"])).toEqual(["context-1m, files", undefined]);
});

test("usage is asked for, and its event is kept from a client that did not ask", async () => {
  const text = SPOKEN["openai-completions"].text(["a", "b"]);
  const wire = await serve(answerWith(text));
  const events = await ask(wire, "openai-completions", { body: { stream_options: { include_obfuscation: false } } });
  expect(wire.asked[0]?.body["stream_options"]).toEqual({ include_obfuscation: false, include_usage: true });
  expect(bytesOf(events)).not.toContain("prompt_tokens");
  expect(bytesOf(events)).toBe(
    text
      .split(/(?<=\n\n)/)
      .filter((event) => !event.includes("prompt_tokens"))
      .join(""),
  );
  expect(events.at(-1)).toMatchObject({ message: { usage: { input: 12, output: 7 } } });
});

test.each(RELAYED)(
  "%s: wherever the network cuts the bytes the same comes out",
  async (api) => {
    const plain = SPOKEN[api].text(["Grüße ", "🎉"]);
    const wire = await serve(() => undefined);
    for (const text of [plain, plain.replaceAll("\n", "\r\n")]) {
      const bytes = Buffer.from(text);
      for (let at = 1; at < bytes.length; at += 3) {
        wire.handler = async (response) => {
          sse(response);
          response.write(bytes.subarray(0, at));
          await new Promise((next) => setImmediate(next));
          response.end(bytes.subarray(at));
        };
        const events = await ask(wire, api, { body: api === "openai-completions" ? asksUsage : {} });
        expect(bytesOf(events)).toBe(text);
        expect(events.at(-1)?.type).toBe("done");
      }
      wire.handler = async (response) => {
        sse(response);
        for (const byte of bytes) {
          response.write(Buffer.of(byte));
          await new Promise((next) => setImmediate(next));
        }
        response.end();
      };
      expect((await ask(wire, api)).at(-1)).toMatchObject({ type: "done", message: { usage: { output: 7 } } });
    }
  },
  60_000,
);

const MARK: Readonly<Record<WireApi, string>> = {
  "openai-completions": '"finish_reason":"stop"}]}',
  "openai-responses": '"total_tokens":19}}}',
  "anthropic-messages": '{"type":"message_stop"}',
};

test.each(RELAYED)(
  "%s: a cut at any byte is never a clean end, unless the whole answer was there",
  async (api) => {
    const bytes = Buffer.from(SPOKEN[api].text(["Hel", "lo"]));
    // Without these bytes the answer is not whole.
    const enough = bytes.indexOf(MARK[api]) + MARK[api].length;
    const wire = await serve(() => undefined);
    const cutAt = async (at: number, clean: boolean): Promise<void> => {
      wire.handler = (response) => {
        sse(response);
        if (clean) response.end(bytes.subarray(0, at));
        else response.write(bytes.subarray(0, at), () => response.socket?.destroy());
      };
      const events = await ask(wire, api);
      const said = events.at(-1)?.type;
      if (at < enough) expect(said, `${at} of ${bytes.length}, ${clean ? "ended" : "dropped"}`).toBe("error");
      if (at === bytes.length) expect(said).toBe("done");
      // Only whole events were forwarded, so that an error event can follow.
      expect(bytesOf(events)).toMatch(/^$|\n\n$/);
    };
    for (let at = 0; at <= bytes.length; at++) await cutAt(at, true);
    for (let at = bytes.length; at >= 0; at -= 5) await cutAt(at, false);
  },
  60_000,
);

test.each(RELAYED)("%s: an error event fails the answer with its own status, and is not forwarded", async (api) => {
  const wire = await serve(answerWith(SPOKEN[api].limitEvent));
  const first = await ask(wire, api);
  expect(bytesOf(first)).toBe("");
  expect(first.at(-1)).toMatchObject({ type: "error", failure: { status: 429, retryAfterMs: 3000 } });
  wire.handler = answerWith(SPOKEN[api].unended(["Hel"]) + SPOKEN[api].errorEvent);
  const events = await ask(wire, api);
  expect(bytesOf(events)).toBe(SPOKEN[api].unended(["Hel"]));
  expect(events.at(-1)).toMatchObject({ type: "error", failure: { message: "overloaded just now" } });
  const whole = await ask(wire, api, { stream: false });
  expect(whole.at(-1)?.type).toBe("error");
});

test("refusals carry status, wait, words and overflow", async () => {
  const wire = await serve(refuseWith(429, SPOKEN["anthropic-messages"].refusal(429, "slow down"), { "retry-after": "7" }));
  expect((await ask(wire, "anthropic-messages")).at(-1)).toMatchObject({
    failure: { status: 429, retryAfterMs: 7000, message: "429: slow down" },
  });
  wire.handler = refuseWith(400, SPOKEN["anthropic-messages"].refusal(400, "prompt is too long: 9 tokens > 8 maximum"));
  expect((await ask(wire, "anthropic-messages")).at(-1)).toMatchObject({ failure: { status: 400, overflow: true } });
  wire.handler = refuseWith(502, `<html>${"x".repeat(10_000_000)}</html>`, { "content-type": "text/html" });
  const [event] = await ask(wire, "openai-completions");
  expect(event).toMatchObject({ type: "error", failure: { status: 502 } });
  expect(JSON.stringify(event).length).toBeLessThan(10_000);
});

test("a redirect is not followed", async () => {
  const other = await serve(answerWith(SPOKEN["openai-completions"].text(["stolen"])));
  const wire = await serve((response) => void response.writeHead(307, { location: `${other.url}/chat/completions` }).end());
  expect((await ask(wire, "openai-completions")).at(-1)).toMatchObject({ failure: { status: 307 } });
  expect(other.asked).toEqual([]);
});

test("a line without end, a body without end and silence are ended", async () => {
  const wire = await serve((response) => {
    sse(response);
    response.on("error", () => undefined);
    const block = Buffer.alloc(262_144, 0x61);
    const more = (): void => {
      while (!response.destroyed && response.write(block));
      if (!response.destroyed) response.once("drain", more);
    };
    more();
  });
  for (const stream of [true, false]) {
    expect((await ask(wire, "openai-completions", { stream })).at(-1)).toMatchObject({
      failure: { message: expect.stringContaining("too long") as string },
    });
  }
  wire.handler = (response) => (sse(response), void response.write(": hello\n\n"));
  expect((await ask(wire, "openai-completions")).at(-1)).toMatchObject({
    failure: { message: expect.stringContaining("silent") as string },
  });
  wire.handler = () => undefined;
  expect((await ask(wire, "openai-completions", { more: { timeoutMs: 200 } })).at(-1)).toMatchObject({ type: "error" });
  await expect.poll(() => wire.dropped(), { timeout: 2000 }).toBe(4);
});

test("an abort ends the connection at once, before the first byte, in mid-stream and without streaming", async () => {
  const wire = await serve(() => undefined);
  const half: Handler = (response) => (sse(response), void response.write(SPOKEN["openai-completions"].unended(["x"])));
  for (const [handler, stream] of [
    [() => undefined, true],
    [half, true],
    [() => undefined, false],
  ] as const) {
    wire.handler = handler;
    const [before, gone] = [wire.dropped(), new AbortController()];
    setTimeout(() => gone.abort(), 50);
    const events = await ask(wire, "openai-completions", { stream, signal: gone.signal });
    expect(events.at(-1)).toMatchObject({ type: "error", message: { stopReason: "aborted" } });
    await expect.poll(() => wire.dropped(), { timeout: 500, interval: 2 }).toBe(before + 1);
  }
  expect((await ask(wire, "openai-completions", { signal: AbortSignal.abort() })).at(-1)).toMatchObject({ type: "error" });
});

test("a reader that leaves ends the connection", async () => {
  const wire = await serve((response) => (sse(response), void response.write(SPOKEN["openai-completions"].unended(["x"]))));
  for await (const event of send(wire, "openai-completions")) {
    expect(event.type).toBe("wire");
    break;
  }
  await expect.poll(() => wire.dropped(), { timeout: 500, interval: 2 }).toBe(1);
});

test("a slow reader holds the provider back", async () => {
  let sent = 0;
  const wire = await serve((response) => {
    sse(response);
    const event = Buffer.from(SPOKEN["openai-completions"].unended(["x".repeat(60_000)]));
    const more = (): void => {
      while (sent < 400 && response.write(event)) sent++;
      if (sent < 400) response.once("drain", () => (sent++, more()));
      else response.end(SPOKEN["openai-completions"].text(["end"]));
    };
    more();
  });
  const iterator = send(wire, "openai-completions")[Symbol.asyncIterator]();
  await iterator.next();
  await new Promise((next) => setTimeout(next, 600));
  expect(sent).toBeLessThan(250);
  for (let next = await iterator.next(); next.done !== true; next = await iterator.next()) {
    if (next.value.type !== "wire") expect(next.value.type).toBe("done");
  }
  expect(sent).toBe(400);
});

test("a connection serves again, and a key that no header can hold is not told", async () => {
  const wire = await serve(answerWith(SPOKEN["openai-completions"].text(["a"])));
  for (let n = 0; n < 5; n++) await ask(wire, "openai-completions");
  expect(wire.connections()).toBe(1);
  const events = await ask(wire, "openai-completions", { more: { apiKey: "sk-\nsecret" } });
  expect(events.at(-1)).toMatchObject({ type: "error" });
  expect(JSON.stringify(events)).not.toContain("secret");
  expect(
    (
      await w.all(
        relay.send(
          target(wire, "google-generative-ai"),
          { api: "openai-completions", body: {}, stream: true },
          new AbortController().signal,
        ),
      )
    ).at(-1),
  ).toMatchObject({ failure: { code: "invalid" } });
});

test("a long answer of small pieces comes out byte for byte", { timeout: 30_000 }, async () => {
  const text = SPOKEN["openai-completions"].text(Array.from({ length: 5000 }, () => randomBytes(8).toString("hex")));
  const wire = await serve(answerWith(text));
  const events = await ask(wire, "openai-completions", { body: asksUsage });
  expect(createHash("sha256").update(bytesOf(events)).digest("hex")).toBe(createHash("sha256").update(text).digest("hex"));
});

/** A provider that only listens: what came on its connections. */
async function listener(): Promise<{ readonly url: string; readonly got: () => string; readonly open: () => number; close(): void }> {
  const sockets = new Set<Socket>();
  let got = "";
  const server = createServer((socket) => {
    sockets.add(socket);
    socket.on("data", (part) => (got += part.toString())).on("error", () => undefined);
    socket.on("close", () => sockets.delete(socket));
  }).listen(0, "127.0.0.1");
  await once(server, "listening");
  const { port } = server.address() as AddressInfo;
  const close = (): void => {
    for (const socket of sockets) socket.destroy();
    server.close();
  };
  return { url: `http://127.0.0.1:${port}`, got: () => got, open: () => sockets.size, close };
}

test("no byte leaves before its record is there; the connection is had meanwhile", async () => {
  const provider = await listener();
  const record = Promise.withResolvers<void>();
  const asked = { api: "openai-completions", body: { messages: [] }, stream: false, after: record.promise } as const;
  const aim = { provider: "local", api: asked.api, baseUrl: provider.url, model: w.facts("m"), timeoutMs: 5000 };
  const leave = new AbortController();
  const all = w.all(relay.send(aim, asked, leave.signal));
  await expect.poll(provider.open).toBe(1);
  await pause(50);
  expect(provider.got()).toBe("");
  record.resolve();
  await expect.poll(provider.got).toContain('"model":"m"');
  leave.abort();
  expect((await all).at(-1)).toMatchObject({ type: "error", message: { stopReason: "aborted" } });
  provider.close();
});

test("without its record, or when it is given up before, a request never leaves and its connection ends", async () => {
  const provider = await listener();
  const aim = { provider: "local", api: "openai-completions", baseUrl: provider.url, model: w.facts("m"), timeoutMs: 5000 } as const;
  for (const how of ["refused", "left"]) {
    const record = Promise.withResolvers<void>();
    const leave = new AbortController();
    const asked = { api: "openai-completions", body: {}, stream: true, after: record.promise } as const;
    void w.all(relay.send(aim, asked, leave.signal));
    await expect.poll(provider.open).toBe(1);
    if (how === "refused") record.reject(new Error("no disk"));
    else leave.abort();
    await expect.poll(provider.open).toBe(0);
    record.resolve();
  }
  await pause(50);
  expect(provider.got()).toBe("");
  provider.close();
});

test("an answer that comes before its question was sent is none, whatever it says, and its connection ends", async () => {
  const text = SPOKEN["openai-completions"].text(["early"]);
  const whole = JSON.stringify({ choices: [{ message: { content: "early" }, finish_reason: "stop" }] });
  const head = (type: string, body: string): string =>
    `HTTP/1.1 200 OK\r\ncontent-type: ${type}\r\ncontent-length: ${body.length}\r\n\r\n${body}`;
  const cases = [
    { stream: true, said: head("text/event-stream", text) },
    { stream: false, said: head("application/json", whole) },
    { stream: true, said: "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n\r\n" },
    { stream: true, said: "HTTP/1.1 503 Busy\r\ncontent-length: 4\r\n\r\nbusy" },
    { stream: false, said: "no HTTP at all\r\n\r\n" },
  ];
  for (const { stream, said } of cases) {
    const sockets = new Set<Socket>();
    let [got, had] = ["", 0];
    const server = createServer((socket) => {
      had += 1;
      sockets.add(socket.on("data", (part) => (got += part.toString())).on("error", () => undefined));
      socket.on("close", () => sockets.delete(socket)).write(said);
    }).listen(0, "127.0.0.1");
    await once(server, "listening");
    const record = Promise.withResolvers<void>();
    const asked = { api: "openai-completions", body: { messages: [] }, stream, after: record.promise } as const;
    const baseUrl = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
    const aim = { provider: "local", api: asked.api, baseUrl, model: w.facts("m"), timeoutMs: 5000 };
    const all = w.all(relay.send(aim, asked, new AbortController().signal));
    await expect.poll(() => had).toBe(1);
    await pause(50);
    record.resolve();
    const events = await all;
    expect(events).toHaveLength(1);
    expect(events[0]).toMatchObject({ type: "error", failure: { message: expect.any(String) as string } });
    await expect.poll(() => sockets.size).toBe(0);
    expect(got).toBe("");
    server.close();
  }
});

test("a kept connection that ends while the record is written is replaced unnoticed, since nothing has left on it", async () => {
  let answered = 0;
  const sockets: Socket[] = [];
  const wire = await serve((response, asked) => {
    answered += 1;
    if (!sockets.includes(response.socket as Socket)) sockets.push(response.socket as Socket);
    return answerWith(SPOKEN["openai-completions"].text([`answer ${answered}`]))(response, asked);
  });
  const asked = { api: "openai-completions", body: SPOKEN["openai-completions"].ask(true), stream: true } as const;
  const never = new AbortController().signal;
  // Three connections are kept.
  await Promise.all(Array.from({ length: 3 }, () => w.all(relay.send(target(wire, asked.api), asked, never))));
  expect(sockets).toHaveLength(3);
  const record = Promise.withResolvers<void>();
  const all = w.all(relay.send(target(wire, asked.api), { ...asked, after: record.promise }, never));
  await pause(50);
  for (const socket of sockets) socket.destroy();
  await pause(50);
  record.resolve();
  expect(bytesOf(await all)).toContain("answer 4");
  expect([answered, wire.connections()]).toEqual([4, 4]);
  // A new connection that ends is a failure: nobody dials for ever.
  let dialled = 0;
  const shut = createServer((socket) => ((dialled += 1), socket.destroy())).listen(0, "127.0.0.1");
  await once(shut, "listening");
  const late = Promise.withResolvers<void>();
  const baseUrl = `http://127.0.0.1:${(shut.address() as AddressInfo).port}`;
  const gone = w.all(relay.send({ ...target(wire, asked.api), baseUrl }, { ...asked, after: late.promise }, never));
  expect((await gone).at(-1)).toMatchObject({
    type: "error",
    failure: { message: expect.stringContaining("connection failed") as string },
  });
  late.resolve();
  expect(dialled).toBe(1);
  shut.close();
});

test("a record that takes longer than a provider may be silent is not the provider's silence", async () => {
  const wire = await serve(() => undefined);
  const asked = { api: "openai-completions", body: SPOKEN["openai-completions"].ask(true), stream: true } as const;
  const text = SPOKEN["openai-completions"].text(["in time"]);
  const ask = (after: Promise<void>): Promise<RelayEvent[]> =>
    w.all(relay.send(target(wire, asked.api, { timeoutMs: 300 }), { ...asked, after }, new AbortController().signal));
  wire.handler = (response, said) => void setTimeout(() => void answerWith(text)(response, said), 200);
  expect((await ask(pause(750))).at(-1)).toMatchObject({ type: "done" });
  wire.handler = () => undefined;
  const since = performance.now();
  expect((await ask(pause(400))).at(-1)).toMatchObject({ failure: { message: "the provider was silent for 0 s" } });
  expect(performance.now() - since).toBeGreaterThan(650);
});
