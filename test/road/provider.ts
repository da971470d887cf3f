// A local provider of OpenAI's chat completions whose answers a test chooses, and a road of real parts that leads to it.
import { createServer, type IncomingMessage, type ServerResponse } from "node:http";
import type { AddressInfo, Socket } from "node:net";
import { createPi } from "../../src/adapters/pi.ts";
import { createRelay } from "../../src/adapters/relay.ts";
import type { RoadEvent, RoadRequest } from "../../src/core/road.ts";
import type { Agent, Provider } from "../../src/core/resource.ts";
import { createChat, type Chat, type ChatDeps } from "../../src/gateway/chat.ts";
import { createEcho } from "../../src/gateway/echo.ts";
import { createLimiter, type Limiter } from "../../src/gateway/limiter.ts";
import * as w from "../llm/world.ts";

export interface Asked {
  readonly body: Record<string, unknown>;
  readonly headers: IncomingMessage["headers"];
}
export type Answer = (response: ServerResponse, asked: Asked) => void;

export interface Server extends AsyncDisposable {
  readonly url: string;
  readonly asked: Asked[];
  /** Answers whose client went away before their end, and when. */
  readonly left: number[];
  answer: Answer;
}

export async function serve(answer: Answer): Promise<Server> {
  const sockets = new Set<Socket>();
  const http = createServer((request, response) => {
    const parts: Buffer[] = [];
    request.on("data", (part: Buffer) => parts.push(part));
    response.on("close", () => void (response.writableFinished || server.left.push(performance.now())));
    request.on("end", () => {
      const one = { headers: request.headers, body: JSON.parse(Buffer.concat(parts).toString()) as Record<string, unknown> };
      server.asked.push(one);
      server.answer(response, one);
    });
  });
  http.on("connection", (socket) => {
    sockets.add(socket.on("error", () => undefined));
    socket.on("close", () => sockets.delete(socket));
  });
  await new Promise<void>((up) => http.listen(0, "127.0.0.1", up));
  const server: Server = {
    url: `http://127.0.0.1:${(http.address() as AddressInfo).port}/v1`,
    asked: [],
    left: [],
    answer,
    async [Symbol.asyncDispose]() {
      for (const socket of sockets) socket.destroy();
      await new Promise((down) => http.close(down));
    },
  };
  return server;
}

const usage = { prompt_tokens: 12, completion_tokens: 7, total_tokens: 19 };
const frame = (more: object): string =>
  `data: ${JSON.stringify({ id: "c", object: "chat.completion.chunk", created: 1, model: "m", ...more })}\n\n`;
export const delta = (content: string): string => frame({ choices: [{ index: 0, delta: { content }, finish_reason: null }] });
const ends = frame({ choices: [{ index: 0, delta: {}, finish_reason: "stop" }] }) + frame({ choices: [], usage }) + "data: [DONE]\n\n";
export const stream = (parts: readonly string[]): string => parts.map(delta).join("") + ends;
export const whole = (text: string): string =>
  JSON.stringify({
    id: "c",
    object: "chat.completion",
    created: 1,
    model: "m",
    choices: [{ index: 0, message: { role: "assistant", content: text }, finish_reason: "stop" }],
    usage,
  });

export const begin = (response: ServerResponse): ServerResponse => response.writeHead(200, { "content-type": "text/event-stream" });
/** Answers in the way that was asked for. */
export const says =
  (...parts: string[]): Answer =>
  (response, { body }) => {
    if (body["stream"] === true) begin(response).end(stream(parts));
    else response.writeHead(200, { "content-type": "application/json" }).end(whole(parts.join("")));
  };
export const refuses =
  (status: number, message = "no", headers: Record<string, string> = {}): Answer =>
  (response) =>
    void response.writeHead(status, { "content-type": "application/json", ...headers }).end(JSON.stringify({ error: { message } }));

export interface Road {
  readonly chat: Chat;
  readonly audit: ReturnType<typeof w.memoryAudit>;
  readonly ledger: ReturnType<typeof w.memoryLedger>;
  readonly limiter: Limiter;
  readonly agent: Agent;
  /** A request of the operator's for one model, in its own format. */
  readonly bare: (more?: Partial<RoadRequest>) => RoadRequest;
  readonly run: (request: RoadRequest, signal?: AbortSignal) => Promise<RoadEvent[]>;
}

/** One provider a server, named a, b, ...; each has the model m, and the agent has all of them in order. */
export function roadTo(
  servers: readonly { readonly url: string }[],
  more: Partial<ChatDeps> & { readonly providers?: Provider[] } = {},
): Road {
  const price = { input: 3, output: 15, cacheRead: 0, cacheWrite: 0 };
  const named = servers.map(({ url }, at) =>
    w.provider("abcdef"[at] ?? "z", { api: "openai-completions", baseUrl: url, concurrency: 50, models: [w.facts("m", { cost: price })] }),
  );
  const providers = [...named, ...(more.providers ?? [])];
  const agent = w.agent(
    "dev",
    providers.map(({ metadata }) => [metadata.name, "m"]),
  );
  const [audit, ledger, limiter, log] = [w.memoryAudit(), w.memoryLedger(), createLimiter(w.clock), w.memoryLog()];
  const pi = createPi({ log });
  const chat = createChat({
    directory: w.directory([agent], providers),
    llm: (api) => (api === "echo" ? createEcho(w.clock) : pi.llm),
    relay: createRelay(),
    ledger,
    secrets: w.memorySecrets(),
    hooks: w.noHooks,
    audit,
    limiter,
    shelf: w.memoryShelf(),
    clock: w.clock,
    random: w.random,
    log,
    ...more,
  });
  const bare: Road["bare"] = (extra) => ({
    principal: { kind: "operator" },
    model: { provider: "a", id: "m" },
    context: { messages: [{ role: "user", content: "hi", timestamp: 1 }] },
    options: { thinking: "off" },
    wire: { api: "openai-completions", body: { model: "x", messages: [{ role: "user", content: "hi" }] }, stream: true },
    ...extra,
  });
  return {
    chat,
    audit,
    ledger,
    limiter,
    agent,
    bare,
    run: (request, signal) => w.all(chat(request, signal ?? new AbortController().signal)),
  };
}

export const textOf = (events: readonly RoadEvent[]): string =>
  Buffer.concat(events.flatMap((event) => (event.type === "wire" ? [event.bytes] : []))).toString();
