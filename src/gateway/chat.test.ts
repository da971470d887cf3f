import { expect, test } from "vitest";
import * as w from "../../test/llm/world.ts";
import type { AssistantMessage, ChatEvent, ChatFailure, Llm } from "../core/chat.ts";
import { BeigeError } from "../core/errors.ts";
import type { RoadRequest } from "../core/road.ts";
import type { Agent, Provider } from "../core/resource.ts";
import type { Clock } from "../core/world.ts";
import { NO_USAGE } from "../core/usage.ts";
import { createChat, type Chat } from "./chat.ts";
import type { ChatHooks } from "./release.ts";
import { createEcho } from "./echo.ts";
import { createLimiter } from "./limiter.ts";

/** Pauses between passes take no time. */
const quick: Clock = {
  ...w.clock,
  sleep: (_ms, signal) => (signal?.aborted === true ? Promise.reject(signal.reason as Error) : Promise.resolve()),
};

const done = (provider: string, text: string): ChatEvent[] => [
  { type: "start" },
  { type: "text_start", contentIndex: 0 },
  { type: "text_delta", contentIndex: 0, delta: text },
  { type: "done", message: message(provider, text) },
];
const message = (provider: string, text: string): AssistantMessage => ({
  role: "assistant",
  content: [{ type: "text", text }],
  api: "fake",
  provider,
  model: "m",
  usage: { ...NO_USAGE, input: 10, output: 5 },
  stopReason: "stop",
  timestamp: 1,
});
const error = (failure: ChatFailure): ChatEvent => ({
  type: "error",
  message: { ...message("x", ""), content: [], usage: NO_USAGE, stopReason: "error", errorMessage: failure.message },
  failure,
});

type Script = (attempt: number, signal: AbortSignal) => AsyncIterable<ChatEvent> | Iterable<ChatEvent>;

interface Rig {
  readonly chat: Chat;
  readonly asked: string[];
  readonly audit: ReturnType<typeof w.memoryAudit>;
  readonly log: ReturnType<typeof w.memoryLog>;
  readonly limiter: ReturnType<typeof createLimiter>;
  readonly ledger: ReturnType<typeof w.memoryLedger>;
  readonly request: RoadRequest;
  readonly run: (more?: Partial<RoadRequest>, signal?: AbortSignal) => Promise<ChatEvent[]>;
}

interface Setting {
  readonly agent?: Agent;
  readonly providers?: Provider[];
  readonly hooks?: Partial<ChatHooks>;
  readonly secrets?: Record<string, string>;
  readonly shelf?: ReturnType<typeof w.memoryShelf>;
  readonly clock?: Clock;
}

/** Providers named in `scripts` answer by script; `provider.m` is their only model. */
function rig(scripts: Record<string, Script>, setting: Setting = {}): Rig {
  const names = Object.keys(scripts);
  const asked: string[] = [];
  const llm: Llm = {
    async *stream(target, _context, _options, signal) {
      asked.push(target.provider);
      const script = scripts[target.provider];
      if (script !== undefined) yield* script(asked.filter((name) => name === target.provider).length, signal);
    },
  };
  const agent =
    setting.agent ??
    w.agent(
      "dev",
      names.map((name) => [name, "m"]),
    );
  const providers =
    setting.providers ??
    names.map((name) => w.provider(name, { api: "openai-completions", baseUrl: "http://127.0.0.1:1", concurrency: 1 }));
  const [audit, log, limiter, ledger] = [w.memoryAudit(), w.memoryLog(), createLimiter(w.clock), w.memoryLedger()];
  const deps = {
    directory: w.directory([agent], providers),
    ledger,
    llm: () => llm,
    secrets: w.memorySecrets(setting.secrets),
    hooks: { ...w.noHooks, ...setting.hooks },
    audit,
    limiter,
    log,
    random: w.random,
  };
  const chat = createChat({ ...deps, shelf: setting.shelf ?? w.memoryShelf(), clock: setting.clock ?? quick });
  const request: RoadRequest = {
    agent: w.idOf(agent),
    principal: { kind: "operator" },
    context: { messages: [{ role: "user", content: "hi", timestamp: 1 }] },
    options: { thinking: "off" },
  };
  return {
    chat,
    asked,
    audit,
    log,
    limiter,
    ledger,
    request,
    run: async (more, signal) => (await w.all(chat({ ...request, ...more }, signal ?? new AbortController().signal))) as ChatEvent[],
  };
}

const ends = (events: readonly ChatEvent[]): ChatEvent[] => events.filter((event) => event.type === "done" || event.type === "error");
const failureOf = (events: readonly ChatEvent[]): ChatFailure | undefined => {
  const last = events.at(-1);
  return last?.type === "error" ? last.failure : undefined;
};
const idle = (at: Rig): void => {
  for (const name of ["a", "b", "c"]) expect(at.limiter.seen(name)).toMatchObject({ used: 0, waiting: 0 });
};
const outcomes = (at: Rig): unknown[] => at.audit.rows.filter((row) => row.phase === "end").map((row) => [row.tool, row.outcome]);

test("an answer streams as it comes, named, priced and recorded", async () => {
  const price = { input: 1_000_000, output: 0, cacheRead: 0, cacheWrite: 0 };
  const providers = [w.provider("a", { api: "openai-completions", baseUrl: "http://x", models: [w.facts("m", { cost: price })] })];
  const at = rig({ a: () => done("a", "hello") }, { providers });
  const events = await at.run({ session: "cli:x" });
  expect(events[0]).toEqual({ type: "start", provider: "a", model: "m", fallback: false });
  expect(events.slice(1).map((event) => event.type)).toEqual(["text_start", "text_delta", "done"]);
  expect(events.at(-1)).toMatchObject({ message: { usage: { cost: { total: 10 } } } });
  expect(at.audit.rows.map((row) => row.phase)).toEqual(["begin", "end"]);
  expect(at.audit.rows[1]).toMatchObject({
    agent: "dev",
    type: "llm",
    tool: "a/m",
    principal: "operator",
    session: "cli:x",
    outcome: "ok",
    outputBytes: 5,
    usage: { input: 10, output: 5, costUsd: 10, waitMs: 0 },
  });
  idle(at);
});

test("a reader that stops at the last event still gets its answer recorded as ok", async () => {
  const at = rig({ a: () => done("a", "hello") });
  for await (const event of at.chat(at.request, new AbortController().signal)) if (event.type === "done") break;
  expect(outcomes(at)).toEqual([["a/m", "ok"]]);
  idle(at);
});

test("two models that fail are asked six times at most, and one error is all that is seen (P95)", async () => {
  const at = rig({ a: () => [error({ status: 529, message: "Overloaded" })], b: () => [error({ message: "Connection error" })] });
  const events = await at.run();
  expect(at.asked).toEqual(["a", "b", "a", "b", "a", "b"]);
  expect(events.map((event) => event.type)).toEqual(["error"]);
  expect(failureOf(events)).toMatchObject({
    code: "unavailable",
    message: "no model of agent 'dev' answered (a/m: Overloaded; b/m: Connection error)",
  });
  expect(at.audit.rows.filter((row) => row.phase === "end").map((row) => row.usage?.["status"])).toEqual([
    529,
    undefined,
    529,
    undefined,
    529,
    undefined,
  ]);
  idle(at);
});

test("an overload that clears is answered by the first model in the next pass", async () => {
  const at = rig({
    a: (n) => (n === 1 ? [error({ status: 529, message: "Overloaded" })] : done("a", "hi")),
    b: () => [error({ status: 500, message: "oops" })],
  });
  expect((await at.run()).at(-1)?.type).toBe("done");
  expect(at.asked).toEqual(["a", "b", "a"]);
});

test.each([400, 401, 403, 404, 422])("status %i ends the request at once", async (status) => {
  const at = rig({ a: () => [error({ status, message: "no" })], b: () => done("b", "never") });
  const events = await at.run();
  expect(at.asked).toEqual(["a"]);
  expect(failureOf(events)?.code).toBe({ 400: "invalid", 401: "denied", 403: "denied", 404: "not_found", 422: "invalid" }[status]);
  idle(at);
});

test("a 429 at the first read of the stream goes to the next model and keeps everybody from the first (P85)", async () => {
  const shelf = w.memoryShelf();
  const at = rig(
    {
      a: () => [
        { type: "start" },
        { type: "text_start", contentIndex: 0 },
        { type: "text_delta", contentIndex: 0, delta: "" },
        error({ status: 429, message: "slow down", retryAfterMs: 60_000 }),
      ],
      b: () => done("b", "hi"),
    },
    { shelf },
  );
  const events = await at.run();
  expect(events.map((event) => event.type)).toEqual(["start", "text_start", "text_delta", "done"]);
  expect(events[0]).toMatchObject({ provider: "b", fallback: true });
  await at.run();
  expect(at.asked).toEqual(["a", "b", "b"]);
  // The next process knows it too.
  const next = rig({ a: () => done("a", "hi"), b: () => done("b", "hi") }, { shelf });
  await next.run();
  expect(next.asked).toEqual(["b"]);
  expect(next.chat.providers.seen("a").models).toMatchObject([{ id: "m", failures: 1, lastError: "slow down" }]);
  next.chat.providers.forget("a");
  await next.run();
  expect(next.asked).toEqual(["b", "a"]);
});

test("when every model cools the soonest end is told, and nobody is asked (P93)", async () => {
  const at = rig({
    a: () => [error({ status: 429, message: "x", retryAfterMs: 90_000 })],
    b: () => [error({ status: 429, message: "y", retryAfterMs: 30_000 })],
  });
  for (const expected of [2, 2]) {
    const failure = failureOf(await at.run());
    expect(failure?.code).toBe("exhausted");
    expect(failure?.retryAfterMs).toBeGreaterThan(29_000);
    expect(failure?.retryAfterMs).toBeLessThanOrEqual(30_000);
    expect(at.asked.length).toBe(expected);
  }
});

test("a stream that dies before content falls back; one that dies after it ends with a cut answer and its usage (P87)", async () => {
  const at = rig({ a: () => [{ type: "start" }, { type: "text_start", contentIndex: 0 }], b: () => done("b", "hi") });
  expect((await at.run()).at(-1)?.type).toBe("done");
  expect(at.asked).toEqual(["a", "b"]);

  const parts: ChatEvent[] = [
    { type: "text_start", contentIndex: 0 },
    ...Array.from({ length: 20 }, (): ChatEvent => ({ type: "text_delta", contentIndex: 0, delta: "x" })),
  ];
  const cut = rig({ a: () => parts, b: () => done("b", "never") });
  const events = await cut.run();
  expect(ends(events)).toMatchObject([
    { type: "error", message: { stopReason: "error", content: [{ text: "x".repeat(20) }] }, failure: { partial: true } },
  ]);
  expect(cut.asked).toEqual(["a"]);

  const said = { ...error({ message: "terminated" }), message: { ...message("a", "xx"), stopReason: "error" as const } } as ChatEvent;
  const counted = rig({ a: () => [...parts, said] });
  await counted.run();
  expect(counted.audit.rows.at(-1)).toMatchObject({ outcome: "failed", outputBytes: 20, usage: { input: 10, output: 5 } });
  idle(counted);
});

test("a provider that throws, or floods with empty events, is a failure like any other", async () => {
  async function* flood(): AsyncGenerator<ChatEvent> {
    while (true) yield { type: "text_delta", contentIndex: 0, delta: "" };
  }
  const throwing = (): Iterable<ChatEvent> => {
    throw new Error("boom");
  };
  const at = rig({ a: throwing, b: () => flood(), c: () => done("c", "hi") });
  expect((await at.run()).at(-1)?.type).toBe("done");
  expect(at.asked).toEqual(["a", "b", "c"]);
  idle(at);
});

test("a silent provider is given up after its time, and the next one answers", async () => {
  const silent: Script = () => ({ [Symbol.asyncIterator]: () => ({ next: () => new Promise<never>(() => undefined) }) });
  const providers = [
    w.provider("a", { api: "openai-completions", baseUrl: "http://x", concurrency: 1, timeoutSeconds: 0.05 }),
    w.provider("b", { api: "openai-completions", baseUrl: "http://x" }),
  ];
  const at = rig({ a: silent, b: () => done("b", "hi") }, { providers, clock: w.clock });
  expect((await at.run()).at(-1)?.type).toBe("done");
  expect(outcomes(at)).toEqual([
    ["a/m", "timeout"],
    ["b/m", "ok"],
  ]);
  idle(at);
});

test("an abort ends the stream with an error event, frees the slot at once and is recorded, even if the provider does not notice", async () => {
  const stubborn: Script = () => ({ [Symbol.asyncIterator]: () => ({ next: () => new Promise<never>(() => undefined) }) });
  const at = rig({ a: stubborn });
  const gone = new AbortController();
  setTimeout(() => gone.abort(new BeigeError("timeout", "enough")), 20);
  const events = await at.run({}, gone.signal);
  expect(events).toMatchObject([{ type: "error", message: { stopReason: "aborted" }, failure: { code: "timeout", message: "enough" } }]);
  expect(outcomes(at)).toEqual([["a/m", "cancelled"]]);
  idle(at);
});

test("a reader that breaks off frees the slot and leaves an end row", async () => {
  async function* endless(): AsyncGenerator<ChatEvent> {
    while (true) {
      yield { type: "text_delta", contentIndex: 0, delta: "x" };
      await new Promise((next) => setImmediate(next));
    }
  }
  const at = rig({ a: () => endless() });
  let seen = 0;
  for await (const event of at.chat(at.request, new AbortController().signal)) if (event.type === "text_delta" && ++seen === 3) break;
  expect(outcomes(at)).toEqual([["a/m", "cancelled"]]);
  idle(at);
});

test("a reader that only stops reading loses its slot when its signal fires", async () => {
  const at = rig({ a: () => done("a", "hi") });
  const gone = new AbortController();
  const events = at.chat(at.request, gone.signal)[Symbol.asyncIterator]();
  await events.next();
  expect(at.limiter.seen("a").used).toBe(1);
  gone.abort();
  idle(at);
});

test("one who waits for a slot and gives up leaves no row and no slot", async () => {
  const at = rig({ a: () => done("a", "hi") });
  const held = await at.limiter.slot("a", 1, new AbortController().signal);
  const gone = new AbortController();
  setTimeout(() => gone.abort(), 10);
  expect(await at.run({}, gone.signal)).toMatchObject([{ type: "error", message: { stopReason: "aborted" } }]);
  held[Symbol.dispose]();
  expect(at.audit.rows).toEqual([]);
  idle(at);
});

test("10,000 requests of every fate end with nothing held and a begin and an end row each (P89)", async () => {
  const hang: Script = (_, signal) => ({
    [Symbol.asyncIterator]: () => ({
      next: () => new Promise<never>((_done, fail) => signal.addEventListener("abort", () => fail(new Error("gone")))),
    }),
  });
  const fates: Script[] = [
    () => done("a", "hi"),
    () => [error({ status: 500, message: "5xx" })],
    () => [error({ status: 404, message: "4xx" })],
    () => {
      throw new Error("thrown");
    },
    () => [{ type: "text_delta", contentIndex: 0, delta: "cut" }],
    hang,
  ];
  const at = rig(
    { a: (n, signal) => fates[n % fates.length]?.(n, signal) ?? [] },
    { providers: [w.provider("a", { api: "openai-completions", baseUrl: "http://x", concurrency: 20 })] },
  );
  const one = async (n: number): Promise<void> => {
    const gone = new AbortController();
    if (n % 2 === 0) setTimeout(() => gone.abort(), n % 50);
    else setTimeout(() => gone.abort(), 2000);
    for await (const event of at.chat(at.request, gone.signal)) if (n % 11 === 0 && event.type === "text_delta") break;
  };
  await Promise.all(Array.from({ length: 10_000 }, (_, n) => one(n)));
  idle(at);
  const begun = at.audit.rows.filter((row) => row.phase === "begin").map((row) => row.call);
  const ended = at.audit.rows.filter((row) => row.phase === "end").map((row) => row.call);
  expect(new Set(ended)).toEqual(new Set(begun));
  expect(ended.length).toBe(begun.length);
  expect(begun.length).toBeGreaterThan(1000);
}, 60_000);

test("without an audit row nothing is sent", async () => {
  const at = rig({ a: () => done("a", "hi"), b: () => done("b", "hi") });
  at.audit.broken = true;
  expect(failureOf(await at.run())).toMatchObject({ code: "internal" });
  expect(at.asked).toEqual([]);
  idle(at);
});

test("a hook can refuse the request, and can change the user's words for the model alone", async () => {
  const denied = rig({ a: () => done("a", "hi") }, { hooks: { prePrompt: () => Promise.resolve({ deny: "not at night" }) } });
  expect(failureOf(await denied.run())).toMatchObject({ code: "denied", message: "prompt refused: not at night" });
  expect(denied.asked).toEqual([]);
  expect(denied.audit.rows).toMatchObject([{ phase: "denied", decision: "denied", error: "not at night" }]);

  const providers = [w.echoProvider("a", [])];
  const agent = w.agent("dev", [["a", "m"]]);
  const deps = {
    directory: w.directory([agent], providers),
    llm: () => createEcho(w.clock),
    ledger: w.memoryLedger(),
    secrets: w.memorySecrets(),
    audit: w.memoryAudit(),
    limiter: createLimiter(w.clock),
    log: w.memoryLog(),
    random: w.random,
    shelf: w.memoryShelf(),
    clock: w.clock,
  };
  const chat = createChat({ ...deps, hooks: { ...w.noHooks, prePrompt: ({ text }) => Promise.resolve({ text: text.toUpperCase() }) } });
  const context = { messages: [{ role: "user" as const, content: "hi", timestamp: 1 }] };
  const events = await w.all(
    chat({ agent: w.idOf(agent), principal: { kind: "operator" }, context, options: { thinking: "off" } }, new AbortController().signal),
  );
  expect(events.at(-1)).toMatchObject({ message: { content: [{ text: "HI" }] } });
  expect(context.messages[0]?.content).toBe("hi");
});

test("observers hear of answers and of a switched model, and cannot disturb", async () => {
  const heard: unknown[] = [];
  const hooks: Partial<ChatHooks> = {
    postResponse: (input) => Promise.resolve(void heard.push(["answer", input.text, input.provider])),
    modelSwitched: (input) => {
      heard.push(["switch", input.from, input.to]);
      return Promise.reject(new Error("hook broke"));
    },
  };
  const at = rig({ a: () => [error({ status: 500, message: "x" })], b: () => done("b", "hi") }, { hooks });
  expect((await at.run()).at(-1)?.type).toBe("done");
  expect(heard).toEqual([
    ["answer", "hi", "b"],
    ["switch", "a/m", "b/m"],
  ]);
});

const texts = (events: readonly ChatEvent[]): string[] => events.flatMap((event) => ("delta" in event ? [event.delta] : []));

test("a hook that reads answers has each whole before anybody else, and its text is what is heard and told", async () => {
  const [seen, heard]: [string[], string[]] = [[], []];
  const hooks: Partial<ChatHooks> = {
    holds: () => true,
    preResponse: ({ text }) => (seen.push(text), Promise.resolve({ text: text.replace("4711", "***") })),
    postResponse: ({ text }) => Promise.resolve(void heard.push(text)),
  };
  const at = rig({ a: () => done("a", "key 4711") }, { hooks });
  const events = await at.run();
  expect([seen, heard, texts(events)]).toEqual([["key 4711"], ["key ***"], ["key ***"]]);
  expect(events.map(({ type }) => type)).toEqual(["start", "text_start", "text_delta", "text_end", "done"]);
  expect(events.at(-1)).toMatchObject({ message: { content: [{ type: "text", text: "key ***" }] } });
  expect(JSON.stringify(events)).not.toContain("4711");
});

test("an answer that a hook withholds reaches nobody, is paid, and is on the record", async () => {
  const hooks: Partial<ChatHooks> = { holds: () => true, preResponse: () => Promise.resolve({ deny: "it tells too much" }) };
  const at = rig({ a: () => done("a", "key 4711") }, { hooks });
  const events = await at.run();
  expect(failureOf(events)).toMatchObject({ code: "denied", message: "answer withheld: it tells too much" });
  expect(JSON.stringify(events)).not.toContain("4711");
  expect(at.audit.rows.map(({ phase, outcome }) => [phase, outcome])).toEqual([
    ["begin", undefined],
    ["end", "ok"],
    ["denied", undefined],
  ]);
});

test("of an answer that is cut nobody gets what no hook has read", async () => {
  const cut = [{ type: "text_delta", contentIndex: 0, delta: "key 47" } as const, error({ message: "cut" })];
  const at = rig({ a: () => cut }, { hooks: { holds: () => true, preResponse: ({ text }) => Promise.resolve({ text }) } });
  const events = await at.run();
  expect(failureOf(events)).toMatchObject({ partial: true });
  expect(JSON.stringify(events)).not.toContain("key 47");
});

test("an override goes first when it is the agent's own, and is refused when it is not", async () => {
  const at = rig({ a: () => done("a", "hi"), b: () => done("b", "hi") });
  await at.run({ model: { provider: "b", id: "m" } });
  expect(at.asked).toEqual(["b"]);
  expect(failureOf(await at.run({ model: { provider: "b", id: "other" } }))).toMatchObject({ code: "denied" });
});

test("a viewer, a stranger, a suspended and a vanishing agent are told why not", async () => {
  const at = rig({ a: () => done("a", "hi") });
  expect(failureOf(await at.run({ principal: { kind: "viewer" } }))).toMatchObject({ code: "denied" });
  expect(failureOf(await at.run({ agent: { namespace: "default", name: "nobody", uid: "x" } }))).toMatchObject({ code: "not_found" });
  const suspended = rig({ a: () => [] }, { agent: w.agent("dev", [["a", "m"]], { suspend: true }) });
  expect(failureOf(await suspended.run())).toMatchObject({ code: "denied", message: "agent 'dev' is suspended" });
  const agent = w.agent("dev", [["a", "m"]]);
  const leaving = rig({ a: () => [] }, { agent: { ...agent, metadata: { ...agent.metadata, deletionTimestamp: "2026-01-01T00:00:00Z" } } });
  expect(failureOf(await leaving.run())).toMatchObject({ code: "denied" });
});

test("a key never leaves in an error, an audit row or a log line, even when the provider repeats it", async () => {
  const key = "sk-planted-4711";
  const providers = ["a", "b"].map((name) => w.provider(name, { api: "openai-completions", baseUrl: "http://x", apiKey: { secret: "k" } }));
  const leak = { status: 500, message: `bad key ${key} for ${Buffer.from("x").toString("base64")}` };
  const at = rig({ a: () => [error(leak)], b: () => [error({ ...leak, status: 401 })] }, { providers, secrets: { k: key } });
  const events = await at.run();
  expect(JSON.stringify([events, at.audit.rows, at.log.lines, at.chat.providers.seen("a"), at.chat.providers.seen("b")])).not.toContain(
    key,
  );
  expect(failureOf(events)).toMatchObject({ code: "denied", hint: "check spec.apiKey: beige describe provider b" });
});

test("a key that cannot be had is said, and nothing is sent", async () => {
  const providers = [w.provider("a", { api: "openai-completions", baseUrl: "http://x", apiKey: { secret: "none" } })];
  const at = rig({ a: () => done("a", "never") }, { providers });
  expect(failureOf(await at.run())?.message).toContain("no such secret");
  expect(at.asked).toEqual([]);
  expect(at.chat.providers.seen("a").models).toEqual([]);
});

test("a fallback whose provider is gone is passed over", async () => {
  const agent = w.agent("dev", [
    ["gone", "m"],
    ["a", "m"],
  ]);
  const at = rig({ a: () => done("a", "hi") }, { agent });
  expect((await at.run()).at(-1)?.type).toBe("done");
  const none = rig({ a: () => done("a", "hi") }, { agent: w.agent("dev", [["gone", "m"]]) });
  expect(failureOf(await none.run())).toMatchObject({ code: "not_found", message: "provider 'gone' does not exist" });
});

test("a refusal that repeats the key and the secret part of the address is told and recorded without them", async () => {
  const part = "t0a1b2c3d4e5f60718293a4b5c6d7e8f901";
  const spec = { api: "openai-completions", baseUrl: `http://127.0.0.1:1/${part}/v1`, apiKey: { secret: "key" } } as const;
  const said = error({ status: 401, message: `no such key sk-abcdefgh at /${part}/v1/chat` });
  const at = rig({ a: () => [said] }, { providers: [w.provider("a", spec)], secrets: { key: "sk-abcdefgh" } });
  const all = JSON.stringify([await at.run(), at.audit.rows]);
  expect(all).toContain("no such key [secret] at /[secret]/v1/chat");
  expect(all).not.toContain("sk-abcdefgh");
  expect(all).not.toContain(part);
});
