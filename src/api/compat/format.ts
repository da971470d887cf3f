// What each compatible format gives: its requests as our words, our answers as its own, and its way to say no.
import type { AssistantMessage, ChatContext, ChatOptions, Usage } from "../../core/chat.ts";
import type { BeigeError } from "../../core/errors.ts";
import type { WireApi } from "../../core/road.ts";
import type { Unknowns } from "../fields.ts";
import type { Piece } from "./blocks.ts";

/** A request in our own words. */
export interface Asked {
  readonly context: ChatContext;
  /** Only what the client said. */
  readonly options: Partial<ChatOptions>;
  /** Fields that were left out without harm. */
  readonly dropped: readonly string[];
}

/** What every answer to one request carries. */
export interface Head {
  /** Random part of the answer's id. */
  readonly id: string;
  /** As the client named it. */
  readonly model: string;
  /** Milliseconds since the epoch. */
  readonly now: number;
  /** Of OpenAI's chat format: a last chunk with the usage was asked for. */
  readonly usage?: boolean;
}

/** Writes one streamed answer, each call giving the text of the next events. */
export interface Writer {
  begin(): string;
  piece(piece: Piece): string;
  end(message: Ended): string;
}

/** How an answer ended. */
export type Ended = Pick<AssistantMessage, "stopReason"> & { readonly usage: Usage };

export interface Format {
  readonly api: WireApi;
  /** Throws `invalid` naming the field that cannot be honoured. */
  read(body: Unknowns): Asked;
  /** Only what the client said; what is wrong is left out here and refused by `read`. */
  options(body: Unknowns): Partial<ChatOptions>;
  /** The same request with our words before the client's own instructions. */
  instructed(body: Unknowns, instructions: string): Unknowns;
  /** The client's own name of a conversation, where the format has a field for it. */
  session(body: Unknowns): string | undefined;
  whole(message: Pick<AssistantMessage, "content"> & Ended, head: Head): object;
  writer(head: Head): Writer;
  /** Where the format has another status for it. */
  readonly httpOf?: (fault: Fault) => number | undefined;
  /** Body of an error answer. */
  fault(fault: Fault): object;
  /** The error as an event of a stream that has begun. */
  faultEvent(fault: Fault): string;
}

/** An error on its way to a client of a compatible format. */
export interface Fault {
  readonly http: number;
  /** One sentence, with what mends it. */
  readonly message: string;
  readonly overflow: boolean;
  /** A budget is used up. */
  readonly quota: boolean;
  readonly retryAfterMs?: number;
  readonly code: BeigeError["code"];
}

export const event = (name: string, data: object): string => `event: ${name}\ndata: ${JSON.stringify(data)}\n\n`;
export const data = (value: object): string => `data: ${JSON.stringify(value)}\n\n`;

export function lenient(read: () => Partial<ChatOptions>): Partial<ChatOptions> {
  try {
    return read();
  } catch {
    return {};
  }
}
