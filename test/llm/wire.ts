// A local provider that speaks the wire of OpenAI's chat completions, well or badly, as a test says.
import { createServer, type IncomingMessage, type ServerResponse } from "node:http";
import type { AddressInfo, Socket } from "node:net";

export interface Asked {
  readonly path: string;
  readonly headers: IncomingMessage["headers"];
  readonly body: Record<string, unknown>;
}
export type Handler = (response: ServerResponse, asked: Asked) => void | Promise<void>;

export interface Wire extends AsyncDisposable {
  readonly url: string;
  /** The same without its path. */
  readonly origin: string;
  /** Connections so far. */
  readonly connections: () => number;
  readonly asked: Asked[];
  /** Connections whose client went away before the answer was complete. */
  readonly dropped: () => number;
  handler: Handler;
}

export async function startWire(handler: Handler): Promise<Wire> {
  const asked: Asked[] = [];
  const sockets = new Set<Socket>();
  let dropped = 0;
  let connections = 0;
  const server = createServer((request, response) => {
    const parts: Buffer[] = [];
    request.on("data", (part: Buffer) => parts.push(part));
    response.on("close", () => (dropped += response.writableFinished ? 0 : 1));
    request.on("end", () => {
      const one: Asked = {
        path: request.url ?? "",
        headers: request.headers,
        body: JSON.parse(Buffer.concat(parts).toString() || "{}") as Record<string, unknown>,
      };
      asked.push(one);
      void wire.handler(response, one);
    });
  });
  server.on("connection", (socket) => {
    sockets.add(socket);
    connections++;
    socket.on("error", () => undefined);
    socket.on("close", () => sockets.delete(socket));
  });
  await new Promise<void>((up) => server.listen(0, "127.0.0.1", up));
  const origin = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  const wire: Wire = {
    url: `${origin}/v1`,
    origin,
    connections: () => connections,
    asked,
    dropped: () => dropped,
    handler,
    async [Symbol.asyncDispose]() {
      for (const socket of sockets) socket.destroy();
      await new Promise((down) => server.close(down));
    },
  };
  return wire;
}

export const usage = { prompt_tokens: 12, completion_tokens: 7, total_tokens: 19 };

const chunk = (delta: unknown, finish: string | null = null): string =>
  `data: ${JSON.stringify({ id: "c1", object: "chat.completion.chunk", created: 1, model: "m", choices: [{ index: 0, delta, finish_reason: finish }] })}\n\n`;

/** The bytes of a whole answer with text. */
export const textStream = (parts: readonly string[], finish = "stop"): string =>
  [
    chunk({ role: "assistant", content: "" }),
    ...parts.map((content) => chunk({ content })),
    chunk({}, finish),
    `data: ${JSON.stringify({ id: "c1", object: "chat.completion.chunk", created: 1, model: "m", choices: [], usage })}\n\n`,
    "data: [DONE]\n\n",
  ].join("");

export const toolStream = (name: string, args: object): string => {
  const text = JSON.stringify(args);
  const call = (more: object): string => chunk({ tool_calls: [{ index: 0, ...more }] });
  return [
    chunk({ role: "assistant", content: null }),
    call({ id: "call_1", type: "function", function: { name, arguments: "" } }),
    ...[text.slice(0, 3), text.slice(3)].map((part) => call({ function: { arguments: part } })),
    chunk({}, "tool_calls"),
    "data: [DONE]\n\n",
  ].join("");
};

export const sse = (response: ServerResponse): void => void response.writeHead(200, { "content-type": "text/event-stream" });

/** Answers with these bytes, whole. */
export const answerWith =
  (text: string): Handler =>
  (response) => {
    sse(response);
    response.end(text);
  };

export const refuseWith =
  (status: number, body: string, headers: Record<string, string> = {}): Handler =>
  (response) => {
    response.writeHead(status, { "content-type": "application/json", ...headers });
    response.end(body);
  };
