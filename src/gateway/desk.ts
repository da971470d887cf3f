// What may be done with sessions besides sending a message: seen, set, steered, ended, taken away, searched, added to.
import { asBeigeError, BeigeError } from "../core/errors.ts";
import { NO_USAGE } from "../core/usage.ts";
import { nsName, type Agent } from "../core/resource.ts";
import type { AgentId } from "../core/call.ts";
import type { SessionAsk, SessionDesk, SessionEntry, SessionHit, SessionView } from "../core/session.ts";
import type { TurnEvent, TurnRequest } from "../core/turn.ts";
import { principalName } from "../core/who.ts";
import { obey, type Command, type Levers } from "./commands.ts";
import { admitted, laneOf, refuse, TEXT_MAX, type Accepted, type Hall } from "./hall.ts";
import { DEFAULT_SESSION, sessionKey, type SessionRow } from "./sessions.ts";
import { excerptOf, linesOf } from "./spoken.ts";
import { errorEvent } from "./turn.ts";

/** What one search reads at most, of all sessions together. */
const SEARCH_BYTES = 64 * 1024 * 1024;
const SEARCH_MAX = 200;
const LAST_STEPS_MS = 20;

const lane = (agent: AgentId, session: string): string => `${agent.uid}/${session}`;
const jobsOf = (hall: Hall, agent: AgentId, session: string): readonly Accepted[] =>
  [...hall.jobs].filter((job) => laneOf(job.row) === lane(agent, session));

function known(hall: Hall, agent: AgentId): Agent {
  const found = hall.deps.directory.agentByUid(agent.uid);
  if (found !== undefined) return found;
  throw new BeigeError("not_found", `agent '${nsName(agent.namespace, agent.name)}' does not exist`, { hint: "beige get agents" });
}

function rowOf(hall: Hall, { agent, session }: Pick<SessionAsk, "agent" | "session">): SessionRow {
  const row = hall.book.row(agent.uid, sessionKey(session));
  if (row !== undefined) return row;
  const name = nsName(agent.namespace, agent.name);
  throw new BeigeError("not_found", `agent '${name}' has no session '${session}'`, { hint: `beige sessions ${name}` });
}

function viewOf(hall: Hall, agent: AgentId, row: Pick<SessionRow, "key"> & Partial<SessionRow>): SessionView {
  const jobs = jobsOf(hall, agent, row.key);
  const now = hall.deps.clock.now();
  return {
    session: row.key,
    ...(row.title === undefined ? {} : { title: row.title }),
    createdAt: row.createdAt ?? now,
    updatedAt: row.updatedAt ?? now,
    running: jobs.length > 0,
    waiting: Math.max(0, jobs.length - 1),
    settings: hall.settings.of(known(hall, agent), row.key),
    set: hall.settings.set(agent.uid, row.key),
    ...(row.note === undefined ? {} : { note: row.note }),
  };
}

const view = (hall: Hall, agent: AgentId, session: string): SessionView =>
  viewOf(hall, agent, hall.book.row(agent.uid, session) ?? { key: session });

/** Stands in the record; nobody waits for it. */
function note(hall: Hall, ask: SessionAsk, what: string): void {
  const row = {
    agent: nsName(ask.agent.namespace, ask.agent.name),
    type: "turn" as const,
    tool: what,
    args: [],
    decision: "allowed" as const,
    target: "gateway" as const,
    principal: principalName(ask.principal),
    session: ask.session,
    ...(ask.request === undefined ? {} : { request: ask.request }),
  };
  hall.deps.audit.note(hall.deps.random.uuid(), row).catch(() => hall.deps.log.error("audit row lost", { tool: what }));
}

/** Allowed as a message would be, or on the record as refused. */
function allowed(hall: Hall, ask: SessionAsk): Agent {
  if (hall.stopping) throw new BeigeError("unavailable", "the gateway is stopping");
  sessionKey(ask.session);
  try {
    return admitted(hall, ask);
  } catch (error) {
    refuse(hall, ask, asBeigeError(error));
    throw error;
  }
}

function abort(hall: Hall, ask: SessionAsk): number {
  const jobs = jobsOf(hall, ask.agent, ask.session);
  for (const job of jobs) {
    for (const row of job.put.values()) hall.inbox.remove(row);
    job.put.clear();
    const why = new BeigeError("unavailable", "the turn was stopped");
    job.controller.abort(why);
    job.feed.end(errorEvent(why));
  }
  return jobs.length;
}

function say(
  hall: Hall,
  ask: SessionAsk,
  message: { readonly how: "steer" | "follow-up"; readonly text: string },
): { readonly inbox: string } {
  const { agent, session, principal } = ask;
  const { how, text } = message;
  if (text.trim() === "" || text.length > TEXT_MAX) throw new BeigeError("invalid", `the message must have 1 to ${TEXT_MAX} characters`);
  const job = jobsOf(hall, agent, session).find((each) => each.live !== undefined);
  const idle = (): BeigeError =>
    new BeigeError("conflict", `nothing runs in session '${session}'`, { hint: "send it as a message: beige prompt AGENT TEXT" });
  if (job?.live === undefined) throw idle();
  const row = hall.inbox.add({
    agent,
    session,
    text,
    principal,
    fresh: false,
    ...(job.row.settings && { settings: job.row.settings }),
    ...(ask.request === undefined ? {} : { request: ask.request }),
  });
  job.put.set(row.id, row);
  if (!job.live.say(how, text, row.id)) {
    job.put.delete(row.id);
    hall.inbox.remove(row);
    throw idle();
  }
  return { inbox: row.id };
}

/** Alone in the session's queue: messages that come meanwhile wait. Throws `conflict` when it is in use. */
async function alone<T>(hall: Hall, ask: SessionAsk, work: () => Promise<T>): Promise<T> {
  const at = lane(ask.agent, ask.session);
  // An answer is told a moment before its turn is over.
  if (hall.lanes.has(at)) await hall.deps.clock.sleep(LAST_STEPS_MS);
  if (hall.lanes.has(at)) {
    throw new BeigeError("conflict", `session '${ask.session}' is in use`, { hint: "wait for its answer, or end it: send /stop" });
  }
  const done = work();
  const settled = done.then(
    () => undefined,
    () => undefined,
  );
  hall.lanes.set(at, settled);
  try {
    return await done;
  } finally {
    if (hall.lanes.get(at) === settled) hall.lanes.delete(at);
  }
}

async function remove(hall: Hall, ask: SessionAsk): Promise<void> {
  const { agent, session } = ask;
  const row = rowOf(hall, ask);
  await alone(hall, ask, async () => {
    hall.book.forget(agent.uid, session);
    hall.settings.forget(agent.uid, session);
    await hall.deps.runtime.files.remove(row.file);
  });
}

/** Those whose keys begin with `own`, the last used first. */
const newest = (hall: Hall, agent: AgentId, own = ""): readonly SessionRow[] =>
  hall.book
    .rows(agent.uid)
    .filter(({ key }) => key.startsWith(own))
    .toSorted((a, b) => b.updatedAt - a.updatedAt);

async function search(
  hall: Hall,
  agent: AgentId,
  ask: { readonly text: string; readonly limit: number; readonly own?: string },
): ReturnType<SessionDesk["search"]> {
  const limit = Math.min(ask.limit, SEARCH_MAX);
  const hits: SessionHit[] = [];
  let left = SEARCH_BYTES;
  for (const row of newest(hall, agent, ask.own)) {
    if (left <= 0 || hits.length >= limit) return { hits, whole: false };
    const found = await hall.deps.runtime.files.find(row.file, ask.text, { limit: SEARCH_MAX, maxBytes: left });
    left -= found.read;
    for (const line of linesOf(found.entries)) {
      const excerpt = excerptOf(line.text, ask.text);
      if (excerpt !== undefined) hits.push({ session: row.key, id: line.id, at: line.at, role: line.role, excerpt });
    }
    if (!found.whole) return { hits: hits.slice(0, limit), whole: false };
  }
  return { hits: hits.slice(0, limit), whole: hits.length <= limit };
}

async function append(
  hall: Hall,
  ask: SessionAsk,
  given: { readonly entries: readonly unknown[]; readonly after?: string | null },
): Promise<{ readonly last: string }> {
  const agent = allowed(hall, ask);
  return await alone(hall, ask, async () => {
    const draft = hall.book.draft(agent, ask.session);
    const { file, last } = await hall.deps.runtime.files.append(draft, given.entries, given.after);
    const text = linesOf(given.entries as readonly SessionEntry[]).find((line) => line.role === "user")?.text;
    hall.book.write(agent, ask.session, { file, ...(text === undefined ? {} : { text }) });
    return { last };
  });
}

export function createDesk(hall: Hall): SessionDesk {
  const { files } = hall.deps.runtime;
  return {
    list: (agent, own) => newest(hall, agent, own).map((row) => viewOf(hall, agent, row)),
    async show(ask) {
      const row = rowOf(hall, ask);
      return { session: viewOf(hall, ask.agent, row), lines: linesOf(await files.branch(row.file)) };
    },
    bytes: (ask) => files.bytes(rowOf(hall, ask).file),
    set(ask, patch) {
      hall.settings.change(allowed(hall, ask), ask.session, patch);
      note(hall, ask, "set");
      return view(hall, ask.agent, ask.session);
    },
    say(ask, how, text) {
      allowed(hall, ask);
      const said = say(hall, ask, { how, text });
      note(hall, ask, how);
      return said;
    },
    abort(ask) {
      allowed(hall, ask);
      note(hall, ask, "abort");
      return abort(hall, ask);
    },
    async remove(ask) {
      allowed(hall, ask);
      await remove(hall, ask);
      note(hall, ask, "delete");
    },
    search: (agent, ask) => search(hall, agent, ask),
    append: (ask, entries, after) => append(hall, ask, { entries, ...(after === undefined ? {} : { after }) }),
    loop(ask) {
      const agent = allowed(hall, ask);
      const { session } = ask;
      return { session, ...hall.book.loop(agent), settings: hall.settings.of(agent, session) };
    },
  };
}

const leversOf = (hall: Hall, agent: Agent, ask: SessionAsk): Levers => ({
  view: () => view(hall, ask.agent, ask.session),
  change: (patch) => hall.settings.change(agent, ask.session, patch),
  renew: () => hall.settings.renew(ask.agent.uid, ask.session),
  stop: () => abort(hall, ask),
});

/** A command, answered as a turn is. */
export function* obeyed(hall: Hall, request: TurnRequest, command: Command): Generator<TurnEvent> {
  const ask: SessionAsk = {
    principal: request.principal,
    agent: request.agent,
    session: request.session ?? DEFAULT_SESSION,
    ...(request.request === undefined ? {} : { request: request.request }),
  };
  try {
    const agent = allowed(hall, ask);
    const text = obey(command, agent, leversOf(hall, agent, ask));
    note(hall, ask, `/${command.name}`);
    yield { type: "session", session: ask.session, inbox: "", verbose: hall.settings.of(agent, ask.session).verbose };
    yield { type: "text", delta: text };
    yield { type: "done", text, stop: "stop", provider: "beige", model: "commands", usage: NO_USAGE };
  } catch (error) {
    yield errorEvent(asBeigeError(error));
  }
}
