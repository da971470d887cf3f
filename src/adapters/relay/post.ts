// Sends one request with node:http and feels everything that can happen to it: no redirect, no retry, no waiting for ever.
import { Agent as PlainAgent, request as plainRequest, type ClientRequest, type IncomingMessage } from "node:http";
import { Agent as TlsAgent, request as tlsRequest } from "node:https";
import { nextTick } from "node:process";
import type { ChatFailure } from "../../core/chat.ts";
import type { Asked } from "./exchange.ts";

const IDLE_SOCKET_MS = 30_000;
const FREE_SOCKETS_MAX = 256;
const HEADER_BYTES_MAX = 65_536;
/** After the end of an answer its connection may serve again, if it comes to rest soon. */
const REST_MS = 1000;
const REST_BYTES = 65_536;

/** Takes the body of an answer. */
export interface Incoming {
  data(chunk: Buffer): void;
  end(): void;
  /** Cut off; without this it is a failure of the network. */
  cut?(): void;
}
export interface Head {
  readonly status: number;
  readonly header: (name: string) => string | null;
}
export type Fault = ChatFailure & { readonly aborted?: boolean };
export interface Listener {
  readonly idleMs: number;
  answered(head: Head): Incoming;
  failed(fault: Fault): void;
}
export interface Call {
  pause(): void;
  resume(): void;
  /** Everything that is wanted has come. */
  finish(): void;
  destroy(): void;
}
export type Post = (asked: Asked, listener: Listener) => Call;

export interface Agents {
  readonly plain: PlainAgent;
  readonly tls: TlsAgent;
}
export function createAgents(): Agents {
  const options = { keepAlive: true, timeout: IDLE_SOCKET_MS, maxFreeSockets: FREE_SOCKETS_MAX };
  return { plain: new PlainAgent(options), tls: new TlsAgent(options) };
}

interface Prepared {
  readonly url: URL;
  readonly body: string;
  readonly headers: Readonly<Record<string, string>>;
}

function prepared({ target, wire, format }: Asked): Prepared {
  return {
    url: new URL(`${(target.baseUrl ?? "").replace(/\/+$/, "")}${format.path}`),
    body: JSON.stringify({ ...format.body(wire), model: target.model.id, ...(wire.stream ? { stream: true } : {}) }),
    headers: {
      "content-type": "application/json",
      accept: wire.stream ? "text/event-stream" : "application/json",
      "user-agent": "beige",
      ...format.headers,
      ...wire.headers,
      ...(target.apiKey === undefined ? {} : format.keyHeaders(target.apiKey)),
    },
  };
}

/** A connection is had, and nothing is written to it: node:http sends a head with the first byte of its body. */
function opened(agents: Agents, { url, headers }: Prepared): ClientRequest {
  const secure = url.protocol === "https:";
  const options = {
    method: "POST",
    agent: secure ? agents.tls : agents.plain,
    hostname: url.hostname.replace(/^\[|\]$/g, ""),
    port: url.port,
    path: `${url.pathname}${url.search}`,
    headers,
    maxHeaderSize: HEADER_BYTES_MAX,
  };
  return (secure ? tlsRequest : plainRequest)(options);
}

const headOf = (response: IncomingMessage): Head => ({
  status: response.statusCode ?? 0,
  header: (name) => {
    const value = response.headers[name];
    return value === undefined ? null : Array.isArray(value) ? value.join(",") : value;
  },
});

const wordsOf = (error: Error): string => {
  const code = "code" in error && typeof error.code === "string" ? error.code : "";
  return `connection failed: ${error.message === "" ? code : error.message}`;
};

export function postWith(agents: Agents, signal: AbortSignal): Post {
  return (asked, listener) => {
    let request: ClientRequest | undefined;
    let response: IncomingMessage | undefined;
    let incoming: Incoming | undefined;
    // `over`: nothing more is wanted. `paused`: the reader is slow, which is nobody's failure.
    let [over, paused, sent, resting] = [false, false, false, 0];
    const stop = (fault: Fault): void => {
      if (!over) listener.failed(fault);
    };
    const destroy = (): void => {
      over = true;
      clearTimeout(timer);
      signal.removeEventListener("abort", abort);
      request?.destroy();
    };
    const abort = (): void => {
      stop({ message: "aborted", aborted: true });
      destroy();
    };
    const idle = (): void => {
      if (over) destroy();
      // Neither a slow reader nor a slow disk is the provider's silence.
      else if (paused || !sent) timer.refresh();
      else stop({ message: `the provider was silent for ${Math.round(silentMs / 1000)} s` });
    };
    // Until the first byte a provider may think as long as the whole answer may take.
    let silentMs = Math.min(asked.target.timeoutMs, 2 ** 31 - 1);
    let timer = setTimeout(idle, silentMs);
    const cut = (error: Error): void => {
      if (over) return;
      // A kept connection may end while the record is waited for: nothing of the question has left, and another one takes it.
      if (!sent && ready !== undefined && request?.reusedSocket === true) return dial(ready);
      if (incoming?.cut === undefined) stop({ message: wordsOf(error) });
      else incoming.cut();
    };
    const watch = (ms: number): void => {
      clearTimeout(timer);
      silentMs = ms;
      timer = setTimeout(idle, ms);
    };

    const read = (step: () => void): void => {
      try {
        step();
      } catch (error) {
        stop({ message: `the answer cannot be read: ${error instanceof Error ? error.message : "unknown"}` });
      }
    };
    const heard = (got: IncomingMessage): void => {
      response = got;
      got.on("error", cut).on("aborted", () => cut(new Error("cut off")));
      if (over) return void got.resume();
      // It cannot be an answer to what it has not heard, nor may anything count as one that is not recorded yet.
      if (!sent) return stop({ message: "the provider answered before it was asked" });
      const encoding = got.headers["content-encoding"] ?? "identity";
      if (encoding !== "identity") return stop({ message: `the provider answered in encoding '${encoding}', which was not asked for` });
      const body = listener.answered(headOf(got));
      incoming = body;
      watch(Math.min(listener.idleMs, asked.target.timeoutMs));
      got.on("data", (chunk: Buffer) => {
        if (over) return (resting += chunk.length) > REST_BYTES ? destroy() : undefined;
        timer.refresh();
        read(() => body.data(chunk));
      });
      got.on("end", () => {
        if (!over) read(() => body.end());
        clearTimeout(timer);
      });
    };

    const { after } = asked.wire;
    let free = after === undefined;
    let ready: Prepared | undefined;
    const leave = (): void => {
      if (!free || over || ready === undefined) return;
      sent = true;
      timer.refresh();
      request?.end(ready.body);
    };
    const dial = (to: Prepared): void => {
      request = opened(agents, to).on("response", heard).on("error", cut);
    };
    signal.addEventListener("abort", abort, { once: true });
    after?.then(() => {
      free = true;
      leave();
    }, destroy);
    // Who waits for the disk has a turn of the event loop: the disk is asked first.
    (free ? nextTick : setImmediate)(() => {
      if (over) return;
      if (signal.aborted) return abort();
      try {
        ready = prepared(asked);
        dial(ready);
        leave();
      } catch (error) {
        // What cannot be sent is said without its values: one of them is the key.
        stop({ message: `the request cannot be sent: ${error instanceof Error && "code" in error ? String(error.code) : "invalid"}` });
      }
    });
    return {
      pause: () => {
        paused = true;
        response?.pause();
      },
      resume: () => {
        paused = false;
        timer.refresh();
        response?.resume();
      },
      finish: () => {
        over = true;
        signal.removeEventListener("abort", abort);
        if (response?.complete === true) clearTimeout(timer);
        else watch(REST_MS);
        response?.resume();
      },
      destroy,
    };
  };
}
