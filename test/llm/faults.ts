// Everything that a provider may do wrong, for a local server that speaks its format, and what must come of it.
import type { ServerResponse } from "node:http";
import { SPOKEN, type Api } from "./formats.ts";
import { refuseWith, sse, type Handler } from "./wire.ts";

/** How the provider is asked: by the SDK, or with a client's own bytes. */
export type Way = "sdk" | "stream" | "whole";

/**
 * `first`: it answers after all. `next`: the next model does. `stop`: no other is asked, the caller gets the error.
 * `cut`: the caller saw a part, and is told so.
 */
export type Outcome = "first" | "next" | "stop" | "cut";

export interface Fault {
  readonly name: string;
  readonly handler: (api: Api, way: Way) => Handler;
  readonly outcome: Outcome;
  /** Where nothing is streamed nothing was forwarded yet. */
  readonly whole?: Outcome;
  /** That the audit row must name. */
  readonly status?: number;
  readonly timeoutSeconds?: number;
  /** The provider is not there at all. */
  readonly refused?: boolean;
}

const PARTS = ["Hel", "lo"];
const spoken = (api: Api): (typeof SPOKEN)[Api] => SPOKEN[api];
const whole = (response: ServerResponse): void => void response.writeHead(200, { "content-type": "application/json" });
const answer = (api: Api, way: Way): string => (way === "whole" ? (spoken(api).whole?.(PARTS.join("")) ?? "") : spoken(api).text(PARTS));
const start = (response: ServerResponse, way: Way): void => (way === "whole" ? whole(response) : sse(response));
/** A part of an answer that shows some of its text. */
const part = (api: Api, way: Way): string => (way === "whole" ? answer(api, way).slice(0, 40) : spoken(api).unended(PARTS));

const refusal = (status: number, outcome: Outcome, headers: Record<string, string> = {}, words = "it is so"): Fault => ({
  name: `HTTP ${status}${Object.keys(headers)
    .map((name) => ` ${name}`)
    .join("")}`,
  handler: (api) => refuseWith(status, spoken(api).refusal(status, words), headers),
  outcome,
  status,
});

const sends = (name: string, text: (api: Api, way: Way) => string, outcome: Outcome, more: Partial<Fault> = {}): Fault => ({
  name,
  handler: (api, way) => (response) => {
    start(response, way);
    response.end(text(api, way));
  },
  outcome,
  ...more,
});

const drip: Handler = () => undefined;

/** Writes without end, as fast as it is read. */
function flood(response: ServerResponse): void {
  const block = Buffer.alloc(1024 * 1024, 0x61);
  response.on("error", () => undefined);
  const more = (): void => {
    while (!response.destroyed && response.write(block));
    if (!response.destroyed) response.once("drain", more);
  };
  more();
}

export const FAULTS: readonly Fault[] = [
  sends("none", answer, "first"),
  {
    name: "byte by byte",
    handler: (api, way) => async (response) => {
      start(response, way);
      for (const byte of Buffer.from(answer(api, way))) {
        response.write(Buffer.of(byte));
        await new Promise((next) => setImmediate(next));
      }
      response.end();
    },
    outcome: "first",
  },
  refusal(429, "next"),
  refusal(429, "next", { "retry-after": "7" }),
  refusal(429, "next", { "retry-after-ms": "1500" }),
  { ...refusal(429, "next", { "retry-after": new Date(Date.now() + 45_000).toUTCString() }), name: "HTTP 429 retry-after date" },
  {
    name: "HTTP 429 wait in the body",
    handler: () => refuseWith(429, '{"error":{"message":"slow","retry_after_seconds":59}}'),
    outcome: "next",
    status: 429,
  },
  refusal(408, "next"),
  refusal(409, "next"),
  refusal(425, "next"),
  refusal(500, "next"),
  refusal(503, "next"),
  refusal(529, "next"),
  {
    ...refusal(502, "next"),
    name: "HTTP 502 with HTML",
    handler: () => refuseWith(502, `<html>${"x".repeat(1_000_000)}</html>`, { "content-type": "text/html" }),
  },
  refusal(400, "stop"),
  refusal(401, "stop"),
  refusal(402, "stop"),
  refusal(403, "stop"),
  refusal(404, "stop"),
  refusal(422, "stop"),
  { ...refusal(400, "stop", {}, "prompt is too long: 9 tokens > 8 maximum"), name: "context too long" },
  {
    name: "HTTP 307 redirect",
    handler: () => (response) => void response.writeHead(307, { location: "http://127.0.0.1:9/" }).end(),
    outcome: "stop",
    status: 307,
  },
  { name: "refused", handler: () => drip, outcome: "next", refused: true },
  { name: "reset", handler: () => (response) => void response.socket?.resetAndDestroy(), outcome: "next" },
  { name: "silent", handler: () => drip, outcome: "next", timeoutSeconds: 0.25 },
  {
    name: "headers, then silent",
    handler: (_, way) => (response) => (start(response, way), response.flushHeaders()),
    outcome: "next",
    timeoutSeconds: 0.25,
  },
  sends("error event first", (api) => spoken(api).errorEvent, "next"),
  sends("limit event first", (api) => spoken(api).limitEvent, "next"),
  sends("error event inside", (api) => spoken(api).unended(PARTS) + spoken(api).errorEvent, "cut", { whole: "next" }),
  sends("200 with an error object", (api) => spoken(api).refusal(500, "broken"), "next"),
  sends("200 with HTML", () => "<html>welcome to the hotel</html>", "next"),
  sends("200 with nothing", () => "", "next"),
  sends("junk JSON", () => "data: {not json\n\n", "next"),
  sends("junk JSON inside", (api) => `${spoken(api).unended(PARTS)}data: {"half": \n\n`, "cut", { whole: "next" }),
  sends("no terminal event", part, "cut", { whole: "next" }),
  {
    name: "dropped inside",
    handler: (api, way) => (response) => {
      start(response, way);
      response.write(part(api, way), () => setTimeout(() => response.socket?.destroy(), 10));
    },
    outcome: "cut",
    whole: "next",
  },
  {
    name: "silent inside",
    handler: (api, way) => (response) => {
      start(response, way);
      response.write(part(api, way));
    },
    outcome: "cut",
    whole: "next",
    timeoutSeconds: 0.4,
  },
  { name: "a line without end", handler: (_, way) => (response) => (start(response, way), flood(response)), outcome: "next" },
];
