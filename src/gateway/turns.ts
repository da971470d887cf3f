// Accepts messages, keeps one queue a session, and starts again after a crash what had not been answered.
import { BeigeError, asBeigeError } from "../core/errors.ts";
import { nsName, type Agent } from "../core/resource.ts";
import type { Audit } from "../core/audit.ts";
import type { CallTool } from "../core/call.ts";
import type { SessionRuntime } from "../core/chat.ts";
import type { RunTurn, TurnEvent, TurnRequest } from "../core/turn.ts";
import type { Clock, Directory, Log, Providers, Random, Sessions, Shelf, Turns } from "../core/world.ts";
import type { Chat } from "./chat.ts";
import { createFeed } from "./feed.ts";
import { createInbox, type Inbox, type InboxRow } from "./inbox.ts";
import type { PackageOf } from "./prompt.ts";
import { createBook, DEFAULT_SESSION, sessionKey, type SessionBook } from "./sessions.ts";
import { coreToolSchemas } from "./tools.ts";
import { DEADLINE_MS, errorEvent, runTurn, type Job, type TurnDeps } from "./turn.ts";

const TEXT_MAX = 1_000_000;
/** Of one session, and of all. */
const WAITING_MAX = 100;
const JOBS_MAX = 2000;
/** What runs may finish within this time when the gateway stops. */
const DRAIN_MS = 10_000;
/** After that it is ended, and gets this long to say so. */
const CUT_MS = 800;

export interface TurnsDeps {
  readonly directory: Directory;
  readonly chat: Chat;
  readonly call: CallTool;
  readonly runtime: SessionRuntime;
  readonly shelf: Shelf;
  readonly home: string;
  readonly clock: Clock;
  readonly random: Random;
  readonly log: Log;
  readonly audit: Audit;
  /** Core tools as the model sees them; the gateway's own when absent. */
  readonly tools?: readonly { readonly name: string; readonly description: string; readonly parameters: object }[];
  readonly packageOf?: PackageOf;
  readonly deadlineMs?: number;
}

export interface TurnDoor {
  readonly turn: RunTurn;
  readonly sessions: Sessions;
  readonly turns: Turns;
  readonly providers: Providers;
  /** Takes up the messages that an earlier process accepted and did not answer. */
  resume(): Promise<void>;
  /** Accepts nothing more, lets what runs finish for 10 s, then ends it with a word. */
  stop(): Promise<void>;
}

interface Accepted extends Job {
  readonly ended: Promise<TurnEvent>;
}

interface Hall {
  readonly deps: TurnsDeps;
  readonly inbox: Inbox;
  readonly book: SessionBook;
  readonly running: TurnDeps;
  readonly jobs: Set<Accepted>;
  /** Last message of each session's queue. */
  readonly lanes: Map<string, Promise<unknown>>;
  stopping: boolean;
}

export function createTurns(deps: TurnsDeps): TurnDoor {
  const book = createBook({ ...deps, tools: deps.tools ?? coreToolSchemas, packageOf: deps.packageOf ?? (() => undefined) });
  const hall: Hall = {
    deps,
    inbox: createInbox(deps),
    book,
    running: { ...deps, book, deadlineMs: deps.deadlineMs ?? DEADLINE_MS },
    jobs: new Set(),
    lanes: new Map(),
    stopping: false,
  };
  return {
    turn: (request, signal) => turnEvents(hall, request, signal),
    sessions: sessionsOf(hall),
    turns: background(hall),
    providers: deps.chat.providers,
    resume: () => resume(hall),
    stop: () => stop(hall),
  };
}

/** Checks who asks and what for. The error says why not. */
function admitted(hall: Hall, row: Pick<InboxRow, "agent" | "principal">): Agent {
  const { directory } = hall.deps;
  const name = nsName(row.agent.namespace, row.agent.name);
  if (row.principal.kind === "viewer") throw new BeigeError("denied", "a viewer may not prompt agents");
  if (row.principal.kind === "agent") throw new BeigeError("denied", "an agent may not start turns");
  const agent = directory.agentByUid(row.agent.uid);
  if (agent === undefined) throw new BeigeError("not_found", `agent '${name}' does not exist`, { hint: "beige get agents" });
  if (agent.metadata.deletionTimestamp !== undefined) throw new BeigeError("denied", `agent '${name}' is being deleted`);
  if (agent.spec.suspend) throw new BeigeError("denied", `agent '${name}' is suspended`, { hint: "set spec.suspend: false and apply" });
  return agent;
}

function checked(hall: Hall, request: TurnRequest): Omit<InboxRow, "id"> {
  if (hall.stopping) throw new BeigeError("unavailable", "the gateway is stopping");
  admitted(hall, request);
  const session = sessionKey(request.session ?? DEFAULT_SESSION);
  if (request.text.trim() === "") throw new BeigeError("invalid", "the message is empty");
  if (request.text.length > TEXT_MAX) {
    throw new BeigeError("invalid", `the message has ${request.text.length} characters; ${TEXT_MAX} are possible`, {
      hint: "put the text in a file of the workspace and name it",
    });
  }
  const waiting = [...hall.jobs].filter((job) => job.row.agent.uid === request.agent.uid && job.row.session === session).length;
  if (hall.jobs.size >= JOBS_MAX) throw new BeigeError("exhausted", `${hall.jobs.size} messages wait`);
  if (waiting >= WAITING_MAX) throw new BeigeError("exhausted", `${waiting} messages wait in session '${session}'`);
  const { agent, text, principal } = request;
  return { agent, session, text, principal, fresh: request.fresh === true };
}

/** Refusals stand in the record like everything else that was asked. */
function refuse(hall: Hall, request: TurnRequest, error: BeigeError): void {
  if (error.code !== "denied") return;
  const row = {
    agent: nsName(request.agent.namespace, request.agent.name),
    type: "turn" as const,
    tool: "prompt",
    args: [],
    decision: "denied" as const,
    principal: request.principal.kind,
  };
  hall.deps.audit
    .denied(hall.deps.random.uuid(), row, error.message)
    .catch(() => hall.deps.log.error("audit row lost", { tool: "prompt" }));
}

function accept(hall: Hall, request: TurnRequest): Accepted {
  let message: Omit<InboxRow, "id">;
  try {
    message = checked(hall, request);
  } catch (error) {
    refuse(hall, request, asBeigeError(error));
    throw error;
  }
  return enqueue(hall, hall.inbox.add(message));
}

const laneOf = (row: InboxRow): string => `${row.agent.uid}/${row.session}`;

/** Behind everything that was accepted for the session before. */
function enqueue(hall: Hall, row: InboxRow): Accepted {
  const job: Job = { row, feed: createFeed(), controller: new AbortController() };
  const lane = laneOf(row);
  const before = hall.lanes.get(lane) ?? Promise.resolve();
  const ended = before.then(() => work(hall, job));
  const accepted: Accepted = { ...job, ended };
  hall.jobs.add(accepted);
  hall.lanes.set(lane, ended);
  void ended.finally(() => {
    hall.jobs.delete(accepted);
    if (hall.lanes.get(lane) === ended) hall.lanes.delete(lane);
  });
  return accepted;
}

/** Never throws. The row goes once the end was told: from then on nothing is done again. */
async function work(hall: Hall, job: Job): Promise<TurnEvent> {
  let last: TurnEvent;
  try {
    job.controller.signal.throwIfAborted();
    const agent = admitted(hall, job.row);
    last = await runTurn(hall.running, agent, job);
  } catch (error) {
    last = errorEvent(asBeigeError(error));
    job.feed.end(last);
  }
  try {
    hall.inbox.remove(job.row);
  } catch (error) {
    hall.deps.log.error("inbox row not removed", { error: asBeigeError(error).message });
  }
  return last;
}

const left = (signal: AbortSignal): BeigeError =>
  signal.reason instanceof BeigeError ? signal.reason : new BeigeError("unavailable", "the turn was ended by its reader");

async function* turnEvents(hall: Hall, request: TurnRequest, signal: AbortSignal): AsyncGenerator<TurnEvent> {
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
    yield { type: "session", session: job.row.session, inbox: job.row.id };
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

/** Reads a feed that nobody listens to, so that it never fills. */
async function drained(job: Accepted): Promise<TurnEvent> {
  for await (const event of job.feed.events()) void event;
  return await job.ended;
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
    hall.inbox.remove(job.row);
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
