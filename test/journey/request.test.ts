// One request from the edge to its rows and spans, images, and what a caller's key may do with its sessions, at a real gateway.
import { readFileSync } from "node:fs";
import { createServer, request as httpRequest, type Server } from "node:http";
import type { AddressInfo } from "node:net";
import { join } from "node:path";
import { writeFileSync } from "node:fs";
import { afterAll, beforeAll, expect, test } from "vitest";
import { makeGateway, until } from "../gateway.ts";

const STACK = `
apiVersion: beige.dev/v1
kind: Provider
metadata: {name: one}
spec:
  api: echo
  models: [{id: m, input: [text, image]}, {id: blind}]
  echo: {steps: [{match: work, toolCall: {tool: exec, args: {command: "echo hidden words"}}}, {match: ., from: tool, text: done}]}
---
apiVersion: beige.dev/v1
kind: Provider
metadata: {name: poor}
spec: {api: echo, budget: {daily: {requests: 1}}}
---
apiVersion: beige.dev/v1
kind: Agent
metadata: {name: a}
spec: {model: {provider: one, id: m}}
---
apiVersion: beige.dev/v1
kind: Agent
metadata: {name: blind}
spec: {model: {provider: one, id: blind}}
---
apiVersion: beige.dev/v1
kind: Agent
metadata: {name: thrifty}
spec: {model: {provider: poor, id: p}, fallbacks: [{provider: one, id: m}]}
---
apiVersion: beige.dev/v1
kind: Agent
metadata: {name: broke}
spec: {model: {provider: poor, id: p}, budget: {daily: {requests: 0}}}
`;
const PNG = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==";

interface Span {
  readonly name: string;
  readonly traceId: string;
  readonly spanId: string;
  readonly parentSpanId?: string;
}

const posted: string[] = [];
const collector: Server = createServer((request, response) => {
  request.setEncoding("utf8").on("data", (part: string) => posted.push(part));
  request.on("end", () => response.end("{}"));
});
const gateway = makeGateway({ args: ["--listen", "127.0.0.1:0"] });
let port = 0;
beforeAll(async () => {
  await new Promise<void>((done) => collector.listen(0, "127.0.0.1", done));
  const endpoint = `http://127.0.0.1:${(collector.address() as AddressInfo).port}`;
  await gateway.start({ OTEL_EXPORTER_OTLP_ENDPOINT: endpoint, DOCKER_HOST: "unix:///nonexistent/docker.sock" });
  port = Number(new URL(((await gateway.request("GET", "/api/health")).body as { url: string }).url).port);
  await gateway.stream("/api/apply", { files: [{ name: "s.yaml", folder: gateway.home, text: STACK }], wait: false });
}, 60_000);
afterAll(async () => {
  await gateway.clean();
  collector.closeAllConnections();
  collector.close();
});

interface Answer {
  readonly status: number;
  readonly headers: Readonly<Record<string, unknown>>;
  readonly text: string;
}
/** By the port, as a program elsewhere asks. */
const ask = (token: string, line: string, body?: unknown, headers: Readonly<Record<string, string>> = {}): Promise<Answer> =>
  new Promise((done, fail) => {
    const [method, path] = line.split(" ");
    const sent = httpRequest(
      { port, method, path, headers: { authorization: `Bearer ${token}`, "content-type": "application/json", ...headers } },
      (answer) => {
        let text = "";
        answer.setEncoding("utf8").on("data", (part: string) => (text += part));
        answer.on("end", () => done({ status: answer.statusCode ?? 0, headers: answer.headers, text }));
      },
    );
    sent.on("error", fail);
    sent.end(body === undefined ? undefined : JSON.stringify(body));
  });
const operator = (): string => readFileSync(join(gateway.home, "token"), "utf8").trim();
const rows = (chain: string): Record<string, unknown>[] =>
  readFileSync(join(gateway.home, `logs/${chain}.jsonl`), "utf8")
    .trim()
    .split("\n")
    .map((line) => JSON.parse(line) as Record<string, unknown>);

test("a request's id is in its answer, in every row that it caused, and in a trace of its own that holds no words", async () => {
  const said = await ask(operator(), "POST /api/agents/a/prompt", { text: "work on hidden words" }, { "x-request-id": "mine-1" });
  expect([said.status, said.headers["x-request-id"]]).toEqual([200, "mine-1"]);
  const mine = await until(
    () => {
      const found = rows("audit").filter((each) => each["request"] === "mine-1");
      return found.some((each) => each["type"] === "turn" && each["phase"] === "end") ? found : undefined;
    },
    5000,
    "the turn's last row",
  );
  expect(new Set(mine.map((each) => each["type"]))).toEqual(new Set(["turn", "llm", "core_tool"]));
  const shown = await gateway.beige("audit", "tail", "--request", "mine-1", "-o", "json");
  expect(shown.out.trim().split("\n")).toHaveLength(4);
  expect(rows("access").some((each) => each["request"] === "mine-1")).toBe(true);

  const spans = await until(
    () => {
      const found = posted.flatMap((body) => (body.startsWith("{") ? [JSON.parse(body)] : [])).flatMap(spansIn);
      return found.some((span) => span.name === "invoke_agent a") ? found : undefined;
    },
    10_000,
    "the collector gets the turn",
  );
  const turn = spans.find((span) => span.name === "invoke_agent a");
  expect(spans.filter((span) => span.parentSpanId === turn?.spanId).map((span) => span.name)).toEqual([
    "chat m",
    "execute_tool exec",
    "chat m",
  ]);
  expect(posted.join("")).not.toContain("hidden");

  // Without one the gateway makes it, and a refusal has one too.
  const odd = await ask(operator(), "GET /api/agents", undefined, { "x-request-id": "no spaces, please" });
  expect(odd.headers["x-request-id"]).toMatch(/^[\da-f-]{36}$/);
  expect((await ask("wrong", "GET /api/agents", undefined, { "x-request-id": "mine-2" })).headers["x-request-id"]).toBe("mine-2");
  await ask(operator(), "DELETE /apis/beige.dev/v1/namespaces/default/agents/blind?dryRun=All", undefined, { "x-request-id": "mine-3" });
});

const spansIn = (body: {
  readonly resourceSpans: readonly { readonly scopeSpans: readonly { readonly spans: readonly Span[] }[] }[];
}): Span[] => body.resourceSpans.flatMap((each) => each.scopeSpans.flatMap((scope) => scope.spans));

test("images go with the text to a model that reads them, from the command line and from clients, and are refused elsewhere", async () => {
  const file = join(gateway.home, "dot.png");
  writeFileSync(file, Buffer.from(PNG, "base64"));
  expect(await gateway.beige("prompt", "a", "--new", "--image", file, "look")).toMatchObject({ code: 0, out: "look\n" });
  const shown = (await gateway.request("GET", "/api/agents/a/sessions/cli:default")).body as { lines: { text: string }[] };
  expect(shown.lines[0]?.text).toBe("look\n[image]");
  const exported = (await gateway.beige("session", "export", "a")).out;
  expect(exported).toContain(PNG);
  expect(await gateway.beige("prompt", "blind", "--image", file, "look")).toMatchObject({
    code: 2,
    err: expect.stringContaining("model 'one/blind' reads no images") as string,
  });
  writeFileSync(file, "not an image");
  expect((await gateway.beige("prompt", "a", "--image", file, "look")).err).toContain("this is no image");
  const wrong = { text: "look", images: [{ mimeType: "image/jpeg", data: PNG }] };
  expect((await ask(operator(), "POST /api/agents/a/prompt", wrong)).text).toContain("images[0]: the data is image/png, not image/jpeg");
  const parts = [
    { type: "text", text: "look" },
    { type: "image_url", image_url: { url: `data:image/png;base64,${PNG}` } },
  ];
  const chat = await ask(operator(), "POST /v1/chat/completions", { model: "a", messages: [{ role: "user", content: parts }] });
  expect([chat.status, JSON.parse(chat.text).choices[0].message.content]).toEqual([200, "look"]);
});

test("a caller goes on with its own sessions by the same key at every door, and sees no others", async () => {
  const key = (await gateway.beige("key", "create", "ci", "--agent", "a", "--sessions", "3")).out.trim();
  expect((await ask(key, "POST /api/agents/a/prompt", { text: "first words", session: "s1" })).text).toContain('"session":"key:ci:s1"');
  const chat = { model: "a", messages: [{ role: "user", content: "second words" }] };
  expect((await ask(key, "POST /v1/chat/completions", chat, { "x-beige-session": "s1" })).status).toBe(200);
  const road = { agentName: "a", session: "s1", context: { messages: [{ role: "user", content: "third" }] } };
  expect((await ask(key, "POST /api/chat/stream", road)).status).toBe(200);
  const shown = await ask(key, "GET /api/agents/a/sessions/s1");
  expect(JSON.parse(shown.text).lines.map((line: { text: string }) => line.text)).toEqual([
    "first words",
    "first words",
    "second words",
    "second words",
  ]);
  const listed = JSON.parse((await ask(key, "GET /api/agents/a/sessions")).text) as { sessions: { session: string }[] };
  expect(listed.sessions.map((each) => each.session)).toEqual(["key:ci:s1"]);
  expect(JSON.parse((await ask(key, "GET /api/agents/a/search?q=look")).text)).toMatchObject({ hits: [], whole: true });
  expect((await ask(key, "GET /api/agents/a/sessions/cli:default")).status).toBe(404);
  expect((await ask(key, "GET /api/agents/blind/sessions")).status).toBe(403);
  expect((await ask(key, "PATCH /api/agents/a/sessions/s1", { thinking: "low" })).status).toBe(200);
  // Each door counts: s1 was one, and two more may be opened today.
  expect((await ask(key, "POST /v1/chat/completions", chat)).status).toBe(200);
  expect((await ask(key, "POST /api/chat/stream", { ...road, session: "s3" })).status).toBe(200);
  expect((await ask(key, "POST /v1/chat/completions", { ...chat, tools: [] }, { "x-beige-session": "s4" })).status).toBe(429);
  expect((await ask(key, "POST /api/chat/stream", { ...road, session: "s4" })).status).toBe(429);
  expect((await ask(key, "POST /api/agents/a/exec", { command: "id", session: "s4" })).status).toBe(429);
  expect((await ask(key, "DELETE /api/agents/a/sessions/s1")).status).toBe(200);
});

test("a provider whose budget is used up is passed over; an agent's own ends the request, in each format's words", async () => {
  const chat = (model: string) => ({ model, messages: [{ role: "user", content: "hi" }], max_tokens: 10, tools: [] });
  const first = await ask(operator(), "POST /v1/chat/completions", chat("thrifty"));
  const second = await ask(operator(), "POST /v1/chat/completions", chat("thrifty"));
  expect([first, second].map(({ status, headers }) => [status, headers["x-beige-model"]])).toEqual([
    [200, "poor/p"],
    [200, "one/m"],
  ]);
  const openai = await ask(operator(), "POST /v1/chat/completions", chat("broke"));
  expect([openai.status, JSON.parse(openai.text).error]).toMatchObject([429, { type: "insufficient_quota", code: "insufficient_quota" }]);
  const anthropic = await ask(operator(), "POST /v1/messages", chat("broke"));
  expect([anthropic.status, JSON.parse(anthropic.text)]).toMatchObject([402, { type: "error", error: { type: "billing_error" } }]);
  const bare = await ask(operator(), "POST /v1/chat/completions", chat("poor/p"));
  expect(JSON.parse(bare.text).error).toMatchObject({
    type: "insufficient_quota",
    message: expect.stringContaining("provider 'poor'") as string,
  });
});
