// Every API type x every failure x every way of asking, through the one road: who answers, what the caller sees, what is recorded.
import { afterAll, expect, test } from "vitest";
import { createPi } from "../../src/adapters/pi.ts";
import { createRelay } from "../../src/adapters/relay.ts";
import type { ChatEvent, ChatFailure } from "../../src/core/chat.ts";
import type { RoadEvent, WireApi } from "../../src/core/road.ts";
import { createChat } from "../../src/gateway/chat.ts";
import { createLimiter } from "../../src/gateway/limiter.ts";
import { FAULTS, type Fault, type Outcome, type Way } from "./faults.ts";
import { APIS, SPOKEN, type Api } from "./formats.ts";
import { answerWith, sse, startWire, type Handler, type Wire } from "./wire.ts";
import * as w from "./world.ts";

const KEY = "sk-planted-4711";
const pi = createPi({ log: w.memoryLog() });
const relay = createRelay({ eventBytes: 2_000_000, wholeBytes: 2_000_000 });
const servers = { first: await startWire(() => undefined), next: await startWire(() => undefined) };
const table: Record<string, Record<string, string>> = {};
afterAll(async () => {
  console.table(table);
  await servers.first[Symbol.asyncDispose]();
  await servers.next[Symbol.asyncDispose]();
});

const SHORT: Readonly<Record<Api, string>> = {
  "openai-completions": "compl",
  "openai-responses": "resp",
  "anthropic-messages": "anth",
  "google-generative-ai": "google",
};
const WAYS: readonly (readonly [Api, Way])[] = APIS.flatMap((api) =>
  (api === "google-generative-ai" ? (["sdk"] as const) : (["sdk", "stream", "whole"] as const)).map((way) => [api, way] as const),
);

interface Seen {
  readonly events: readonly RoadEvent[];
  readonly last: ChatEvent | undefined;
  readonly text: string;
  readonly failure: ChatFailure | undefined;
  readonly rows: readonly w.Row[];
  readonly held: number;
  readonly open: number;
}

const base = (wire: Wire, api: Api): string => `${wire.origin}${SPOKEN[api].base}`;
const nowhere = "http://127.0.0.1:1";

async function onTheRoad(api: Api, way: Way, fault: Fault): Promise<Seen> {
  const [audit, limiter, ledger] = [w.memoryAudit(), createLimiter(w.clock), w.memoryLedger()];
  const agent = w.agent("dev", [
    ["first", "m"],
    ["next", "m"],
  ]);
  const common = { api, apiKey: { secret: "k" }, concurrency: 1 };
  const chat = createChat({
    directory: w.directory(
      [agent],
      [
        w.provider("first", {
          ...common,
          baseUrl: fault.refused === true ? `${nowhere}${SPOKEN[api].base}` : base(servers.first, api),
          timeoutSeconds: fault.timeoutSeconds ?? 20,
        }),
        w.provider("next", { ...common, baseUrl: base(servers.next, api), timeoutSeconds: 20 }),
      ],
    ),
    llm: () => pi.llm,
    relay,
    ledger,
    secrets: w.memorySecrets({ k: KEY }),
    hooks: w.noHooks,
    audit,
    limiter,
    shelf: w.memoryShelf(),
    clock: w.clock,
    random: w.random,
    log: w.memoryLog(),
  });
  const wire = { api: api as WireApi, body: SPOKEN[api].ask(way === "stream"), stream: way === "stream" };
  const events = await w.all(
    chat(
      {
        principal: { kind: "operator" },
        agent: w.idOf(agent),
        context: { messages: [{ role: "user", content: "hi", timestamp: 1 }] },
        options: { thinking: "off" },
        ...(way === "sdk" ? {} : { wire }),
      },
      new AbortController().signal,
    ),
  );
  const last = events.at(-1);
  return {
    events,
    last: last === undefined || last.type === "wire" ? undefined : last,
    text: events
      .map((event) => (event.type === "text_delta" ? event.delta : event.type === "wire" ? Buffer.from(event.bytes).toString() : ""))
      .join(""),
    failure: last?.type === "error" ? last.failure : undefined,
    rows: audit.rows,
    held: limiter.seen("first").used + limiter.seen("next").used + limiter.seen("first").waiting,
    open: ledger.open.size,
  };
}

const kindOf = (seen: Seen): Outcome | "broken" => {
  const start = seen.events.find((event) => event.type === "start");
  if (seen.last?.type === "done") return start?.provider === "next" ? "next" : "first";
  if (seen.last?.type !== "error") return "broken";
  return seen.failure?.partial === true ? "cut" : "stop";
};

function check(seen: Seen, fault: Fault, way: Way): void {
  const wanted = way === "whole" ? (fault.whole ?? fault.outcome) : fault.outcome;
  expect(kindOf(seen), JSON.stringify(seen.failure ?? seen.last)).toBe(wanted);
  const ends = seen.rows.filter((row) => row.phase === "end");
  // Every attempt has its begin and its end, and one request was made for each.
  expect(seen.rows.filter((row) => row.phase === "begin").length).toBe(ends.length);
  expect(servers.first.asked.length).toBe(fault.refused === true ? 0 : 1);
  expect(servers.next.asked.length).toBe(wanted === "next" ? 1 : 0);
  expect(ends.map((row) => row.exitCode)).toEqual(wanted === "first" ? [0] : wanted === "next" ? [1, 0] : [1]);
  if (fault.status !== undefined) expect(ends[0]?.usage).toMatchObject({ status: fault.status });
  expect([seen.held, seen.open]).toEqual([0, 0]);
  if (seen.last?.type === "done") expect(seen.last.message.usage).toMatchObject({ input: 12, output: 7 });
  if (wanted === "next") expect(seen.text).toContain("after all");
  if (wanted === "next") expect(seen.text).not.toContain("Hel");
  if (wanted === "cut") expect(seen.text).toContain("Hel");
  expect(JSON.stringify([seen.events, seen.rows])).not.toContain(KEY);
}

test.each(WAYS)("%s by %s: every failure ends as it must", { timeout: 60_000 }, async (api, way) => {
  const wrong: unknown[] = [];
  for (const fault of FAULTS) {
    servers.first.asked.length = 0;
    servers.next.asked.length = 0;
    servers.first.handler = fault.handler(api, way);
    servers.next.handler = (response) => {
      if (way !== "whole") return answerWith(SPOKEN[api].text(["after all"]))(response, servers.next.asked[0] as never);
      response.writeHead(200, { "content-type": "application/json" }).end(SPOKEN[api].whole?.("after all"));
    };
    const seen = await onTheRoad(api, way, fault);
    (table[fault.name] ??= {})[`${SHORT[api]} ${way}`] = kindOf(seen);
    try {
      check(seen, fault, way);
    } catch (error) {
      wrong.push(`${fault.name}: ${error instanceof Error ? error.message : String(error)}`);
    }
  }
  expect(wrong).toEqual([]);
});

const KEY_HEADER: Readonly<Record<Api, readonly [string, string]>> = {
  "openai-completions": ["authorization", `Bearer ${KEY}`],
  "openai-responses": ["authorization", `Bearer ${KEY}`],
  "anthropic-messages": ["x-api-key", KEY],
  "google-generative-ai": ["x-goog-api-key", KEY],
};

test.each(APIS)("%s by the SDK: text, thoughts, tools, images and the key are where the format has them", async (api) => {
  const { first } = servers;
  first.asked.length = 0;
  const model = w.facts("m", { input: ["text", "image"], reasoning: true, cost: { input: 1, output: 2, cacheRead: 0, cacheWrite: 0 } });
  const target = { provider: "p", api, baseUrl: base(first, api), apiKey: KEY, model, timeoutMs: 5000 };
  const image = { type: "image" as const, data: "aW1hZ2U=", mimeType: "image/png" };
  const context = {
    systemPrompt: "be good",
    messages: [{ role: "user" as const, content: [{ type: "text" as const, text: "look" }, image], timestamp: 1 }],
    tools: [{ name: "exec", description: "run", parameters: { type: "object", properties: { command: { type: "string" } } } }],
  };
  const ask = async (bytes: string): Promise<readonly ChatEvent[]> => {
    first.handler = answerWith(bytes);
    return await w.all(pi.llm.stream(target, context, { thinking: "low" }, new AbortController().signal));
  };
  const thought = (await ask(SPOKEN[api].thinking("hm", "ok"))).at(-1);
  expect(thought).toMatchObject({
    type: "done",
    message: { api, stopReason: "stop", usage: { input: 12, output: 7 }, content: [{ thinking: "hm" }, { text: "ok" }] },
  });
  expect(thought?.type === "done" ? thought.message.usage.cost.total : 0).toBeCloseTo(26e-6, 9);
  expect((await ask(SPOKEN[api].tool("exec", { command: "id && ls" }))).at(-1)).toMatchObject({
    type: "done",
    message: { stopReason: "toolUse", content: [{ type: "toolCall", name: "exec", arguments: { command: "id && ls" } }] },
  });
  const [asked] = first.asked;
  const [header, value] = KEY_HEADER[api];
  // The SDK asks Anthropic for the same through its path of previews.
  expect(asked?.path.replace("?beta=true", "")).toBe(SPOKEN[api].streamPath);
  expect(asked?.headers[header]).toBe(value);
  const sent = JSON.stringify(asked?.body);
  for (const part of ["be good", "look", "aW1hZ2U=", "image/png", '"exec"']) expect(sent).toContain(part);
  expect(sent).not.toContain(KEY);
});

const mute =
  (bytes: Buffer, at: number): Handler =>
  (response) => {
    sse(response);
    response.end(bytes.subarray(0, at));
  };

/** What must have come for the answer to be whole: the text and the reason of its end. */
const NEEDED: Readonly<Record<Api, string>> = {
  "openai-completions": '"finish_reason":"stop"}]}',
  "openai-responses": '"total_tokens":19}}}',
  "anthropic-messages": '{"type":"message_stop"}',
  "google-generative-ai": '"responseId":"r1"}',
};

test.each(APIS)(
  "%s by the SDK: an answer that is cut at any byte never ends cleanly unless it was whole",
  { timeout: 60_000 },
  async (api) => {
    const bytes = Buffer.from(SPOKEN[api].text(["Hel", "lo"]));
    const enough = bytes.lastIndexOf(NEEDED[api]) + NEEDED[api].length;
    const wrong: string[] = [];
    for (let at = 0; at <= bytes.length; at++) {
      servers.first.handler = mute(bytes, at);
      const target = { provider: "p", api, baseUrl: base(servers.first, api), apiKey: KEY, model: w.facts("m"), timeoutMs: 5000 };
      const context = { messages: [{ role: "user" as const, content: "hi", timestamp: 1 }] };
      const events = await w.all(pi.llm.stream(target, context, { thinking: "off" }, new AbortController().signal));
      const said = events.at(-1)?.type;
      if (at < enough ? said !== "error" : at === bytes.length && said !== "done")
        wrong.push(`${at} of ${bytes.length} (${enough}): ${said}`);
    }
    expect(wrong).toEqual([]);
  },
);
