// Runs one accepted message to its answer: session, loop, tools through the one door, one terminal event, one audit row.
import { asBeigeError, BeigeError } from "../core/errors.ts";
import { addUsage, NO_USAGE } from "../core/usage.ts";
import { answerText } from "../core/draft.ts";
import { nsName, type Agent } from "../core/resource.ts";
import type { Audit, AuditCall } from "../core/audit.ts";
import type { AssistantMessage, ChatEvent, ChatFailure, LiveSession, SessionEvent, Usage, Words } from "../core/chat.ts";
import type { RoadEvent } from "../core/road.ts";
import type { TurnEvent } from "../core/turn.ts";
import type { Clock, Random } from "../core/world.ts";
import { principalName } from "../core/who.ts";
import type { Chat } from "./chat.ts";
import { cutCommands } from "./cut.ts";
import type { Feed } from "./feed.ts";
import type { InboxRow } from "./inbox.ts";
import type { Held, Lent, SessionBook } from "./sessions.ts";
import { cutTool, runTool, type ToolDeps } from "./turntool.ts";
import { createWatchdog, type Watchdog } from "./watchdog.ts";

export const DEADLINE_MS = 3_600_000;
/** How long a loop may take to notice that it was ended, before its session is thrown out of memory. */
const NOTICE_MS = 10_000;

export interface TurnDeps extends ToolDeps {
  readonly book: SessionBook;
  readonly chat: Chat;
  readonly audit: Audit;
  readonly clock: Clock;
  readonly random: Random;
  readonly deadlineMs: number;
}

export interface Job {
  readonly row: InboxRow;
  readonly feed: Feed;
  /** Ends the turn with its reason. */
  readonly controller: AbortController;
  /** The conversation, while its turn runs. */
  live?: LiveSession;
  /** What was put into the turn while it ran; a row leaves it when it is in the conversation. */
  readonly put: Map<string, InboxRow>;
  /** Rows that the turn has taken in besides its own. */
  readonly taken: InboxRow[];
}

const auditRow = (job: Job): AuditCall => ({
  agent: nsName(job.row.agent.namespace, job.row.agent.name),
  type: "turn",
  tool: "prompt",
  args: [],
  decision: "allowed",
  target: "gateway",
  principal: principalName(job.row.principal),
  session: job.row.session,
  ...(job.row.request === undefined ? {} : { request: job.row.request }),
});

interface Told {
  usage: Usage;
  failure?: ChatFailure;
  model?: string;
}

/** Never throws: whatever happens is the last event of the feed, which is returned. */
export async function runTurn(deps: TurnDeps, agent: Agent, job: Job): Promise<TurnEvent> {
  const call = deps.random.uuid();
  const since = deps.clock.monotonic();
  const told: Told = { usage: NO_USAGE };
  try {
    await deps.audit.begin(call, auditRow(job));
  } catch (error) {
    return ended(job, failed(deps, error));
  }
  const last = await timed(deps, { agent, job, told }).catch((error: unknown) => failed(deps, error));
  await deps.audit
    .end(call, auditRow(job), outcome(last, told, deps.clock.monotonic() - since))
    .catch((error: unknown) => deps.log.error("audit row lost", { call, error: asBeigeError(error).message }));
  return ended(job, last);
}

function ended(job: Job, last: TurnEvent): TurnEvent {
  job.feed.end(last);
  return last;
}

function failed(deps: TurnDeps, error: unknown): TurnEvent {
  const known = asBeigeError(error);
  if (known.code === "internal") deps.log.error("turn failed", { error: known.stack });
  return errorEvent(known);
}

export const errorEvent = (error: BeigeError): TurnEvent & { readonly type: "error" } => ({
  type: "error",
  code: error.code,
  message: error.message,
  ...(error.hint === undefined ? {} : { hint: error.hint }),
  ...(error.retryAfterMs === undefined ? {} : { retryAfterMs: error.retryAfterMs }),
});

function outcome(last: TurnEvent, told: Told, durationMs: number): Parameters<Audit["end"]>[2] {
  const { cost, ...tokens } = told.usage;
  const failed = last.type === "error" ? last : undefined;
  return {
    durationMs: Math.round(durationMs),
    exitCode: failed === undefined ? 0 : 1,
    outputBytes: last.type === "done" ? Buffer.byteLength(last.text) : 0,
    outcome: failed === undefined ? "ok" : failed.code === "timeout" ? "timeout" : "failed",
    usage: { ...tokens, costUsd: cost.total },
    ...(failed === undefined ? {} : { error: `${failed.code}: ${failed.message}` }),
    ...(last.type === "done" ? { model: last.model } : {}),
  };
}

interface Running {
  readonly agent: Agent;
  readonly job: Job;
  readonly told: Told;
}

async function timed(deps: TurnDeps, running: Running): Promise<TurnEvent> {
  const { controller } = running.job;
  const deadline = deps.clock.after(deps.deadlineMs, () =>
    controller.abort(new BeigeError("timeout", `the turn took longer than ${Math.round(deps.deadlineMs / 1000)} s`)),
  );
  const watchdog = createWatchdog(deps.clock, () => controller.abort(new BeigeError("internal", "the session did nothing for 60 s")));
  try {
    controller.signal.throwIfAborted();
    return await inSession(deps, { ...running, watchdog });
  } finally {
    deadline.cancel();
    watchdog.stop();
  }
}

interface Watched extends Running {
  readonly watchdog: Watchdog;
}

async function inSession(deps: TurnDeps, watched: Watched): Promise<TurnEvent> {
  const { agent, job, told } = watched;
  const { row, controller } = job;
  const model = row.settings?.model;
  const opening = { key: row.session, inbox: row.id, fresh: row.fresh, text: row.text, ...(model === undefined ? {} : { model }) };
  const held = await deps.book.open(agent, opening, lentOf(deps, watched));
  let healthy = false;
  try {
    job.live = held.live;
    const message = await answer(deps, held, watched);
    healthy = true;
    controller.signal.throwIfAborted();
    return message.stopReason === "error" || message.stopReason === "aborted" ? failedEvent(message, told) : doneEvent(message, told);
  } finally {
    delete job.live;
    cutCommands(deps.shelf, row).clear();
    if (healthy) held.release();
    else held.discard();
  }
}

/** The loop's answer; one that does not notice its end is left behind. */
async function answer(deps: TurnDeps, held: Held, watched: Watched): Promise<AssistantMessage> {
  const { job, watchdog } = watched;
  const { signal } = job.controller;
  const stuck = Promise.withResolvers<never>();
  const give = (): void => {
    deps.clock.after(NOTICE_MS, () => stuck.reject(asBeigeError(signal.reason)));
  };
  signal.addEventListener("abort", give, { once: true });
  try {
    const run = held.live.prompt(wordsOf(job.row), job.row.id, (event) => forward(job, event, watchdog), signal);
    return await Promise.race([run, stuck.promise]);
  } finally {
    signal.removeEventListener("abort", give);
  }
}

const wordsOf = ({ text, images }: InboxRow): Words => (images === undefined ? text : { text, images });

function forward(job: Job, event: SessionEvent, watchdog: Watchdog): void {
  watchdog.touch();
  if (event.type === "user") taken(job, event.inbox);
  if (job.feed.push(event)) return;
  job.controller.abort(new BeigeError("exhausted", "the reader of the turn is too slow"));
}

function taken(job: Job, inbox: string): void {
  const row = job.put.get(inbox);
  if (row === undefined) return;
  job.put.delete(inbox);
  job.taken.push(row);
}

/** What the session uses while this turn runs: the model road and the tool door. */
function lentOf(deps: TurnDeps, watched: Watched): Lent {
  const { job, watchdog } = watched;
  const { row } = job;
  const { signal: ends } = job.controller;
  return {
    stream(context, options, signal) {
      // What the model is told now is in the file.
      cutCommands(deps.shelf, row).clear();
      return heard(watched, deps.chat(chatRequest(job, context, options), AbortSignal.any([signal, ends])));
    },
    tool: (name) => (id, params, signal) => watchdog.during(() => runTool(deps, { row, name, signal: ends })(id, params, signal)),
    rejoin: ({ id, name }) => watchdog.during(() => cutTool(deps, { row, name, signal: ends }, id)),
  };
}

function chatRequest(job: Job, context: Parameters<Lent["stream"]>[0], options: Parameters<Lent["stream"]>[1]): Parameters<Chat>[0] {
  const { agent, principal, session, settings, request } = job.row;
  return {
    agent,
    principal,
    session,
    context,
    options: { ...options, session, ...(settings?.thinking === undefined ? {} : { thinking: settings.thinking }) },
    ...(settings?.model === undefined ? {} : { model: settings.model }),
    ...(request === undefined ? {} : { request }),
  };
}

/** Passes the stream on, and keeps what the loop does not tell: usage, who answered, why not. */
async function* heard(watched: Watched, events: AsyncIterable<RoadEvent>): AsyncGenerator<ChatEvent> {
  const busy = watched.watchdog.busy();
  try {
    for await (const event of events) {
      // Bytes are for those who sent bytes.
      if (event.type === "wire") continue;
      note(watched, event);
      yield event;
    }
  } finally {
    busy[Symbol.dispose]();
  }
}

function note({ job, told }: Watched, event: ChatEvent): void {
  if (event.type === "start" && event.provider !== undefined && event.model !== undefined) {
    const name = `${event.provider}/${event.model}`;
    const fallback = event.fallback === true;
    if (told.model !== name) job.feed.push({ type: "model", provider: event.provider, id: event.model, fallback });
    told.model = name;
  }
  if (event.type === "done" || event.type === "error") told.usage = addUsage(told.usage, event.message.usage);
  if (event.type === "error" && event.failure !== undefined) told.failure = event.failure;
  if (event.type === "done") delete told.failure;
}

const doneEvent = (message: AssistantMessage, told: Told): TurnEvent => ({
  type: "done",
  text: answerText(message),
  stop: message.stopReason,
  provider: message.provider,
  model: message.model,
  usage: told.usage,
});

function failedEvent(message: AssistantMessage, told: Told): TurnEvent {
  const { failure } = told;
  const text = failure?.message ?? message.errorMessage ?? "no answer";
  const event = errorEvent(
    new BeigeError(failure?.code ?? "unavailable", failure?.partial === true ? `the answer was cut: ${text}` : text, {
      ...(failure?.hint === undefined ? {} : { hint: failure.hint }),
      ...(failure?.retryAfterMs === undefined ? {} : { retryAfterMs: failure.retryAfterMs }),
    }),
  );
  return failure?.budget === undefined ? event : { ...event, budget: failure.budget };
}
