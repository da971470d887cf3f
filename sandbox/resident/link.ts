// The connection to the supervisor of one sandbox: opened, checked, opened anew when it breaks, and shared by all its commands.
import { BeigeError } from "../../src/core/errors.ts";
import type { Clock, Log } from "../../src/core/world.ts";
import { createReader, encode, helloBody, PAD, readHello, type Hello, type Incoming, type Outgoing } from "./frames.ts";
import { createJob, type Job } from "./job.ts";

const HELLO_AGAIN_MS = 250;
const HELLO_MS = 5000;
const QUIET_MS = 10_000;
const PONG_MS = 5000;
/** A start that takes longer is looked into: the sandbox may be paused. */
const LOOK_MS = 1000;
const BACKOFF_MS = 50;
const BACKOFF_MAX_MS = 2000;

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
  /** Of this gateway: grows with every start, so that the supervisor refuses an older one. */
  readonly epoch: number;
  readonly nonce: () => Buffer;
  readonly clock: Clock;
  readonly log: Log;
}

export interface Link {
  /** Starts a command. Throws `unavailable` when the supervisor cannot be reached. */
  start(spec: Buffer, limitMs: number): Promise<Job>;
  readonly jobs: () => number;
  close(): void;
}

interface State {
  carrier?: Carrier;
  opening?: Promise<void>;
  sess: number;
  boot?: string;
  next: number;
  heard: number;
  closed: boolean;
  readonly jobs: Map<number, Job>;
}

const refused = (why: string): BeigeError => new BeigeError("unavailable", `the sandbox's supervisor does not answer: ${why}`);

/** Greets until it is answered. Answers the hello, and what came behind it. */
async function greet(
  options: LinkOptions,
  state: State,
  carrier: Carrier,
  on: { frames(f: readonly Incoming[]): void; broken(): void },
): Promise<Hello> {
  const { clock, epoch } = options;
  const nonce = options.nonce();
  const sess = (state.sess = nonce.readUInt32LE(0));
  const answer = Promise.withResolvers<Hello>();
  const read = createReader(nonce);
  let open = false;
  const take = (chunk: Uint8Array): void => {
    state.heard = clock.monotonic();
    let frames = read(chunk);
    if (frames[0]?.type === "f") return broken("a newer gateway has it");
    if (frames.some((frame) => frame.sess !== sess)) return broken("another gateway opened it");
    if (!open && frames[0] !== undefined) {
      open = true;
      answer.resolve(readHello(frames[0].data));
      frames = frames.slice(1);
    }
    if (frames.length > 0) on.frames(frames.filter((frame) => frame.type !== "h"));
  };
  const broken = (why: string): void => {
    carrier.destroy();
    answer.reject(refused(why));
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
      if (clock.monotonic() - since > HELLO_MS) return broken(`no hello within ${HELLO_MS / 1000} s`);
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

export function createLink(options: LinkOptions): Link {
  const { clock } = options;
  const state: State = { sess: 0, next: 0, heard: 0, closed: false, jobs: new Map() };
  const send = (frame: Omit<Outgoing, "sess">): void => state.carrier?.write(encode({ ...frame, sess: state.sess }));
  const lose = (reason: string): void => {
    for (const job of [...state.jobs.values()]) job.lost(reason);
  };
  const frames = (list: readonly Incoming[]): void => {
    for (const frame of list) {
      if (frame.type === "q") throw new Error("the supervisor read a broken frame");
      const job = state.jobs.get(frame.cmd);
      if (job !== undefined) job.take(frame);
      // Left by a gateway that is gone: its end is taken, then it is forgotten.
      else if (frame.type === "o") send({ type: "A", cmd: frame.cmd, off: frame.off + frame.data.length });
      else if (frame.type === "x") send({ type: "F", cmd: frame.cmd });
    }
  };
  const welcome = (hello: Hello): void => {
    if (state.boot !== undefined && state.boot !== hello.boot) lose("the sandbox was started anew");
    state.boot = hello.boot;
    state.next = Math.max(state.next, hello.last);
    const known = new Map(hello.known.map((one) => [one.cmd, one]));
    for (const job of [...state.jobs.values()]) job.resume(known.get(job.cmd), hello.last);
    for (const one of hello.known) {
      if (state.jobs.has(one.cmd)) continue;
      send({ type: "K", cmd: one.cmd });
      send({ type: "R", cmd: one.cmd, off: one.acked });
    }
  };
  const openOnce = async (): Promise<void> => {
    const carrier = await options.connect(AbortSignal.timeout(HELLO_MS));
    state.carrier = carrier;
    const broken = (): void => {
      if (state.carrier !== carrier) return;
      delete state.carrier;
      if (state.jobs.size > 0 && !state.closed) void again();
    };
    try {
      welcome(await greet(options, state, carrier, { frames, broken }));
    } catch (error) {
      if (state.carrier === carrier) delete state.carrier;
      carrier.destroy();
      throw error;
    }
    watch(carrier);
  };
  /** A connection that says nothing for long is asked, and given up when it does not answer. */
  const watch = (carrier: Carrier): void => {
    clock.after(QUIET_MS, () => {
      if (state.carrier !== carrier) return;
      const asked = clock.monotonic();
      if (asked - state.heard < QUIET_MS) return watch(carrier);
      send({ type: "P", data: Buffer.alloc(8) });
      clock.after(PONG_MS, () => {
        if (state.carrier !== carrier) return;
        if (state.heard < asked) carrier.destroy();
        else watch(carrier);
      });
    });
  };
  const ensure = (): Promise<void> => {
    if (state.carrier !== undefined && state.opening === undefined) return Promise.resolve();
    state.opening ??= openOnce().finally(() => delete state.opening);
    return state.opening;
  };
  /** While commands wait: until they can be heard again, or have ended with the sandbox. */
  const again = async (): Promise<void> => {
    for (let pause = BACKOFF_MS; state.jobs.size > 0 && !state.closed; pause = Math.min(pause * 2, BACKOFF_MAX_MS)) {
      const fate = await options.fate();
      if (fate.state === "ended") return lose(fate.reason);
      if (
        await ensure().then(
          () => true,
          () => false,
        )
      )
        return;
      await clock.sleep(pause);
    }
  };
  const close = (): void => {
    state.closed = true;
    const { carrier } = state;
    delete state.carrier;
    carrier?.destroy();
  };
  return {
    async start(spec, limitMs) {
      await ensure();
      const cmd = ++state.next;
      const job = createJob({ cmd, spec, send, onEnd: () => void state.jobs.delete(cmd) });
      state.jobs.set(cmd, job);
      // As after a broken connection: not known there, so it is sent whole.
      job.resume(undefined, cmd - 1);
      const look = clock.after(LOOK_MS, () => {
        void options.fate().then(({ state: now, reason }) => {
          if (now === "paused" || now === "ended") job.lost(reason);
        });
      });
      const timer = clock.after(limitMs, () => job.lost("its supervisor did not start the command in time"));
      await job.started.finally(() => {
        look.cancel();
        timer.cancel();
      });
      const exit = job.ended() ? await job.handle.exit : undefined;
      if (exit?.kind === "lost") throw new BeigeError("unavailable", exit.reason);
      return job;
    },
    jobs: () => state.jobs.size,
    close,
  };
}
