// The connection to the supervisor of one sandbox: opened, checked, opened anew when it breaks, and shared by all its commands.
import { BeigeError } from "../../src/core/errors.ts";
import { encode, type Hello, type Incoming, type Known, type Outgoing } from "./frames.ts";
import { greet, HELLO_MS, refused, type Carrier, type LinkOptions } from "./greet.ts";
import { createJob, type Job } from "./job.ts";
import { BACKOFF_MS, begin, keepForLater, whyNot } from "./line.ts";
import { quicken } from "./quick.ts";
import type { Piece, Spill } from "./state.ts";

const QUIET_MS = 10_000;
const PONG_MS = 5000;
/** A start that takes longer is looked into: the sandbox may be paused. */
const LOOK_MS = 1000;
const BACKOFF_MAX_MS = 2000;
/** A connection that lived this long was a sound one; after others there is a rest, the longer the more of them. */
const STEADY_MS = 1000;
const BREAK_MS = 20;
const BREAKS_MAX = 10;
/** How long an ended command can still be had by the next gateway, and how many of them. */
const LINGER_MS = 2000;
const LINGERING_MAX = 64;

export interface Begin {
  readonly spec: Buffer;
  readonly limitMs: number;
  /** For a command that outlives this gateway: called before it is sent. */
  readonly keep?: (boot: string, cmd: number) => Spill;
  /** Nobody will ask for it any more. */
  readonly forgotten?: () => void;
}

export interface Again {
  readonly cmd: number;
  readonly boot: string;
  readonly past: readonly Piece[];
  readonly spill: Spill;
  /** Absent when its input had not ended with the gateway that sent it. */
  readonly inputBytes?: number;
  /** Whoever asks can read the input again, and goes on with it from where the command has it. */
  readonly inputKept?: boolean;
  readonly forgotten: () => void;
}

export interface Link {
  /** Starts a command. Throws `unavailable` when the supervisor cannot be reached. */
  start(begin: Begin): Promise<Job>;
  rejoin(again: Again): Promise<Job>;
  /** Opens it where it is not. */
  open(): Promise<void>;
  /** Commands that run, and that the supervisor keeps. */
  readonly jobs: () => number;
  /** Commands that run are lost to it, and go on inside unless the sandbox was removed. */
  close(reason: string, removed: boolean): void;
}

export function createLink(options: LinkOptions): Link {
  const { clock } = options;
  const state = begin();
  const send = (frame: Omit<Outgoing, "sess">): void => {
    if (state.quiet) keepForLater(state, frame);
    else state.carrier?.write(encode({ ...frame, sess: state.sess }));
  };
  const lose = (reason: string): void => {
    for (const job of state.jobs.values()) job.lost(reason);
  };
  const endStranger = ({ cmd, acked }: Pick<Known, "cmd" | "acked">): void => {
    send({ type: "K", cmd });
    send({ type: "R", cmd, off: acked });
  };
  const take = (frame: Incoming): void => {
    const { cmd } = frame;
    if (frame.type === "q") throw new Error("the supervisor read a broken frame");
    if (frame.type === "p") return state.onPong?.(true);
    const job = state.jobs.get(cmd);
    if (job !== undefined) return job.take(frame);
    if (state.lingering.has(cmd)) return;
    // Nobody here waits for it: its end is taken, then it is forgotten.
    if (frame.type === "o") send({ type: "A", cmd, off: frame.off + frame.data.length });
    if (frame.type !== "x") return;
    send({ type: "F", cmd });
    state.strangers.delete(cmd);
    state.given.delete(cmd);
  };
  const linger = (cmd: number, forgotten: () => void): void => {
    const end = (): void => {
      if (!state.lingering.delete(cmd)) return;
      timer.cancel();
      send({ type: "F", cmd });
      forgotten();
    };
    const timer = clock.after(LINGER_MS, end);
    state.lingering.set(cmd, end);
    if (state.lingering.size > LINGERING_MAX) state.lingering.values().next().value?.();
  };
  const hold = (cmd: number, forgotten: (() => void) | undefined): ((told: boolean) => void) => {
    return (told) => {
      state.jobs.delete(cmd);
      if (told && forgotten !== undefined && !state.closed) return linger(cmd, forgotten);
      if (told) send({ type: "F", cmd });
      else state.given.add(cmd);
      if (!state.closed || state.removed) forgotten?.();
    };
  };
  const endStrangers = (): void => {
    for (const one of state.strangers.values()) if (!state.jobs.has(one.cmd)) endStranger(one);
  };
  const welcome = (hello: Hello): void => {
    if (state.hello !== undefined && state.hello.boot !== hello.boot) {
      lose("the sandbox was started anew");
      state.next = 0;
      state.given.clear();
      for (const end of state.lingering.values()) end();
    }
    state.hello = hello;
    state.quiet = false;
    state.opened = clock.monotonic();
    state.next = Math.max(state.next, hello.last);
    const known = new Map(hello.known.map((one) => [one.cmd, one]));
    state.strangers.clear();
    for (const one of hello.known) {
      if (state.given.has(one.cmd)) endStranger(one);
      else if (!state.jobs.has(one.cmd) && !state.lingering.has(one.cmd)) state.strangers.set(one.cmd, one);
    }
    for (const cmd of state.given) if (!known.has(cmd)) state.given.delete(cmd);
    for (const job of state.jobs.values()) job.resume(known.get(job.cmd), hello.last);
    for (const frame of state.later.splice(0)) if (state.jobs.has(frame.cmd ?? 0)) send(frame);
    const left = options.strangersUntil - state.opened;
    if (left <= 0) endStrangers();
    else if (state.strangers.size > 0) clock.after(left, () => void (state.hello === hello && endStrangers()));
  };
  const openOn = async (carrier: Carrier, limitMs = HELLO_MS): Promise<void> => {
    state.carrier = carrier;
    const broken = (): void => {
      if (state.carrier !== carrier) return;
      delete state.carrier;
      state.quiet = true;
      state.onPong?.(false);
      void mend();
    };
    try {
      welcome(await greet(options, state, carrier, { frames: (list) => list.forEach(take), broken, limitMs }));
    } catch (error) {
      if (state.carrier === carrier) delete state.carrier;
      carrier.destroy();
      throw error;
    }
    watch(carrier);
  };
  const openOnce = async (): Promise<void> => {
    if (state.fenced !== undefined || state.closed) throw refused(state.fenced ?? "the connection was closed");
    state.quiet = true;
    const carrier = await options.connect(AbortSignal.timeout(HELLO_MS));
    await openOn(carrier);
    void quicken({ options, state, openOn, reopen: openOnce, mend }, carrier, (data) => send({ type: "D", data }));
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
  const open = (): Promise<void> => {
    if (state.carrier !== undefined && state.opening === undefined) return Promise.resolve();
    state.opening ??= openOnce().finally(() => delete state.opening);
    return state.opening;
  };
  const opened = (): Promise<boolean> =>
    open().then(
      () => true,
      () => false,
    );
  /** While commands wait: until they can be heard again, or have ended with the sandbox. */
  const mend = async (): Promise<void> => {
    if (state.mending) return;
    state.mending = true;
    const steady = clock.monotonic() - state.opened >= STEADY_MS;
    state.pause = BACKOFF_MS;
    state.breaks = steady ? 0 : Math.min(state.breaks + 1, BREAKS_MAX);
    if (state.breaks > 0) await clock.sleep(BREAK_MS * state.breaks);
    while (state.jobs.size > 0 && !state.closed) {
      const fate = await options.fate();
      if (fate.state === "ended") lose(fate.reason);
      else if (await opened()) break;
      else if (state.fenced !== undefined) lose(state.fenced);
      else await clock.sleep((state.pause = Math.min(state.pause * 2, BACKOFF_MAX_MS)));
    }
    state.mending = false;
    // It may have broken again while this one was on its way out.
    if (state.carrier === undefined && state.opening === undefined && state.jobs.size > 0 && !state.closed) void mend();
  };
  const begun = async (job: Job, limitMs: number): Promise<Job> => {
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
  };
  return {
    async start({ spec, limitMs, keep, forgotten }) {
      await open();
      const cmd = ++state.next;
      const spill = keep?.(state.hello?.boot ?? "", cmd);
      const onEnd = hold(cmd, forgotten);
      const job = createJob({ cmd, spec, send, onEnd, ...(spill === undefined ? {} : { spill }) });
      state.jobs.set(cmd, job);
      // As after a broken connection: not known there, so it is sent whole.
      job.resume(undefined, cmd - 1);
      if (state.carrier === undefined) void mend();
      return begun(job, limitMs);
    },
    async rejoin({ cmd, boot, past, spill, inputBytes, inputKept, forgotten }) {
      await open();
      const known = state.hello?.boot === boot ? state.strangers.get(cmd) : undefined;
      const bytes = past.reduce((sum, { data }) => sum + data.length, 0);
      const why = whyNot(known, bytes, { inputBytes, inputKept });
      state.strangers.delete(cmd);
      if (known === undefined || why !== undefined) {
        if (known !== undefined) {
          state.given.add(cmd);
          endStranger(known);
        }
        const job = createJob({ cmd, past, send: () => undefined, onEnd: forgotten });
        job.lost(why ?? "");
        return job;
      }
      const job = createJob({ cmd, past, spill, send, onEnd: hold(cmd, forgotten), inputBytes: known.stdin });
      state.jobs.set(cmd, job);
      job.resume(known, state.hello?.last ?? 0);
      // It may have broken between the two.
      if (state.carrier === undefined) void mend();
      if (inputBytes !== undefined && known.stdin >= inputBytes) await job.handle.end();
      else return { ...job, handle: { ...job.handle, inputFrom: known.stdin } };
      return job;
    },
    open,
    jobs: () => state.jobs.size + state.lingering.size + state.strangers.size,
    close(reason, removed) {
      state.closed = true;
      state.removed = removed;
      state.over.abort();
      state.onPong?.(false);
      const { carrier } = state;
      delete state.carrier;
      carrier?.destroy();
      lose(reason);
    },
  };
}
