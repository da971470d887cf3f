// Where messages are accepted and queued: checks who asks, writes the message down, keeps one queue a session.
import { asBeigeError, BeigeError } from "../core/errors.ts";
import { checkImages } from "../core/images.ts";
import { nsName, type Agent } from "../core/resource.ts";
import type { Audit } from "../core/audit.ts";
import type { CallTool, RejoinCall } from "../core/call.ts";
import type { SessionRuntime } from "../core/chat.ts";
import type { SessionSettings } from "../core/session.ts";
import type { TurnEvent, TurnRequest } from "../core/turn.ts";
import type { Clock, Directory, Log, Random, Shelf } from "../core/world.ts";
import { inScope, principalName } from "../core/who.ts";
import type { Chat } from "./chat.ts";
import { createFeed } from "./feed.ts";
import type { Inbox, InboxRow } from "./inbox.ts";
import { candidatesOf, type Candidate } from "./models.ts";
import type { PackageOf } from "./prompt.ts";
import { DEFAULT_SESSION, sessionKey, type SessionBook } from "./sessions.ts";
import type { Settings } from "./settings.ts";
import { errorEvent, runTurn, type Job, type TurnDeps } from "./turn.ts";

export const TEXT_MAX = 1_000_000;
/** Of one session, and of all. */
const WAITING_MAX = 100;
const JOBS_MAX = 2000;

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
  /** Before a session's first turn; the turn fails with what this throws. */
  readonly onFresh?: (agent: Agent, session: string) => Promise<void>;
  /** The last turn of an agent has ended: whoever waits for it to be idle may go on. */
  readonly onIdle?: (uid: string) => void;
  readonly hooks?: TurnDeps["hooks"];
  readonly rejoin?: RejoinCall;
}

export interface Accepted extends Job {
  readonly ended: Promise<TurnEvent>;
}

export interface Hall {
  readonly deps: TurnsDeps;
  readonly inbox: Inbox;
  readonly book: SessionBook;
  readonly settings: Settings;
  readonly running: TurnDeps;
  readonly jobs: Set<Accepted>;
  /** Last message of each session's queue. */
  readonly lanes: Map<string, Promise<unknown>>;
  stopping: boolean;
}

/** Checks who asks and what for. The error says why not. */
export function admitted(hall: Hall, row: Pick<InboxRow, "agent" | "principal">): Agent {
  const { directory } = hall.deps;
  const name = nsName(row.agent.namespace, row.agent.name);
  if (row.principal.kind === "viewer") throw new BeigeError("denied", "a viewer may not prompt agents");
  if (row.principal.kind === "agent") throw new BeigeError("denied", "an agent may not start turns");
  if (!inScope(row.principal, name))
    throw new BeigeError("denied", "the key is not for this agent", { hint: "beige key create NAME --agent AGENT" });
  const agent = directory.agentByUid(row.agent.uid);
  if (agent === undefined) throw new BeigeError("not_found", `agent '${name}' does not exist`, { hint: "beige get agents" });
  if (agent.metadata.deletionTimestamp !== undefined) throw new BeigeError("denied", `agent '${name}' is being deleted`);
  if (agent.spec.suspend) throw new BeigeError("denied", `agent '${name}' is suspended`, { hint: "set spec.suspend: false and apply" });
  return agent;
}

function checked(hall: Hall, request: TurnRequest): Omit<InboxRow, "id"> {
  if (hall.stopping) throw new BeigeError("unavailable", "the gateway is stopping");
  const known = admitted(hall, request);
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
  const images = imagesFor(hall, known, request, session);
  const fresh = hall.settings.takeRenewal(agent.uid, session) || request.fresh === true;
  // One that came by no request of ours is told from others by an id of its own.
  const id = request.request ?? hall.deps.random.uuid();
  return { agent, session, text, principal, fresh, settings: settingsOf(hall, known, session), request: id, ...images };
}

/** Refusals stand in the record like everything else that was asked. */
export function refuse(hall: Hall, request: Pick<TurnRequest, "agent" | "principal" | "request">, error: BeigeError): void {
  if (error.code !== "denied") return;
  const row = {
    agent: nsName(request.agent.namespace, request.agent.name),
    type: "turn" as const,
    tool: "prompt",
    args: [],
    decision: "denied" as const,
    principal: principalName(request.principal),
    ...(request.request === undefined ? {} : { request: request.request }),
  };
  hall.deps.audit
    .denied(hall.deps.random.uuid(), row, error.message)
    .catch(() => hall.deps.log.error("audit row lost", { tool: "prompt" }));
}

export function accept(hall: Hall, request: TurnRequest): Accepted {
  let message: Omit<InboxRow, "id">;
  try {
    message = checked(hall, request);
  } catch (error) {
    refuse(hall, request, asBeigeError(error));
    throw error;
  }
  return enqueue(hall, hall.inbox.add(message));
}

/** All images that wait, as base64. */
const IMAGES_WAITING_MAX = 256 * 1024 * 1024;
const charsOf = ({ images }: Pick<InboxRow, "images">): number => (images ?? []).reduce((sum, { data }) => sum + data.length, 0);

/** Images go to models that read them, or the message is refused: an answer that ignores them would look like one that does not. */
function imagesFor(hall: Hall, agent: Agent, { images }: TurnRequest, session: string): Pick<InboxRow, "images"> {
  if (images === undefined || images.length === 0) return {};
  checkImages(images);
  const { provider, model } = candidateFor(hall, agent, session);
  if (!model.input.includes("image")) {
    const name = `${provider.metadata.name}/${model.id}`;
    throw new BeigeError("invalid", `model '${name}' reads no images`, {
      hint: `choose another, or list it with input: [text, image] in spec.models of Provider ${provider.metadata.name}`,
    });
  }
  const waiting = [...hall.jobs].reduce((sum, { row }) => sum + charsOf(row), 0);
  if (waiting + charsOf({ images }) > IMAGES_WAITING_MAX) throw new BeigeError("exhausted", "too many images wait");
  return { images };
}

function candidateFor(hall: Hall, agent: Agent, session: string): Candidate {
  const [first] = candidatesOf(hall.deps.directory, agent, hall.settings.of(agent, session).model);
  if (first === undefined) throw new BeigeError("internal", "an agent without a model");
  return first;
}

export const laneOf = (row: InboxRow): string => `${row.agent.uid}/${row.session}`;

/** Behind everything that was accepted for the session before. */
export function enqueue(hall: Hall, row: InboxRow): Accepted {
  const job: Job = { row, feed: createFeed(), controller: new AbortController(), put: new Map(), taken: [] };
  const lane = laneOf(row);
  const before = hall.lanes.get(lane) ?? Promise.resolve();
  const ended = before.then(() => work(hall, job));
  const accepted: Accepted = Object.assign(job, { ended });
  hall.jobs.add(accepted);
  hall.lanes.set(lane, ended);
  void ended.finally(() => {
    hall.jobs.delete(accepted);
    if (hall.lanes.get(lane) === ended) hall.lanes.delete(lane);
    const { uid } = accepted.row.agent;
    if (![...hall.jobs].some((job) => job.row.agent.uid === uid)) hall.deps.onIdle?.(uid);
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
  removeRow(hall, job.row);
  for (const row of job.taken) removeRow(hall, row);
  takeBack(hall, job);
  return last;
}

function removeRow(hall: Hall, row: InboxRow): void {
  try {
    hall.inbox.remove(row);
  } catch (error) {
    hall.deps.log.error("inbox row not removed", { error: asBeigeError(error).message });
  }
}

/** What was put into a turn and came too late for it is answered by a turn of its own; when the gateway stops, by the next process. */
function takeBack(hall: Hall, job: Job): void {
  const rows = [...job.put.values()];
  job.put.clear();
  if (hall.stopping) return;
  for (const row of rows) void drained(enqueue(hall, row));
}

/** Reads a feed that nobody listens to, so that it never fills. */
export async function drained(job: Accepted): Promise<TurnEvent> {
  for await (const event of job.feed.events()) void event;
  return await job.ended;
}

/** The agent's own first model is not written down: it may change while the message waits. */
function settingsOf(hall: Hall, agent: Agent, session: string): SessionSettings {
  const { model, ...others } = hall.settings.of(agent, session);
  const own = agent.spec.model;
  return model.provider === own.provider && model.id === own.id ? others : { ...others, model };
}
