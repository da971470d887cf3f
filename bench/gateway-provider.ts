// A provider for the bench in a process of its own: OpenAI's real wire by bare sockets, so cheap that what is measured stands in front of it.
import { createServer, type Socket } from "node:net";

/** What its parent may ask. */
export type Ask = { readonly ask: "closes" } | { readonly ask: "open" };
export interface Told {
  readonly port?: number;
  /** When the connections of answers that never end were closed, on the clock that all processes share. */
  readonly closes?: readonly string[];
  /** Answers under way. */
  readonly open?: number;
}

const FLOOD_BYTES = 48 * 1024 * 1024;
const PACE_MS = 3;
/** How long the provider of `think` takes: models take far longer, but no two answers come at once. */
const THINK_MS = { least: 20, more: 20 };

const sized = (text: string): string => `${Buffer.byteLength(text).toString(16)}\r\n${text}\r\n`;
const event = (delta: object, more: object = {}): string =>
  `data: ${JSON.stringify({
    id: "chatcmpl-bench",
    object: "chat.completion.chunk",
    created: 1_700_000_000,
    model: "bench",
    choices: [{ index: 0, delta, finish_reason: null, ...more }],
  })}\n\n`;

const STREAM = "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n";
const ROLE = sized(event({ role: "assistant", content: "" }));
const WORD = sized(event({ content: "word " }));
const usage = { prompt_tokens: 200, completion_tokens: 500, total_tokens: 700 };
const END = `${sized(event({}, { finish_reason: "stop" }))}${sized(`data: ${JSON.stringify({ object: "chat.completion.chunk", choices: [], usage })}\n\n`)}${sized("data: [DONE]\n\n")}0\r\n\r\n`;
const FLOOD = sized(event({ content: "x".repeat(65_000) }));
const BODY = JSON.stringify({
  id: "chatcmpl-bench",
  object: "chat.completion",
  created: 1_700_000_000,
  model: "bench",
  choices: [{ index: 0, message: { role: "assistant", content: "word ".repeat(60) }, finish_reason: "stop" }],
  usage,
});
const whole = (body: string): string =>
  `HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: ${Buffer.byteLength(body)}\r\n\r\n${body}`;
const WHOLE = whole(BODY);

let closes: string[] = [];
let open = 0;

/** Counts an answer that nobody ends but its reader. */
function watch(socket: Socket): void {
  open += 1;
  let over = false;
  const gone = (): void => {
    if (over) return;
    over = true;
    open -= 1;
    closes.push(process.hrtime.bigint().toString());
  };
  socket.once("end", gone).once("close", gone);
}

/** One piece a turn of the event loop, as a server writes what its model makes. */
function many(socket: Socket, left: number, next: (go: () => void) => void): void {
  if (socket.destroyed) return;
  if (left === 0) return void socket.write(END);
  socket.write(WORD);
  next(() => many(socket, left - 1, next));
}

function flood(socket: Socket, left: number): void {
  let rest = left;
  while (rest > 0 && !socket.destroyed) {
    rest -= FLOOD.length;
    if (socket.write(FLOOD)) continue;
    socket.once("drain", () => flood(socket, rest));
    return;
  }
  if (!socket.destroyed) socket.write(END);
}

/** Says in its answer how long it took, so that only what is around it counts. */
function think(socket: Socket): void {
  const began = performance.now();
  setTimeout(
    () => socket.write(whole(BODY.replace("chatcmpl-bench", `took-${(performance.now() - began).toFixed(3)}`))),
    THINK_MS.least + Math.random() * THINK_MS.more,
  );
}

/** What each model does. A number behind its name says how many pieces. */
function answer(socket: Socket, model: string): void {
  const [name, pieces = "0"] = model.split("-");
  if (name === "whole") return void socket.write(WHOLE);
  if (name === "think") return think(socket);
  if (name === "silent") return watch(socket);
  if (name === "flood") {
    socket.write(STREAM + ROLE);
    return flood(socket, FLOOD_BYTES);
  }
  socket.write(STREAM + ROLE + WORD);
  if (name === "stay") return watch(socket);
  if (name === "paced") return many(socket, Number(pieces) - 1, (go) => void setTimeout(go, PACE_MS));
  many(socket, Number(pieces) - 1, (go) => void setImmediate(go));
}

const BLANK = "\r\n\r\n";
const server = createServer({ noDelay: true }, (socket) => {
  let held = "";
  socket.on("error", () => socket.destroy());
  socket.on("data", (part) => {
    held += part.toString("latin1");
    for (let blank = held.indexOf(BLANK); blank !== -1; blank = held.indexOf(BLANK)) {
      const length = Number(/content-length: *(\d+)/i.exec(held.slice(0, blank))?.[1] ?? 0);
      const end = blank + BLANK.length + length;
      if (held.length < end) return;
      const model = /"model":"(?:[^"/]*\/)?([^"/]+)"/.exec(held.slice(blank, end))?.[1] ?? "";
      held = held.slice(end);
      answer(socket, model);
    }
  });
});

const tell = (told: Told): void => void process.send?.(told);
process.on("message", ({ ask }: Ask) => {
  if (ask === "open") return tell({ open });
  tell({ closes });
  closes = [];
});
process.on("disconnect", () => process.exit(0));
server.listen(0, "127.0.0.1", () => tell({ port: (server.address() as { port: number }).port }));
