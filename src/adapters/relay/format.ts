// What a relay must know of a wire format: where it asks, what it adds, and how to read what matters of an answer.
import type { AssistantMessage } from "../../core/chat.ts";
import type { WireRequest } from "../../core/road.ts";

export type Json = Readonly<Record<string, unknown>>;

/** What an answer has told so far. */
export interface Memo {
  input: number;
  output: number;
  cacheRead: number;
  cacheWrite: number;
  stop?: AssistantMessage["stopReason"];
}

export const newMemo = (): Memo => ({ input: 0, output: 0, cacheRead: 0, cacheWrite: 0 });

/**
 * `shows`: content that a reader would see. `quiet`: nothing of it. `end`: the answer is whole. `error`: it failed.
 * `extra`: only the usage that we asked for ourselves.
 */
export type Word = "shows" | "quiet" | "end" | "error" | "extra";

/** One event's data: bytes `from` to `to` of a buffer. */
export interface Payload {
  readonly buffer: Buffer;
  readonly from: number;
  readonly to: number;
  /** Where the format's needle of this number comes next, at or after `from`; Infinity for nowhere. */
  readonly next: (needle: number, from: number) => number;
}

export interface Format {
  readonly path: string;
  readonly keyHeaders: (key: string) => Readonly<Record<string, string>>;
  /** Headers that every request of the format has. */
  readonly headers: Readonly<Record<string, string>>;
  /** Adds to a client's body what makes the provider tell its usage. */
  readonly body: (wire: WireRequest) => Json;
  /** Whether the client itself asked for the events that `extra` stands for. */
  readonly wantsExtra: (wire: WireRequest) => boolean;
  readonly needles: readonly Buffer[];
  /** Surely nothing but content, seen without parsing. Asked once content has been shown. */
  readonly plain: (payload: Payload) => boolean;
  /** Remembers what an event tells. */
  readonly read: (json: Json, memo: Memo) => Word;
  /** `[DONE]` ends an answer that has told why it stopped. */
  readonly marked: boolean;
  /** Reads an answer that was not streamed; false when it is none. */
  readonly whole: (json: Json, memo: Memo) => boolean;
}

export const isObject = (value: unknown): value is Json => typeof value === "object" && value !== null && !Array.isArray(value);
export const objectAt = (json: Json, key: string): Json => {
  const value = json[key];
  return isObject(value) ? value : {};
};
export const listAt = (json: Json, key: string): readonly unknown[] => {
  const value = json[key];
  return Array.isArray(value) ? value : [];
};
/** A count that a provider tells; `kept` where it tells none. */
export const count = (value: unknown, kept = 0): number =>
  typeof value === "number" && Number.isFinite(value) && value >= 0 ? value : kept;

const HEAD_MAX = 96;
/** The beginning of an event's data, enough to see its type. */
export const headOf = ({ buffer, from, to }: Payload): string => buffer.toString("latin1", from, Math.min(from + HEAD_MAX, to));
