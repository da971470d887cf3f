// The connections of one agent: counted, timed and bounded, so that none harms another's.
import type { Socket } from "node:net";
import type { AgentId, CallTool } from "../core/call.ts";
import type { Clock, Log } from "../core/world.ts";
import { errorFrame, parseFrame, responseFrame } from "./frames.ts";
import { createLines, type Lines } from "./lines.ts";
import { createPace, type Pace } from "./pace.ts";
import { asBeigeError } from "../core/errors.ts";
import type { Tokens } from "./tokens.ts";
import type { ToolRequest } from "../../schemas/types.ts";

export interface PeerDeps {
  readonly agent: AgentId;
  readonly call: CallTool;
  readonly tokens: Pick<Tokens, "find">;
  readonly onHello: (uid: string, container: string) => void;
  readonly clock: Clock;
  readonly log: Log;
}

export const FRAME_BYTES_MAX = 2 * 1024 * 1024;
/** Connections of one agent in all, and those that work on a call. */
const CONNECTIONS_MAX = 272;
const BUSY_MAX = 16;
/** A connection may say nothing, or half a frame, for so long. */
const SILENT_MS = 10_000;
/** Frames that wait on one connection for the ones before them. */
const QUEUE_MAX = 16;
/** Bytes that all connections of one agent hold for frames not yet answered. */
const HELD_BYTES_MAX = 32 * 1024 * 1024;
/** What a refused client may still send before it is cut off: reading a flood costs everybody's time. */
const REFUSED_BYTES_MAX = 1024 * 1024;
const PROBE_MS = 1_000;
/** Hellos that are kept; a container has one. */
const HELLOS_MAX = 16;

class Peer {
  readonly #deps: PeerDeps;
  readonly #peers: Peers;
  readonly #socket: Socket;
  readonly #gone = new AbortController();
  readonly #queue: { readonly frame: ToolRequest; readonly bytes: number }[] = [];
  readonly #lines: Lines;
  #queued = 0;
  #overheard = 0;
  #timer: { cancel(): void } | undefined;
  #working = false;
  #ended = false;
  hello: string | undefined;

  constructor(deps: PeerDeps, peers: Peers, socket: Socket) {
    this.#deps = deps;
    this.#peers = peers;
    this.#socket = socket;
    this.#lines = createLines(FRAME_BYTES_MAX, (line) => this.#frame(line));
    socket.on("data", (chunk) => this.#read(chunk));
    // Half-closed, or gone: whoever has said all it wants may still wait for the answer.
    socket.on("end", () => (this.#working ? this.#probe() : this.#close()));
    socket.on("error", () => this.#close());
    socket.on("close", () => this.#close());
    this.#rest();
  }

  #read(chunk: Buffer): void {
    this.#peers.pace.take(chunk.length, this.#socket);
    if (this.#ended) return this.#overhear(chunk);
    if (!this.#lines.push(chunk)) return this.end(`frame is longer than ${FRAME_BYTES_MAX} bytes`);
    if (this.#peers.held > HELD_BYTES_MAX) return this.end("too much is waiting, retry");
    // A frame that trickles in does not start the clock anew.
    if (this.#lines.held === 0) this.#rest();
  }

  /** A client that was told why still gets that; one that goes on regardless is cut. */
  #overhear(chunk: Buffer): void {
    this.#overheard += chunk.length;
    if (this.#overheard > REFUSED_BYTES_MAX) this.#socket.destroy();
  }

  /** Finds out whether a client that sends no more is still there: a space before the answer is no part of it. */
  #probe(): void {
    if (this.#ended || !this.#working) return;
    this.#socket.write(" ");
    this.#deps.clock.after(PROBE_MS, () => this.#probe());
  }

  /** Starts the time to the end of the next frame; a working or known connection has none. */
  #rest(): void {
    this.#timer?.cancel();
    this.#timer = undefined;
    if (this.#working || this.hello !== undefined || this.#ended) return;
    this.#timer = this.#deps.clock.after(SILENT_MS, () => this.end(`no whole frame within ${SILENT_MS / 1000} s`));
  }

  #frame(line: Buffer): void {
    if (this.#ended || line.length === 0) return;
    const frame = parseFrame(line);
    if ("wrong" in frame) return this.end(frame.wrong);
    if (frame.type === "hello") {
      if (this.hello !== undefined) return;
      this.hello = frame.container;
      return this.#peers.greet(frame.container);
    }
    if (this.#queue.length >= QUEUE_MAX) return this.end("too many frames at once");
    this.#queue.push({ frame, bytes: line.length });
    this.#queued += line.length;
    if (!this.#working) void this.#work();
  }

  async #work(): Promise<void> {
    if (!this.#peers.enter()) {
      this.#queue.length = 0;
      return this.end("too many calls of this agent at once, retry");
    }
    this.#working = true;
    this.#rest();
    try {
      for (let next = this.#queue.shift(); next !== undefined && !this.#ended; next = this.#queue.shift()) {
        await this.#answer(next.frame);
        this.#queued -= next.bytes;
      }
    } finally {
      this.#working = false;
      this.#peers.leave();
    }
    if (this.#socket.readableEnded) this.#socket.end();
    this.#rest();
  }

  async #answer(frame: ToolRequest): Promise<void> {
    const { agent, tokens, call, log } = this.#deps;
    const token = tokens.find(agent.uid, frame.call);
    const { session, request } = token ?? {};
    const from = {
      ...(token === undefined ? {} : { parent: token.call }),
      ...(session === undefined ? {} : { session }),
      ...(request === undefined ? {} : { request }),
    };
    const attribution = token === undefined ? "none" : "token";
    const stdin = frame.stdin === undefined ? {} : { stdin: Buffer.from(frame.stdin, "base64") };
    const input = { args: frame.args, ...stdin, ...(frame.cwd === undefined ? {} : { cwd: frame.cwd }) };
    const principal = { kind: "agent", uid: agent.uid, attribution } as const;
    let text: string;
    try {
      text = responseFrame(await call({ principal, agent, tool: frame.tool, input, ...from }, this.#gone.signal));
    } catch (thrown) {
      const error = asBeigeError(thrown);
      if (error.code === "internal") log.error("call failed", { agent: agent.name, tool: frame.tool, error: thrown });
      text = errorFrame(error.code === "internal" ? "the gateway failed: see its log" : error.message);
    }
    if (this.#ended) return;
    if (!this.#socket.write(text)) await this.#drained();
  }

  /** A client that does not read its answer holds its own connection only, and not for ever. */
  #drained(): Promise<void> {
    return new Promise((done) => {
      const timer = this.#deps.clock.after(SILENT_MS, () => this.#close());
      const settle = (): void => {
        timer.cancel();
        done();
      };
      this.#socket.once("drain", settle);
      this.#gone.signal.addEventListener("abort", settle, { once: true });
    });
  }

  /** Bytes of frames that have begun or wait. */
  get held(): number {
    return this.#lines.held + this.#queued;
  }

  /** Says nothing and waits for nothing. */
  get idle(): boolean {
    return !this.#working && this.hello === undefined;
  }

  /** The last frame says why. */
  end(why: string): void {
    if (this.#ended) return;
    this.#socket.end(errorFrame(why));
    this.#finish();
    const socket = this.#socket;
    const last = this.#deps.clock.after(1_000, () => socket.destroy());
    socket.once("close", () => last.cancel());
    socket.resume();
  }

  #close(): void {
    this.#socket.destroy();
    this.#finish();
  }

  #finish(): void {
    if (this.#ended) return;
    this.#ended = true;
    this.#timer?.cancel();
    // The socket lives on for a moment, and holds nothing then.
    this.#lines.drop();
    this.#queue.length = 0;
    if (this.#working) this.#gone.abort(new Error("the client left"));
    this.#peers.remove(this);
  }
}

export class Peers {
  readonly pace: Pace;
  /** Shared with every connection: whose they are may be settled later. */
  readonly #deps: PeerDeps & { agent: AgentId };
  readonly #peers = new Set<Peer>();
  #busy = 0;

  constructor(deps: PeerDeps) {
    this.#deps = { ...deps };
    this.pace = createPace(deps.clock);
  }

  add(socket: Socket): void {
    if (this.#peers.size >= CONNECTIONS_MAX) this.#makeRoom();
    if (this.#peers.size >= CONNECTIONS_MAX) {
      socket.on("error", () => undefined);
      socket.end(errorFrame("too many connections of this agent, retry"), () => socket.destroy());
      return;
    }
    this.#peers.add(new Peer(this.#deps, this, socket));
  }

  /** Every connection, those that are open too, is this agent's from now on. */
  belongTo(agent: AgentId): void {
    this.#deps.agent = agent;
  }

  /** Containers whose PID 1 is connected now. */
  get hellos(): readonly string[] {
    return [...new Set([...this.#peers].flatMap((peer) => peer.hello ?? []))];
  }

  get held(): number {
    return this.#peers.values().reduce((sum, peer) => sum + peer.held, 0);
  }

  greet(container: string): void {
    const known = [...this.#peers].filter((peer) => peer.hello !== undefined);
    // Whoever says hello over and over loses the oldest connection, not the newest: a restarted PID 1 must be heard.
    if (known.length > HELLOS_MAX) known[0]?.end("too many hellos");
    this.#deps.onHello(this.#deps.agent.uid, container);
  }

  enter(): boolean {
    if (this.#busy >= BUSY_MAX) return false;
    this.#busy += 1;
    return true;
  }

  leave(): void {
    this.#busy -= 1;
  }

  remove(peer: Peer): void {
    this.#peers.delete(peer);
  }

  end(why: string): void {
    for (const peer of this.#peers) peer.end(why);
  }

  /** The connection that has been silent longest goes: a thousand silent ones must not keep the next call out. */
  #makeRoom(): void {
    for (const peer of this.#peers) if (peer.idle) return peer.end("idle, and others wait");
  }
}
