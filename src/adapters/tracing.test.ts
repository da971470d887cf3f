// Spans as a collector gets them, over a real socket.
import { createServer, type Server } from "node:http";
import type { AddressInfo } from "node:net";
import { afterEach, expect, test } from "vitest";
import type { Audit, AuditCall, AuditOutcome } from "../core/audit.ts";
import { CONVENTIONS, createTracing, tracesUrl } from "./tracing.ts";

interface Sent {
  readonly name: string;
  readonly traceId: string;
  readonly spanId: string;
  readonly parentSpanId?: string;
  readonly kind: number;
  readonly status: { readonly code?: number };
  readonly attributes: readonly { readonly key: string; readonly value: Record<string, unknown> }[];
}

let server: Server | undefined;
afterEach(() => server?.close());

const warned: string[] = [];
const quiet = { debug: () => {}, info: () => {}, warn: (text: string) => void warned.push(text), error: () => {} };
const chain: Audit = { begin: async () => {}, end: async () => {}, denied: async () => {}, note: async () => {} };
const ok: AuditOutcome = { durationMs: 1, exitCode: 0, outputBytes: 0, outcome: "ok" };
const row = (more: Partial<AuditCall> & Pick<AuditCall, "type" | "tool">): AuditCall => ({
  agent: "travel",
  args: ["a secret text"],
  decision: "allowed",
  session: "cli:default",
  request: "r1",
  ...more,
});

async function collector(): Promise<{ readonly url: string; readonly spans: () => readonly Sent[]; readonly bodies: string[] }> {
  const bodies: string[] = [];
  const made = createServer((request, response) => {
    let text = "";
    request.on("data", (part: Buffer) => (text += part.toString()));
    request.on("end", () => {
      bodies.push(text);
      response.writeHead(200, { "content-type": "application/json" }).end("{}");
    });
  });
  server = made;
  await new Promise<void>((done) => made.listen(0, "127.0.0.1", done));
  const scopes = () =>
    bodies.flatMap((body) =>
      (JSON.parse(body) as { resourceSpans: { scopeSpans: { schemaUrl: string; spans: Sent[] }[] }[] }).resourceSpans.flatMap(
        (each) => each.scopeSpans,
      ),
    );
  const spans = (): readonly Sent[] => {
    expect(new Set(scopes().map((scope) => scope.schemaUrl))).toEqual(new Set([CONVENTIONS]));
    return scopes().flatMap((scope) => scope.spans);
  };
  return { url: `http://127.0.0.1:${(made.address() as AddressInfo).port}`, spans, bodies };
}

const told = (span: Sent | undefined): Record<string, unknown> =>
  Object.fromEntries((span?.attributes ?? []).map(({ key, value }) => [key, Object.values(value)[0]]));

test("a turn, its requests, its tools and what a command asks for are one trace, without a text", async () => {
  const { url, spans, bodies } = await collector();
  const tracing = createTracing({ env: { OTEL_EXPORTER_OTLP_ENDPOINT: url }, version: "1", log: quiet });
  const audit = tracing?.traced(chain);
  const turn = row({ type: "turn", tool: "prompt" });
  const chat = row({ type: "llm", tool: "up/two/fast" });
  const tool = row({ type: "core_tool", tool: "exec" });
  const inner = row({ type: "tool", tool: "kv", parent: "x" });
  await audit?.begin("t", turn);
  await audit?.begin("c0", chat);
  await audit?.end("c0", chat, { ...ok, exitCode: 1, outcome: "failed", error: "a secret reason", usage: { status: 429 } });
  await audit?.begin("c", chat);
  await audit?.end("c", chat, { ...ok, model: "two/fast", usage: { input: 10, cacheRead: 5, output: 7, firstMs: 12, costUsd: 0.5 } });
  await audit?.begin("x", tool);
  await audit?.begin("i", inner);
  await audit?.end("i", inner, { ...ok, exitCode: 3, outcome: "failed", error: "a secret reason" });
  await audit?.end("x", tool, ok);
  await audit?.denied("d", { ...tool, decision: "denied" }, "a secret reason");
  await audit?.end("t", turn, ok);
  // Of a proxy's client, in no turn; a row that is none of these says nothing.
  await audit?.begin("p", row({ type: "llm", tool: "up/two", agent: "", session: "api:x", request: "r2" }));
  await audit?.end("p", row({ type: "llm", tool: "up/two", agent: "", session: "api:x", request: "r2" }), ok);
  await audit?.begin("e", row({ type: "egress", tool: "connect" }));
  await tracing?.stop();
  const all = spans();
  const [whole] = all.filter((span) => span.name === "invoke_agent travel");
  const [failed, asked] = all.filter((span) => span.name === "chat two/fast");
  const [ran, denied] = all.filter((span) => span.name === "execute_tool exec");
  const kv = all.find((span) => span.name === "execute_tool kv");
  const alone = all.find((span) => span.name === "chat two");
  expect(all).toHaveLength(7);
  expect([failed, asked, ran, denied].map((span) => span?.parentSpanId)).toEqual(Array(4).fill(whole?.spanId));
  expect(kv?.parentSpanId).toBe(ran?.spanId);
  expect([alone?.parentSpanId || "none", alone?.traceId === whole?.traceId]).toEqual(["none", false]);
  expect(told(asked)).toMatchObject({
    "gen_ai.operation.name": "chat",
    "gen_ai.provider.name": "up",
    "gen_ai.request.model": "two/fast",
    "gen_ai.response.model": "two/fast",
    "gen_ai.conversation.id": "cli:default",
    "beige.request_id": "r1",
  });
  expect(["input_tokens", "output_tokens"].map((key) => Number(told(asked)[`gen_ai.usage.${key}`]))).toEqual([15, 7]);
  expect([failed, kv, denied].map((span) => [span?.status.code, told(span)["error.type"]])).toEqual([
    [2, "429"],
    [2, "failed"],
    [2, "denied"],
  ]);
  expect([asked?.status.code ?? 0, asked?.kind, whole?.kind]).toEqual([0, 3, 1]);
  expect(bodies.join("")).not.toContain("a secret");
});

test("nothing is traced unless an endpoint is named; the environment wins over host.yaml", () => {
  expect(createTracing({ env: {}, version: "1", log: quiet })).toBeUndefined();
  expect(createTracing({ env: {}, endpoint: "file:///x", version: "1", log: quiet })).toBeUndefined();
  expect(tracesUrl({}, "http://h:1/")).toBe("http://h:1/v1/traces");
  expect(tracesUrl({ OTEL_EXPORTER_OTLP_ENDPOINT: "http://x:4318/" }, "http://h:1")).toBe("http://x:4318/v1/traces");
  expect(tracesUrl({ OTEL_EXPORTER_OTLP_TRACES_ENDPOINT: "http://x/own" })).toBe("http://x/own");
  expect(tracesUrl({ OTEL_EXPORTER_OTLP_ENDPOINT: "http://x", OTEL_SDK_DISABLED: "true" })).toBeUndefined();
});

test("a collector that is not there, or never answers, holds nobody up and fills nothing", async () => {
  const silent = createServer(() => undefined);
  server = silent;
  await new Promise<void>((done) => silent.listen(0, "127.0.0.1", done));
  for (const port of [1, (silent.address() as AddressInfo).port]) {
    const tracing = createTracing({ env: { OTEL_EXPORTER_OTLP_ENDPOINT: `http://127.0.0.1:${port}` }, version: "1", log: quiet });
    const audit = tracing?.traced(chain);
    for (let n = 0; n < 20_000; n++) {
      await audit?.begin(`c${n}`, row({ type: "llm", tool: "up/two" }));
      await audit?.end(`c${n}`, row({ type: "llm", tool: "up/two" }), ok);
    }
    const since = performance.now();
    await tracing?.stop();
    expect(performance.now() - since).toBeLessThan(4000);
  }
  silent.closeAllConnections();
}, 30_000);
