// Opens a connection to a supervisor: greets until it is answered, and from then on takes nothing but frames of this connection.
import { BeigeError } from "../../src/core/errors.ts";
import type { Clock, Log } from "../../src/core/world.ts";
import { createReader, encode, helloBody, PAD, readHello, type Hello, type Incoming } from "./frames.ts";

const HELLO_AGAIN_MS = 250;
export const HELLO_MS = 5000;

/** Bytes both ways between the gateway and PID 1, whatever carries them. */
export interface Carrier {
  write(data: Uint8Array): void;
  /** Called once, before anything is written. Reading never stops: who does not read here holds up everybody. */
  start(on: { data(chunk: Uint8Array): void; close(): void }): void;
  destroy(): void;
}

/** What became of a sandbox, as far as is known. Looking is bounded in time and never rejects. */
export interface Fate {
  readonly state: "running" | "paused" | "ended" | "unknown";
  /** A sentence, for `paused` and `ended`. */
  readonly reason: string;
}

export interface LinkOptions {
  /** Rejects when there is nobody to connect to. */
  readonly connect: (signal: AbortSignal) => Promise<Carrier>;
  readonly fate: () => Promise<Fate>;
  /** The supervisor's own connection after it was told to make one by `say`; undefined when it does not come. Never rejects. */
  readonly dial?: (say: (body: Buffer) => void, signal: AbortSignal) => Promise<Carrier | undefined>;
  /** Of this gateway: grows with every start, so that the supervisor refuses an older one. */
  readonly epoch: number;
  readonly nonce: () => Buffer;
  readonly clock: Clock;
  readonly log: Log;
  /** Until then (monotonic) commands of an older gateway wait to be taken up again; afterwards they are ended. */
  readonly strangersUntil: number;
}

export interface Line {
  sess: number;
  /** When something was heard last. */
  heard: number;
  /** Why this gateway will never be answered again. */
  fenced?: string;
}

export const refused = (why: string): BeigeError => new BeigeError("unavailable", `the sandbox's supervisor does not answer: ${why}`);

/** Greets until it is answered. Answers the hello, and what came behind it. */
export async function greet(
  options: LinkOptions,
  state: Line,
  carrier: Carrier,
  on: { frames(f: readonly Incoming[]): void; broken(): void; readonly limitMs?: number },
): Promise<Hello> {
  const { clock, epoch } = options;
  const { limitMs = HELLO_MS } = on;
  const nonce = options.nonce();
  const sess = (state.sess = nonce.readUInt32LE(0));
  const answer = Promise.withResolvers<Hello>();
  const read = createReader(nonce);
  let open = false;
  let over = false;
  const take = (chunk: Uint8Array): void => {
    state.heard = clock.monotonic();
    const all = read(chunk);
    // An older gateway's refusal is heard by everybody.
    let frames = all.filter((frame) => frame.type !== "f" || frame.data.subarray(0, nonce.length).equals(nonce));
    if (frames.some((frame) => frame.type === "f")) return broken((state.fenced = "a newer gateway has it"));
    if (frames.some((frame) => frame.sess !== sess)) return broken("another gateway opened it");
    if (!open && frames[0] !== undefined) {
      open = true;
      answer.resolve(readHello(frames[0].data));
      frames = frames.slice(1);
    }
    if (frames.length > 0) on.frames(frames.filter((frame) => frame.type !== "h"));
  };
  const broken = (why: string): void => {
    // A carrier may say at once that it is destroyed: the first reason is the one that counts.
    if (over) return;
    over = true;
    answer.reject(refused(why));
    carrier.destroy();
    on.broken();
  };
  carrier.start({
    data: (chunk) => {
      try {
        take(chunk);
      } catch (error) {
        broken(error instanceof Error ? error.message : String(error));
      }
    },
    close: () => broken("the connection ended"),
  });
  carrier.write(PAD);
  const say = (): void => carrier.write(encode({ type: "H", sess, data: helloBody(epoch, sess, nonce) }));
  say();
  const since = clock.monotonic();
  const again = (): { cancel(): void } =>
    clock.after(HELLO_AGAIN_MS, () => {
      if (clock.monotonic() - since > limitMs) return broken(`no hello within ${limitMs / 1000} s`);
      say();
      timer = again();
    });
  let timer = again();
  try {
    return await answer.promise;
  } finally {
    timer.cancel();
  }
}
