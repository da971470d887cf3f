// Accepts messages, keeps one queue a session, and starts again after a crash what had not been answered.
import { BeigeError, asBeigeError } from "../core/errors.ts";
import type { SessionDesk } from "../core/session.ts";
import type { RunTurn, TurnEvent, TurnRequest } from "../core/turn.ts";
import type { Clock, Providers, Sessions, Turns } from "../core/world.ts";
import { commandIn } from "./commands.ts";
import { createDesk, obeyed } from "./desk.ts";
import { accept, drained, enqueue, type Accepted, type Hall, type TurnsDeps } from "./hall.ts";
import { createInbox } from "./inbox.ts";
import { createBook } from "./sessions.ts";
import { createSettings } from "./settings.ts";
import { coreToolSchemas } from "./tools.ts";
import { DEADLINE_MS, errorEvent } from "./turn.ts";

/** What runs may finish within this time when the gateway stops. */
const DRAIN_MS = 9_500;
/** After that it is ended, and gets this long to say so. */
const CUT_MS = 800;

export interface TurnDoor {
  readonly turn: RunTurn;
  readonly sessions: Sessions;
  readonly desk: SessionDesk;
  /** Open sessions. */
  readonly inMemory: () => number;
  readonly turns: Turns;
  readonly providers: Providers;
  /** Takes up the messages that an earlier process accepted and did not answer. */
  resume(): Promise<void>;
  /** Accepts nothing more, lets what runs finish for 10 s, then ends it with a word. */
  stop(): Promise<void>;
}

export function createTurns(deps: TurnsDeps): TurnDoor {
  const book = createBook({ ...deps, tools: deps.tools ?? coreToolSchemas, packageOf: deps.packageOf ?? (() => undefined) });
  const hall: Hall = {
    deps,
    inbox: createInbox(deps),
    book,
    settings: createSettings(deps),
    running: { ...deps, book, deadlineMs: deps.deadlineMs ?? DEADLINE_MS },
    jobs: new Set(),
    lanes: new Map(),
    stopping: false,
  };
  return {
    turn: (request, signal) => turnEvents(hall, request, signal),
    sessions: sessionsOf(hall),
    desk: createDesk(hall),
    turns: background(hall),
    providers: deps.chat.providers,
    inMemory: () => hall.book.inMemory(),
    resume: () => resume(hall),
    stop: () => stop(hall),
  };
}

const left = (signal: AbortSignal): BeigeError =>
  signal.reason instanceof BeigeError ? signal.reason : new BeigeError("unavailable", "the turn was ended by its reader");

async function* turnEvents(hall: Hall, request: TurnRequest, signal: AbortSignal): AsyncGenerator<TurnEvent> {
  const command = request.commands === false ? undefined : commandIn(request.text);
  if (command !== undefined && !signal.aborted) {
    yield* obeyed(hall, request, command);
    return;
  }
  let job: Accepted;
  try {
    signal.throwIfAborted();
    job = accept(hall, request);
  } catch (error) {
    yield errorEvent(signal.aborted ? left(signal) : asBeigeError(error));
    return;
  }
  const abort = (): void => {
    job.controller.abort(left(signal));
    // Said at once, also to one who waits behind other messages; the work ends behind it.
    job.feed.end(errorEvent(left(signal)));
  };
  signal.addEventListener("abort", abort, { once: true });
  try {
    const { session, id, settings } = job.row;
    yield { type: "session", session, inbox: id, verbose: settings?.verbose === true };
    yield* job.feed.events();
  } finally {
    signal.removeEventListener("abort", abort);
    // A reader that leaves ends its turn; after the last event this changes nothing.
    job.controller.abort(new BeigeError("unavailable", "the reader of the turn left"));
  }
}

function sessionsOf(hall: Hall): Sessions {
  const of = (uid: string): readonly Accepted[] => [...hall.jobs].filter((job) => job.row.agent.uid === uid);
  return {
    open: (uid) => of(uid).length,
    async end(uid, why) {
      const jobs = of(uid);
      for (const job of jobs) job.controller.abort(new BeigeError("unavailable", why));
      await Promise.all(jobs.map((job) => job.ended));
      hall.book.close(uid);
    },
  };
}

function background(hall: Hall): Turns {
  const keys = new Map<string, Set<Accepted>>();
  return {
    running: (key) => keys.get(key)?.size ?? 0,
    start(key, request, onEnd) {
      let job: Accepted;
      try {
        job = accept(hall, request);
      } catch (error) {
        onEnd(asBeigeError(error).message);
        return;
      }
      const jobs = keys.get(key) ?? new Set<Accepted>();
      keys.set(key, jobs.add(job));
      void drained(job).then((last) => {
        jobs.delete(job);
        if (jobs.size === 0 && keys.get(key) === jobs) keys.delete(key);
        onEnd(last.type === "error" ? last.message : undefined);
      });
    },
    async stop(key) {
      const jobs = [...(keys.get(key) ?? [])];
      for (const job of jobs) job.controller.abort(new BeigeError("unavailable", "the turn was stopped"));
      await Promise.all(jobs.map((job) => job.ended));
    },
  };
}

async function resume(hall: Hall): Promise<void> {
  const { rows, bad } = hall.inbox.pending();
  const known = new Set([...hall.jobs].map((job) => job.row.id));
  if (bad.length > 0) hall.deps.log.warn("inbox rows dropped", { rows: bad });
  const jobs = rows.filter((row) => !known.has(row.id)).map((row) => enqueue(hall, row));
  if (jobs.length > 0) hall.deps.log.info("messages resumed", { count: jobs.length });
  for (const job of jobs) {
    void drained(job).then((last) => {
      if (last.type === "error")
        hall.deps.log.warn("resumed message failed", { session: job.row.session, code: last.code, error: last.message });
    });
  }
  await Promise.resolve();
}

async function stop(hall: Hall): Promise<void> {
  hall.stopping = true;
  const { clock } = hall.deps;
  const all = Promise.all([...hall.jobs].map((job) => job.ended));
  await within(clock, all, DRAIN_MS);
  for (const job of hall.jobs) {
    const why = new BeigeError("unavailable", "the gateway is stopping", { hint: "send the message again" });
    job.controller.abort(why);
    job.feed.end(errorEvent(why));
    // Its sender was told: the next process must not take it up.
    for (const row of [job.row, ...job.taken]) hall.inbox.remove(row);
  }
  await within(clock, all, CUT_MS);
  hall.book.close();
}

/** Waits for the work, but not longer. */
async function within(clock: Clock, work: Promise<unknown>, ms: number): Promise<void> {
  const enough = new AbortController();
  try {
    await Promise.race([work, clock.sleep(ms, enough.signal).catch(() => undefined)]);
  } finally {
    enough.abort();
  }
}
