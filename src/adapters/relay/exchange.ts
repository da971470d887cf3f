// One request to a provider and its answer: bounded, aborted at once, and never a clean end for an answer that was cut.
import { errorInside, refusalOf } from "../failure.ts";
import { NO_USAGE, priced } from "../../core/usage.ts";
import type { AssistantMessage, ChatFailure, ChatTarget } from "../../core/chat.ts";
import type { RelayEvent, Sending } from "../../core/road.ts";
import { createSplitter } from "./events.ts";
import { isObject, newMemo, type Format, type Memo } from "./format.ts";
import { createPipe, type Pipe } from "./pipe.ts";
import { createScanner, CUT } from "./scan.ts";
import type { Fault, Incoming, Post } from "./post.ts";

/** How much of each, and how long. */
export interface Limits {
  /** One event of a stream. */
  readonly eventBytes: number;
  /** One answer that is not streamed. */
  readonly wholeBytes: number;
  readonly streamBytes: number;
  /** Between two pieces of an answer, while the reader wants more. */
  readonly idleMs: number;
}

export const LIMITS: Limits = {
  eventBytes: 16 * 1024 * 1024,
  wholeBytes: 64 * 1024 * 1024,
  streamBytes: 256 * 1024 * 1024,
  idleMs: 300_000,
};
const ERROR_BODY_MAX = 65_536;

export interface Asked {
  readonly target: ChatTarget;
  readonly wire: Sending;
  readonly format: Format;
}

const TOO_LONG: ChatFailure = { message: "the provider's answer is too long" };

/** What an answer comes to, told to the reader once. */
interface Verdict {
  readonly done: (memo: Memo) => void;
  readonly failed: (failure: Fault) => void;
}

const messageOf = (target: ChatTarget, memo: Memo, failure?: ChatFailure): AssistantMessage => ({
  role: "assistant",
  content: [],
  api: target.api,
  provider: target.provider,
  model: target.model.id,
  usage:
    memo.input + memo.output + memo.cacheRead + memo.cacheWrite === 0 ? NO_USAGE : priced({ ...memo, totalTokens: 0 }, target.model.cost),
  stopReason: failure === undefined ? (memo.stop ?? "stop") : "error",
  ...(failure === undefined ? {} : { errorMessage: failure.message }),
  timestamp: Date.now(),
});

/** A failure of ours, before anything was sent. */
export async function* blankFailure(target: ChatTarget, message: string): AsyncGenerator<RelayEvent> {
  const failure: ChatFailure = { code: "invalid", message };
  yield await Promise.resolve({ type: "error", message: messageOf(target, newMemo(), failure), failure });
}

/** A stream: runs of whole events go on as they come. */
function streamed(asked: Asked, pipe: Pipe, more: { readonly memo: Memo; readonly limits: Limits; readonly verdict: Verdict }): Incoming {
  const { memo, limits, verdict } = more;
  const { format } = asked;
  const splitter = createSplitter();
  const scanner = createScanner(format, memo, { dropExtra: !format.wantsExtra(asked.wire) });
  let total = 0;
  const read = (events: Buffer): void => {
    const scanned = scanner.read(events);
    if (scanned.bytes !== undefined) pipe.push(scanned.bytes, scanned.shows);
    if (scanned.error !== undefined) verdict.failed(errorInside(scanned.error, Date.now()));
    else if (scanned.ended) verdict.done(memo);
  };
  return {
    data(chunk) {
      total += chunk.length;
      const events = splitter.add(chunk);
      if (total > limits.streamBytes || splitter.held() > limits.eventBytes) verdict.failed(TOO_LONG);
      else if (events !== undefined) read(events);
    },
    end() {
      // The last event may lack its blank line; one that was cut is no JSON, and says so only if nothing else does.
      const rest = splitter.rest();
      const scanned = rest.length === 0 ? undefined : scanner.read(Buffer.concat([rest, Buffer.from("\n\n")]));
      const whole = scanned?.ended === true || (format.marked && memo.stop !== undefined && scanned?.error === undefined);
      if (!whole) return verdict.failed(failureAtEnd(rest, total === rest.length));
      if (scanned?.bytes !== undefined) pipe.push(scanned.bytes, scanned.shows);
      // A reader of this format waits for the mark.
      if (scanned?.ended !== true) pipe.push(Buffer.from("data: [DONE]\n\n"), true);
      verdict.done(memo);
    },
  };
}

/** A page or an error object where a stream should be is told in its own words. */
function failureAtEnd(rest: Buffer, alone: boolean): ChatFailure {
  const text = alone ? rest.subarray(0, ERROR_BODY_MAX).toString().trim() : "";
  if (text === "" || text.startsWith("data:") || text.startsWith("event:")) return { message: CUT };
  return errorInside(text, Date.now());
}

/** An answer in one piece. */
function whole(asked: Asked, pipe: Pipe, more: { readonly memo: Memo; readonly limits: Limits; readonly verdict: Verdict }): Incoming {
  const { memo, limits, verdict } = more;
  const parts: Buffer[] = [];
  let size = 0;
  const judged = (bytes: Buffer): void => {
    const text = bytes.toString();
    let json: unknown;
    try {
      json = JSON.parse(text);
    } catch {
      return verdict.failed({ message: `the provider's answer is not JSON: ${text.slice(0, 200)}` });
    }
    const failed = isObject(json) && (isObject(json["error"]) || typeof json["error"] === "string");
    if (failed || !isObject(json) || !asked.format.whole(json, memo)) return verdict.failed(errorInside(text, Date.now()));
    pipe.push(bytes, true);
    verdict.done(memo);
  };
  return {
    data(chunk) {
      parts.push(chunk);
      size += chunk.length;
      if (size > limits.wholeBytes) verdict.failed(TOO_LONG);
    },
    end: () => judged(Buffer.concat(parts)),
  };
}

/** A refusal: its first bytes say why. */
function refused(head: { readonly status: number; readonly header: (name: string) => string | null }, verdict: Verdict): Incoming {
  const parts: Buffer[] = [];
  let size = 0;
  const told = (): void => {
    const body = Buffer.concat(parts).subarray(0, ERROR_BODY_MAX).toString();
    verdict.failed(refusalOf({ status: head.status, headers: { get: head.header }, body }, Date.now()));
  };
  return {
    data(chunk) {
      parts.push(chunk);
      size += chunk.length;
      if (size >= ERROR_BODY_MAX) told();
    },
    end: told,
    // The status is known: it counts for more than the way the words were cut.
    cut: told,
  };
}

/** Never throws; the last event is `done` or `error`. */
export function exchange(post: Post, asked: Asked, limits: Limits): AsyncIterableIterator<RelayEvent> {
  const memo = newMemo();
  const pipe = createPipe({ pause: () => call.pause(), resume: () => call.resume(), leave: () => call.destroy() });
  const verdict: Verdict = {
    done(told) {
      pipe.end({ type: "done", message: messageOf(asked.target, told) });
      call.finish();
    },
    failed({ aborted, ...failure }) {
      const message = messageOf(asked.target, memo, failure);
      pipe.end({ type: "error", message: aborted === true ? { ...message, stopReason: "aborted" } : message, failure });
      call.destroy();
    },
  };
  const call = post(asked, {
    idleMs: limits.idleMs,
    answered: (head) => {
      if (head.status < 200 || head.status > 299) return refused(head, verdict);
      const more = { memo, limits, verdict };
      return asked.wire.stream ? streamed(asked, pipe, more) : whole(asked, pipe, more);
    },
    failed: verdict.failed,
  });
  return pipe.events;
}
