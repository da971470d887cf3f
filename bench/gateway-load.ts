// The bench's clients in a process of its own: bare sockets with keep-alive, so that most of the core is left to the provider beside them.
import { connect, type Socket } from "node:net";

/** Where requests go. */
export interface Goal {
  /** A port of 127.0.0.1, or the path of a unix socket. */
  readonly to: number | string;
  readonly path: string;
  readonly token: string;
  /** Before the slash of the model's name. */
  readonly provider: string;
  /** More of them, each with its line end. */
  readonly headers?: string;
}

export interface Job {
  readonly goal: Goal;
  readonly model: string;
  readonly stream: boolean;
  readonly clients: number;
  readonly requests: number;
  /** `leave`: cut by the client when the first byte came, or after so long without one. `stay`: held until the next job. `slow`: read late. */
  readonly how?: "leave" | "stay" | "slow";
  readonly afterMs?: number;
}

export interface Done {
  /** Of each request, in milliseconds, in order of their ends; without what the provider says it took itself. */
  readonly took: readonly number[];
  /** To the first content. */
  readonly first: readonly number[];
  readonly ms: number;
  readonly bytes: number;
  /** When clients left. */
  readonly left: readonly string[];
  readonly error?: string;
}

const CONTENT = Buffer.from('"content":"w');
const LAST = "0\r\n\r\n";
const BLANK = Buffer.from("\r\n\r\n");
const TEXT = "Tell me something about a town that I have not seen yet. ".repeat(12);

function requestOf({ goal, model, stream }: Job): Buffer {
  const body = JSON.stringify({
    model: `${goal.provider}/${model}`,
    messages: [
      { role: "system", content: "You answer shortly." },
      { role: "user", content: TEXT },
    ],
    max_tokens: 500,
    ...(stream ? { stream: true, stream_options: { include_usage: true } } : {}),
  });
  const host = typeof goal.to === "number" ? `127.0.0.1:${goal.to}` : "localhost";
  const head = `POST ${goal.path} HTTP/1.1\r\nHost: ${host}\r\nAuthorization: Bearer ${goal.token}\r\nContent-Type: application/json\r\n${goal.headers ?? ""}`;
  return Buffer.from(`${head}Content-Length: ${Buffer.byteLength(body)}\r\n\r\n${body}`);
}

interface Tally {
  readonly took: number[];
  readonly first: number[];
  readonly left: string[];
  bytes: number;
}

const held = new Set<Socket>();

const opened = (to: number | string): Promise<Socket> =>
  new Promise((done, fail) => {
    const socket = typeof to === "number" ? connect({ port: to, host: "127.0.0.1", noDelay: true }) : connect(to);
    socket.once("connect", () => done(socket)).once("error", fail);
  });

/** Reads one answer; `begun` hears of its first content. Resolves at its end, with what the provider says it took. */
function answered(socket: Socket, tally: Tally, begun: () => void): Promise<number> {
  return new Promise((done, fail) => {
    let [size, whole, first] = [0, -1, false];
    let [tail, told] = ["", 0];
    const end = (error?: Error): void => {
      socket.off("data", read).off("close", cut);
      if (error === undefined) done(told);
      else fail(error);
    };
    const cut = (): void => end(new Error("the answer was cut"));
    const read = (part: Buffer): void => {
      if (size === 0) {
        const head = part.toString("latin1", 0, part.indexOf(BLANK));
        if (!head.startsWith("HTTP/1.1 200")) return end(new Error(part.toString().slice(0, 400)));
        const length = /content-length: *(\d+)/i.exec(head)?.[1];
        if (length !== undefined) whole = head.length + BLANK.length + Number(length);
      }
      size += part.length;
      tally.bytes += part.length;
      if (!first && part.includes(CONTENT)) {
        first = true;
        begun();
      }
      if (whole !== -1) told += Number(/"took-([\d.]+)"/.exec(part.toString("latin1"))?.[1] ?? 0);
      else tail = (tail + part.toString("latin1", Math.max(0, part.length - 5))).slice(-5);
      if (whole === -1 ? tail === LAST : size >= whole) end();
    };
    socket.on("data", read).once("close", cut);
  });
}

/** One client, its requests one after the other on one connection. */
async function client(job: Job, bytes: Buffer, tally: Tally & { rest: number }): Promise<void> {
  const socket = await opened(job.goal.to);
  socket.on("error", () => undefined);
  for (;;) {
    tally.rest -= 1;
    if (tally.rest < 0) break;
    const began = performance.now();
    socket.write(bytes);
    const told = await answered(socket, tally, () => tally.first.push(performance.now() - began));
    tally.took.push(performance.now() - began - told);
  }
  socket.destroy();
}

const pause = (ms: number): Promise<void> => new Promise((done) => setTimeout(done, ms));

/** One that goes away in the midst of it. */
async function leaver(job: Job, bytes: Buffer, tally: Tally): Promise<void> {
  const socket = await opened(job.goal.to);
  socket.on("error", () => undefined);
  socket.write(bytes);
  if (job.afterMs !== undefined) await pause(job.afterMs);
  else await new Promise((done) => socket.once("data", done));
  tally.left.push(process.hrtime.bigint().toString());
  socket.destroy();
  await pause(30);
}

async function stayer(job: Job, bytes: Buffer): Promise<void> {
  const socket = await opened(job.goal.to);
  socket.on("error", () => undefined);
  held.add(socket);
  socket.write(bytes);
  await new Promise((done, fail) => {
    socket.once("data", (part: Buffer) =>
      part.toString().startsWith("HTTP/1.1 200") ? done(undefined) : fail(new Error(part.toString().slice(0, 300))),
    );
  });
  if (job.how === "slow") socket.pause();
}

async function run(job: Job): Promise<Done> {
  for (const socket of held) socket.destroy();
  held.clear();
  const bytes = requestOf(job);
  const tally = { took: [], first: [], left: [], bytes: 0, rest: job.requests } as Tally & { rest: number };
  const began = performance.now();
  if (job.how === "leave") for (let i = 0; i < job.requests; i++) await leaver(job, bytes, tally);
  else if (job.how !== undefined) for (let i = 0; i < job.requests; i++) await stayer(job, bytes);
  else await Promise.all(Array.from({ length: job.clients }, () => client(job, bytes, tally)));
  const { took, first, left } = tally;
  return { took, first, left, bytes: tally.bytes, ms: performance.now() - began };
}

process.on("message", (job: Job) => {
  run(job).then(
    (done) => process.send?.(done),
    (error: unknown) => process.send?.({ took: [], first: [], left: [], bytes: 0, ms: 0, error: String(error) } satisfies Done),
  );
});
process.on("disconnect", () => process.exit(0));
