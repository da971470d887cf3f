import { expect, test } from "vitest";
import * as w from "../../test/llm/world.ts";
import { begin, delta, refuses, roadTo, says, serve, stream, textOf, type Road } from "../../test/road/provider.ts";
import { BeigeError } from "../core/errors.ts";
import type { ChatFailure } from "../core/chat.ts";
import type { RoadEvent, RoadRequest } from "../core/road.ts";
import { rig } from "../../test/llm/rig.ts";

const failureOf = (events: readonly RoadEvent[]): ChatFailure | undefined => {
  const last = events.at(-1);
  return last?.type === "error" ? last.failure : undefined;
};
const types = (events: readonly RoadEvent[]): string[] => [...new Set(events.map((event) => event.type))];
const ended = (road: Road): unknown[] => road.audit.rows.filter((row) => row.phase === "end").map((row) => [row.tool, row.outcome]);
const still = (road: Road): void => {
  for (const name of ["a", "b"]) expect(road.limiter.seen(name)).toMatchObject({ used: 0, waiting: 0 });
  expect(road.ledger.open.size).toBe(0);
};
const asWhole: RoadRequest["wire"] = { api: "openai-completions", body: { messages: [] }, stream: false };
const later = (ms: number): Promise<void> => new Promise((done) => setTimeout(done, ms));

test("an operator asks one model in its own format: bytes as they came, one row with the request's id, reserved and settled", async () => {
  await using server = await serve(says("hel", "lo"));
  const road = roadTo([server]);
  const events = await road.run(road.bare({ request: "req-1", session: "api:x" }));
  expect(events[0]).toEqual({ type: "start", provider: "a", model: "m", fallback: false, wire: true });
  expect(types(events)).toEqual(["start", "wire", "done"]);
  expect(textOf(events)).toContain('"content":"hel"');
  expect(textOf(events).endsWith("data: [DONE]\n\n")).toBe(true);
  expect(server.asked[0]?.body).toMatchObject({ model: "m", messages: [{ role: "user", content: "hi" }] });
  expect(road.audit.rows).toMatchObject([
    { phase: "begin", agent: "", tool: "a/m", principal: "operator", request: "req-1", session: "api:x" },
    { phase: "end", outcome: "ok", request: "req-1", usage: { input: 12, output: 7, costUsd: (12 * 3 + 7 * 15) / 1e6 } },
  ]);
  const settled = road.ledger.rows[0];
  expect(settled).toMatchObject({
    how: "answered",
    usage: { input: 12, output: 7 },
    spend: { provider: "a", model: "m", session: "api:x" },
  });
  // The body's bytes / 3 and the model's longest answer.
  expect(settled?.spend.tokens).toBeGreaterThan(1000);
  expect(settled?.spend.tokens).toBeLessThan(1050);
  expect(settled?.spend.usd).toBeCloseTo(((settled?.spend.tokens ?? 0) - 1000) * 3e-6 + 1000 * 15e-6, 9);
  still(road);
});

test("without stream the whole body comes as one event", async () => {
  await using server = await serve(says("hello"));
  const road = roadTo([server]);
  const events = await road.run(road.bare({ wire: asWhole }));
  expect(events.map((event) => event.type)).toEqual(["start", "wire", "done"]);
  expect(JSON.parse(textOf(events))).toMatchObject({ choices: [{ message: { content: "hello" } }] });
});

test("many requests share a few connections: an answered one keeps its own", async () => {
  await using server = await serve(says("x"));
  const road = roadTo([server]);
  const ports = new Set<unknown>();
  server.answer = (response, asked) => {
    ports.add(response.socket?.remotePort);
    says("x")(response, asked);
  };
  for (let n = 0; n < 20; n++) await road.run(road.bare());
  expect(ports.size).toBeLessThanOrEqual(2);
});

test("who may not is refused before anything is sent, and that is recorded", async () => {
  await using server = await serve(says("never"));
  const road = roadTo([server]);
  const { metadata } = road.agent;
  const agent = { namespace: metadata.namespace, name: metadata.name, uid: metadata.uid };
  const refused: Partial<RoadRequest>[] = [
    { principal: { kind: "viewer" } },
    { principal: { kind: "caller", key: "k", agents: ["*"] } },
    { principal: { kind: "caller", key: "k", agents: ["other"] }, agent },
    { principal: { kind: "agent", uid: "another", attribution: "direct" }, agent },
    { agent, model: { provider: "a", id: "not-listed" } },
  ];
  for (const more of refused) expect(failureOf(await road.run(road.bare(more)))).toMatchObject({ code: "denied" });
  expect(road.audit.rows.map((row) => [row.phase, row.decision])).toEqual(refused.map(() => ["denied", "denied"]));
  expect(server.asked).toEqual([]);
  const allowed = await road.run(road.bare({ principal: { kind: "caller", key: "k", agents: ["dev"] }, agent }));
  expect(allowed.at(-1)?.type).toBe("done");
  expect(road.ledger.rows).toMatchObject([{ spend: { key: "k", agent } }]);
});

test("a provider of another format answers for one that fails; the context is made once, when it is needed", async () => {
  await using server = await serve(refuses(500));
  const road = roadTo([server], { providers: [w.echoProvider("e", [])] });
  let made = 0;
  const context = (): RoadRequest["context"] & object => {
    made += 1;
    return { messages: [{ role: "user", content: "made", timestamp: 1 }] };
  };
  const request = road.bare({ agent: w.idOf(road.agent), context: context as () => never });
  const events = await road.run(request);
  expect(events[0]).toEqual({ type: "start", provider: "e", model: "m", fallback: true });
  expect(events.at(-1)).toMatchObject({ type: "done", message: { content: [{ text: "made" }] } });
  expect(made).toBe(1);
  server.answer = says("hi");
  await road.run(request);
  expect(made).toBe(1);
  expect(ended(road)).toEqual([
    ["a/m", "failed"],
    ["e/m", "ok"],
    ["a/m", "ok"],
  ]);
});

test("a body that another format cannot say is asked of its own format alone; where there is none its fault is told", async () => {
  await using server = await serve((response, asked) => (server.asked.length === 1 ? refuses(500) : says("ok"))(response, asked));
  const context = (): never => {
    throw new BeigeError("invalid", "logprobs is not understood");
  };
  const road = roadTo([server], { providers: [w.echoProvider("e", [])] });
  const events = await road.run(road.bare({ agent: w.idOf(road.agent), context }));
  expect(events[0]).toMatchObject({ provider: "a", wire: true });
  expect(events.at(-1)?.type).toBe("done");
  const other = roadTo([], { providers: [w.echoProvider("e", [])] });
  const refused = failureOf(await other.run(other.bare({ agent: w.idOf(other.agent), context, model: { provider: "e", id: "m" } })));
  expect(refused).toMatchObject({ code: "invalid", message: expect.stringContaining("logprobs is not understood") });
  expect(other.audit.rows).toEqual([]);
  still(road);
});

test("an agent whose text is read by a hook is asked with its context, so that the hook sees and changes it", async () => {
  await using server = await serve(says("hi"));
  const heard: string[] = [];
  const hooks = {
    ...w.noHooks,
    reads: () => true,
    prePrompt: ({ text }: { text: string }) => Promise.resolve({ text: `${text}, please` }),
    postResponse: ({ text }: { text: string }) => Promise.resolve(void heard.push(text)),
  };
  const road = roadTo([server], { hooks });
  const events = await road.run(road.bare({ agent: w.idOf(road.agent) }));
  expect(types(events)).not.toContain("wire");
  expect(JSON.stringify(server.asked[0]?.body)).toContain("hi, please");
  expect(heard).toEqual(["hi"]);
  // Nobody's agent, nobody's hooks.
  expect(types(await road.run(road.bare()))).toContain("wire");
});

test("a budget that is used up ends the request at once, and is recorded as a denial", async () => {
  await using server = await serve(says("never"));
  await using other = await serve(says("never"));
  const road = roadTo([server, other]);
  road.ledger.refuse = new BeigeError("exhausted", "the daily budget of agent dev is used up", { hint: "raise it", retryAfterMs: 1000 });
  const events = await road.run(road.bare({ agent: w.idOf(road.agent) }));
  expect(failureOf(events)).toMatchObject({
    code: "exhausted",
    hint: "raise it",
    retryAfterMs: 1000,
    message: expect.stringContaining("used up"),
  });
  expect(road.audit.rows).toMatchObject([{ phase: "denied", decision: "denied", agent: "dev" }]);
  expect([...server.asked, ...other.asked]).toEqual([]);
  still(road);
});

test("the answer is no longer than a listed model gives", async () => {
  await using server = await serve(says("x"));
  const road = roadTo([server]);
  const body = { messages: [], max_tokens: 5000, n: 2 };
  await road.run(road.bare({ wire: { api: "openai-completions", body, stream: true, bytes: 30 } }));
  await road.run(
    road.bare({ model: { provider: "a", id: "unlisted" }, wire: { api: "openai-completions", body, stream: true, bytes: 30 } }),
  );
  expect(server.asked.map((asked) => asked.body["max_tokens"])).toEqual([1000, 5000]);
  expect(road.ledger.rows.map((row) => [row.spend.tokens, row.spend.usd === undefined])).toEqual([
    [2010, false],
    [10_010, true],
  ]);
  expect(body.max_tokens).toBe(5000);
});

test("a context that is too long is told as such, once, and asks nobody else", async () => {
  const words = "This model's maximum context length is 1000 tokens. However, your messages resulted in 2000 tokens.";
  await using server = await serve(refuses(400, words));
  await using other = await serve(says("never"));
  const road = roadTo([server, other]);
  const agent = w.idOf(road.agent);
  for (const more of [{}, { wire: undefined as never }]) {
    expect(failureOf(await road.run(road.bare({ agent, ...more })))).toMatchObject({ overflow: true, code: "invalid", status: 400 });
  }
  expect(server.asked.length).toBe(2);
  expect(other.asked.length).toBe(0);
  expect(road.chat.providers.seen("a").models).toMatchObject([{ failures: 0 }]);
});

test("an error inside a 200, a stream that ends without its mark, and a refused connection are answered by the next model", async () => {
  await using server = await serve(refuses(500));
  await using other = await serve(says("from b"));
  const road = roadTo([server, other]);
  const faults: (typeof server.answer)[] = [
    (response) => void begin(response).end('data: {"error":{"message":"Overloaded","code":529}}\n\n'),
    (response) => void begin(response).end('data: {"id":"c","choices":[{"index":0,"delta":{"role":"assistant","content":""}}]}\n\n'),
    (response) => void response.destroy(),
  ];
  for (const fault of faults) {
    server.answer = fault;
    const events = await road.run(road.bare({ agent: w.idOf(road.agent) }));
    expect(textOf(events)).toBe(stream(["from b"]).replace(/data: [^\n]*"choices":\[\],[^\n]*\n\n/, ""));
  }
  expect(ended(road).map(String)).toEqual(faults.flatMap(() => ["a/m,failed", "b/m,ok"]));
});

test("a stream that is cut after content is a partial error with its usage, and nobody else is asked", async () => {
  await using server = await serve((response) => {
    begin(response).write(delta("x".repeat(400)));
    setTimeout(() => response.destroy(), 20);
  });
  await using other = await serve(says("never"));
  const road = roadTo([server, other]);
  const events = await road.run(road.bare({ agent: w.idOf(road.agent) }));
  expect(failureOf(events)).toMatchObject({ partial: true });
  expect(other.asked.length).toBe(0);
  expect(road.audit.rows.at(-1)).toMatchObject({ outcome: "failed", usage: { estimated: 1 } });
  expect(road.ledger.rows[0]).toMatchObject({ how: "failed" });
  expect(road.ledger.rows[0]?.usage.output).toBeGreaterThan(0);
});

test("a long retry-after falls over at once; a short one of the only model is waited for; the soonest end is told", async () => {
  await using server = await serve(refuses(429, "slow down", { "retry-after": "120" }));
  await using other = await serve(says("from b"));
  const road = roadTo([server, other]);
  const since = performance.now();
  expect((await road.run(road.bare({ agent: w.idOf(road.agent) }))).at(-1)?.type).toBe("done");
  expect(performance.now() - since).toBeLessThan(1000);
  const failure = failureOf(await road.run(road.bare()));
  expect(failure?.code).toBe("exhausted");
  expect(failure?.retryAfterMs).toBeGreaterThan(100_000);
  expect(server.asked.length).toBe(1);

  const lone = roadTo([server]);
  server.answer = (response, asked) =>
    (server.asked.length === 2 ? refuses(429, "x", { "retry-after-ms": "300" }) : says("ok"))(response, asked);
  const from = performance.now();
  expect((await lone.run(lone.bare())).at(-1)?.type).toBe("done");
  expect(performance.now() - from).toBeGreaterThan(280);
});

test("retries have one owner: a provider that always fails is asked three times, whichever way the request came", async () => {
  await using server = await serve(refuses(503, "down"));
  const road = roadTo([server]);
  await road.run(road.bare());
  expect(server.asked.length).toBe(3);
  await road.run(road.bare({ wire: undefined as never }));
  expect(server.asked.length).toBe(6);
  const provider = w.provider("p", { api: "openai-completions", baseUrl: server.url, models: [w.facts("m")] });
  const turns = rig({ providers: [provider] });
  expect((await turns.say("hi")).at(-1)?.type).toBe("error");
  expect(server.asked.length).toBe(9);
}, 30_000);

const hangs: Record<string, Parameters<typeof serve>[0]> = {
  "before the first byte": () => undefined,
  "after the headers": (response) => begin(response).flushHeaders(),
  "in mid-stream": (response) => void begin(response).write(delta("hello")),
};
for (const [when, answer] of Object.entries(hangs)) {
  for (const way of ["wire", "whole", "context"] as const) {
    test(`a caller who leaves ${when} (${way}) aborts the provider at once; slot, reservation and row are closed`, async () => {
      await using server = await serve(answer);
      const road = roadTo([server]);
      const gone = new AbortController();
      let leftAt = 0;
      const timer = setInterval(() => {
        if (server.asked.length === 0) return;
        clearInterval(timer);
        setTimeout(() => {
          leftAt = performance.now();
          gone.abort();
          expect(road.limiter.seen("a").used).toBe(0);
        }, 30);
      }, 5);
      const wire = way === "context" ? undefined : way === "whole" ? asWhole : road.bare().wire;
      const events = await road.run(road.bare({ wire: wire as never }), gone.signal);
      expect(events.at(-1)).toMatchObject({ type: "error", message: { stopReason: "aborted" } });
      for (let n = 0; server.left.length === 0 && n < 100; n++) await later(5);
      expect((server.left[0] ?? Infinity) - leftAt).toBeLessThan(100);
      expect(ended(road)).toEqual([["a/m", "cancelled"]]);
      expect(road.ledger.rows).toMatchObject([{ how: "cancelled" }]);
      // What is not known counts: the input, and a whole answer that nobody saw at its longest.
      expect(road.ledger.rows[0]?.usage.input).toBeGreaterThan(0);
      if (way === "whole") expect(road.ledger.rows[0]?.usage.output).toBe(1000);
      still(road);
    });
  }
}

test("a reader that walks away while the provider is silent lets it go at once", async () => {
  await using server = await serve((response) => void begin(response).write(delta("hello")));
  const road = roadTo([server]);
  const events = road.chat(road.bare(), new AbortController().signal)[Symbol.asyncIterator]();
  await events.next();
  await events.next();
  const pending = events.next();
  await events.return?.();
  await pending;
  for (let n = 0; server.left.length === 0 && n < 100; n++) await later(5);
  expect(server.left.length).toBe(1);
  expect(ended(road)).toEqual([["a/m", "cancelled"]]);
  still(road);
});
