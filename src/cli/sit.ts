// Sitting at a command in a sandbox: its streams, and with -t this terminal, over the WebSocket that kubectl uses. Loaded by `exec` alone.
import { createConnection } from "node:net";
import type { IncomingMessage } from "node:http";
import { WebSocket } from "ws";
import { BeigeError } from "../core/errors.ts";
import { DEFAULT_NAMESPACE } from "../core/resource.ts";
import { type Place, saidNo } from "./client.ts";
import type { Context } from "./flags.ts";
import { clean, oneLine } from "./output.ts";
import { takeTerminal, type Terminal } from "./terminal.ts";

const CHANNEL = { stdin: 0, stdout: 1, stderr: 2, error: 3, resize: 4, close: 255 } as const;
const HELD_BYTES_MAX = 1024 * 1024;
const CHUNK_BYTES = 256 * 1024;
const REFUSAL_BYTES_MAX = 64 * 1024;
const CONNECT_MS = 10_000;

export interface Seat {
  readonly place: Place;
  /** NAME, or NS.NAME. */
  readonly agent: string;
  readonly command: readonly string[];
  readonly tty: boolean;
  readonly stdin: boolean;
  readonly cwd?: string;
  readonly timeoutS?: number;
}

function addressOf({ place, agent, command, tty, stdin, cwd, timeoutS }: Seat, term: string): string {
  const dot = agent.indexOf(".");
  const [namespace, name] = dot < 0 ? [DEFAULT_NAMESPACE, agent] : [agent.slice(0, dot), agent.slice(dot + 1)];
  const query = new URLSearchParams(command.map((each): [string, string] => ["command", each]));
  for (const [key, on] of Object.entries({ stdin, tty, stdout: true, stderr: !tty })) if (on) query.set(key, "true");
  if (tty) query.set("term", term);
  if (cwd !== undefined) query.set("cwd", cwd);
  if (timeoutS !== undefined) query.set("timeout", String(timeoutS));
  const host = typeof place === "string" ? "localhost" : `${place.host.includes(":") ? `[${place.host}]` : place.host}:${place.port}`;
  return `ws://${host}/api/v1/namespaces/${namespace}/pods/${name}/exec?${query.toString()}`;
}

/** Refused, absent or silent: in the words of any other verb. */
function dial(seat: Seat, term: string): Promise<WebSocket> {
  const { place } = seat;
  const way =
    typeof place === "string"
      ? { createConnection: () => createConnection({ path: place }) }
      : { headers: { authorization: `Bearer ${place.token}` } };
  const ws = new WebSocket(addressOf(seat, term), ["v5.channel.k8s.io"], {
    ...way,
    handshakeTimeout: CONNECT_MS,
    perMessageDeflate: false,
    followRedirects: false,
  });
  return new Promise((done, fail) => {
    ws.once("open", () => {
      // Nothing is read before somebody listens.
      ws.pause();
      done(ws);
    });
    ws.once("unexpected-response", (_, response) => {
      void refusal(response).then((error) => fail(ours(error, seat.agent)), fail);
    });
    ws.on("error", (error) => {
      const { code } = error as NodeJS.ErrnoException;
      const why = code === "ENOENT" || code === "ECONNREFUSED" ? "" : `: ${error.message}`;
      const where = typeof place === "string" ? place : `http://${place.host}:${place.port}`;
      fail(new BeigeError("unavailable", `no gateway answers at ${where}${why}`, { hint: "beige gateway start", cause: error }));
    });
  });
}

async function refusal(response: IncomingMessage): Promise<BeigeError> {
  let text = "";
  for await (const part of response) {
    text += String(part);
    if (text.length > REFUSAL_BYTES_MAX) break;
  }
  response.destroy();
  return saidNo(response.statusCode ?? 500, text);
}

/** The door is kubectl's, and its words too: a person who typed `beige` is told of agents, and of verbs of beige. */
function ours(error: BeigeError, agent: string): BeigeError {
  if (error.code === "not_found" && error.message.startsWith("pods "))
    return new BeigeError(error.code, `agent/${agent} does not exist`, { hint: "beige get agents -A", cause: error });
  if (error.hint?.startsWith("kubectl ") !== true) return error;
  return new BeigeError(error.code, error.message, { hint: `beige describe agent/${agent}`, cause: error });
}

const isRecord = (value: unknown): value is Readonly<Record<string, unknown>> =>
  typeof value === "object" && value !== null && !Array.isArray(value);

/** The last word of a gateway, or of what else answers. */
function wordOf(text: string): Readonly<Record<string, unknown>> & { readonly message?: string } {
  const broken = (cause?: unknown): BeigeError =>
    new BeigeError("unavailable", "the gateway's answer is broken: it does not say how the command ended", {
      hint: "beige gateway status",
      cause,
    });
  let said: unknown;
  try {
    said = JSON.parse(text);
  } catch (error) {
    throw broken(error);
  }
  if (!isRecord(said) || (said["message"] !== undefined && typeof said["message"] !== "string")) throw broken();
  if (said["status"] !== "Success" && said["status"] !== "Failure") throw broken();
  return said;
}

/** The code among the causes; undefined where there is none that can be one. */
function causeOf(details: unknown): number | undefined {
  const causes = isRecord(details) ? details["causes"] : undefined;
  const found: unknown = Array.isArray(causes) ? causes.find((cause) => isRecord(cause) && cause["reason"] === "ExitCode") : undefined;
  const code = Number(isRecord(found) ? (found["message"] ?? Number.NaN) : Number.NaN);
  return Number.isInteger(code) && code > 0 && code < 256 ? code : undefined;
}

/** The command's own exit code; what else ended it is said in a line. */
function codeOf(text: string, agent: string, note: (text: string) => void): number {
  const { status, reason, message, code: answered, details } = wordOf(text);
  if (status === "Success") return 0;
  if (reason !== "NonZeroExitCode") throw ours(saidNo(typeof answered === "number" ? answered : 500, text), agent);
  const code = causeOf(details) ?? 1;
  // That it said no is the command's matter: its code is passed on.
  if (message !== undefined && !message.endsWith(`exit code ${code}`) && !message.endsWith(`with code ${code}`)) note(oneLine(message));
  return code;
}

/** Sends standard input, as much as the other side takes. */
function sendInput(ws: WebSocket, input: NodeJS.ReadStream): () => void {
  const data = (part: Buffer): void => {
    for (let at = 0; at < part.length; at += CHUNK_BYTES) {
      const chunk = part.subarray(at, at + CHUNK_BYTES);
      ws.send(Buffer.concat([Uint8Array.of(CHANNEL.stdin), chunk]), () => {
        if (input.isPaused() && ws.bufferedAmount < HELD_BYTES_MAX) input.resume();
      });
    }
    if (ws.bufferedAmount >= HELD_BYTES_MAX) input.pause();
  };
  const end = (): void => ws.send(Uint8Array.of(CHANNEL.close, CHANNEL.stdin));
  input.on("data", data).once("end", end).once("error", end);
  return () => {
    input.off("data", data).off("end", end).off("error", end);
    input.pause();
    // A pipe that nobody writes to would keep the program.
    input.unref?.();
  };
}

/** Answers with the last word of the gateway; each piece of output is written before the next is read. */
function listen(ws: WebSocket, write: (channel: number, data: Buffer) => Promise<void>): Promise<string> {
  let last: string | undefined;
  let written = Promise.resolve();
  ws.on("message", (frame: Buffer) => {
    const [channel] = frame;
    if (channel === CHANNEL.error) last = frame.toString("utf8", 1);
    if (channel !== CHANNEL.stdout && channel !== CHANNEL.stderr) return;
    ws.pause();
    written = written.then(() => write(channel, frame.subarray(1))).finally(() => ws.resume());
  });
  return new Promise((done, fail) => {
    ws.once("close", () => {
      const gone = new BeigeError("unavailable", "the gateway went away in the middle of the command", { hint: "beige gateway status" });
      void written.finally(() => (last === undefined ? fail(gone) : done(last)));
    });
  });
}

/** Raw on a terminal that is the command's own; else nothing that would move the cursor of ours. */
function writer({ out }: Context, tty: boolean): (channel: number, data: Buffer) => Promise<void> {
  const [readers, stderr] = [[new TextDecoder(), new TextDecoder()], process.stderr];
  // A reader that went away is no failure of ours.
  stderr.on("error", () => undefined);
  return async (channel, data) => {
    const error = channel === CHANNEL.stderr;
    const shown = tty || !(error ? stderr.isTTY : out.terminal);
    const text = shown ? data : clean(readers[error ? 1 : 0]?.decode(data, { stream: true }) ?? "");
    if (error) await new Promise<void>((done) => void stderr.write(text, () => done()));
    else await out.write(text);
  };
}

export async function atCommand(context: Context, seat: Seat): Promise<number> {
  const { signal, out } = context;
  if (seat.tty && !(process.stdout.isTTY && (!seat.stdin || process.stdin.isTTY)))
    throw new BeigeError("invalid", "-t needs a terminal", { hint: "beige exec -i AGENT -- COMMAND passes standard input on without one" });
  const ws = await dial(seat, context.env["TERM"] ?? "xterm");
  const stop = (): void => ws.terminate();
  signal.addEventListener("abort", stop, { once: true });
  let terminal: Terminal | undefined;
  let quiet = (): void => undefined;
  try {
    if (signal.aborted) throw new BeigeError("timeout", "interrupted");
    const last = listen(ws, writer(context, seat.tty));
    // Before anything can be typed, so that nothing of it is echoed twice.
    if (seat.tty) terminal = takeTerminal(seat.stdin, (size) => ws.send(resize(size)));
    if (seat.stdin) quiet = sendInput(ws, process.stdin);
    ws.resume();
    return codeOf(await last, seat.agent, (text) => {
      terminal?.giveBack();
      out.note(text);
    });
  } finally {
    signal.removeEventListener("abort", stop);
    quiet();
    terminal?.giveBack();
    ws.terminate();
  }
}

const resize = ({ rows, columns }: { readonly rows: number; readonly columns: number }): Buffer =>
  Buffer.concat([Uint8Array.of(CHANNEL.resize), Buffer.from(JSON.stringify({ Width: columns, Height: rows }))]);
