// The one door of every tool call: policy, guards, a durable audit row, the effect, its outcome. Whichever way it came in.
import type { Audit, AuditCall, LeftCalls } from "../core/audit.ts";
import { type CallRequest, type CallResult, type CallTool, denialText, isCoreTool, type RejoinCall } from "../core/call.ts";
import { capArgs } from "../core/cap.ts";
import { BeigeError } from "../core/errors.ts";
import type { ToolRequestInput } from "../core/plugin.ts";
import { decide, type Permission } from "../core/policy.ts";
import { type Agent, nsName } from "../core/resource.ts";
import type { Sandbox } from "../core/sandbox.ts";
import type { AgentState, Calls, Clock, Directory, DiskUse, Log, Random, Secrets, Shelf } from "../core/world.ts";
import { type Backgrounds, createBackgrounds } from "./backgrounds.ts";
import { refusedForRoom } from "./full.ts";
import { inScope, principalName } from "../core/who.ts";
import { messageOf } from "./deadline.ts";
import { runHandler } from "./handlers.ts";
import type { HookRunner } from "./hooks.ts";
import { failure, insideOf, type ToolOutcome } from "./inside.ts";
import { shownOf } from "./params.ts";
import { perform } from "./perform.ts";
import type { Plugins } from "./plugins.ts";
import { createRejoin, MODEL_BYTES_MAX } from "./rejoin.ts";
import { type Rouser, createRouser } from "./rouse.ts";
import { createRunningCalls, type Job, type RunningCalls } from "./running.ts";
import { createTokens, type Tokens } from "./tokens.ts";
import { auditArgs, runCoreTool } from "./tools.ts";

export interface CallDeps {
  readonly directory: Pick<Directory, "agentByUid">;
  readonly audit: Pick<Audit, "begin" | "end" | "denied">;
  readonly plugins: Pick<Plugins, "owners" | "find">;
  readonly hooks: Pick<HookRunner, "guardCall" | "observeCall">;
  readonly sandbox: Pick<Sandbox, "exec" | "rejoin">;
  /** Calls of the process before that may go on. */
  readonly left?: LeftCalls;
  /** Where commands are written down that go on behind their answers. */
  readonly shelf?: Shelf;
  readonly agents: Pick<AgentState, "active">;
  readonly secrets: Pick<Secrets, "redact">;
  readonly clock: Clock;
  readonly random: Random;
  readonly log: Log;
  /** Variables of an agent's commands that its manifest does not name. */
  readonly environment?: (agent: Agent) => Readonly<Record<string, string>>;
  /** What an agent's workspace takes of the disk, where its manifest limits that. */
  readonly disk?: (agent: Agent) => DiskUse | undefined;
  /** Has the agent looked at now: its sandbox is needed. */
  readonly wake?: (uid: string) => void;
  /** A command of the agent of that name ran out of memory. */
  readonly onMemory?: (agent: string) => void;
  /** The last running call of an agent ended. */
  readonly onIdle?: (uid: string) => void;
}

/** Longest output to a person or program on the API, an even number of bytes. */
const RAW_BYTES_MAX = 1024 * 1024;

type Allowed = Permission & { readonly allowed: true };

/** One call on its way through the door. */
interface Passing {
  readonly id: string;
  readonly request: CallRequest;
  readonly agent: Agent;
  readonly name: string;
  readonly row: AuditCall;
}

const NOTHING = new Uint8Array();

function permit(deps: CallDeps, request: CallRequest, agent: Agent): Permission {
  const { principal, tool, input } = request;
  if (principal.kind === "viewer") return { allowed: false, reason: "a viewer calls no tools" };
  if (!inScope(principal, nsName(agent.metadata.namespace, agent.metadata.name)))
    return { allowed: false, reason: "the key is not for this agent" };
  if (principal.kind === "agent" && principal.uid !== agent.metadata.uid)
    return { allowed: false, reason: "an agent calls its own tools only" };
  if (isCoreTool(tool) && !("params" in input)) return { allowed: false, reason: "core tools are not called from inside the sandbox" };
  return decide(agent, deps.plugins.owners, tool);
}

/** A plugin tool takes words; a caller with named parameters gives them as `args`. */
function wordsOf(request: CallRequest): readonly string[] | undefined {
  if ("args" in request.input) return request.input.args;
  const { args } = request.input.params;
  return Array.isArray(args) && args.every((word) => typeof word === "string") ? args : undefined;
}

function argsOf(request: CallRequest): readonly string[] {
  const { tool, input } = request;
  if (isCoreTool(tool) && "params" in input) return auditArgs(tool, input.params);
  return wordsOf(request) ?? [shownOf("params" in input ? input.params : {})];
}

function rowOf(deps: CallDeps, request: CallRequest, agent: Agent): AuditCall {
  const core = isCoreTool(request.tool);
  return {
    agent: nsName(agent.metadata.namespace, agent.metadata.name),
    type: core ? "core_tool" : "tool",
    tool: request.tool,
    args: capArgs(argsOf(request).map(deps.secrets.redact)),
    decision: "allowed",
    target: core ? "sandbox" : "gateway",
    principal: principalName(request.principal),
    ...(request.session === undefined ? {} : { session: request.session }),
    ...(request.parent === undefined ? {} : { parent: request.parent }),
    ...(request.request === undefined ? {} : { request: request.request }),
  };
}

async function deny(deps: CallDeps, passing: Passing, reason: string | undefined): Promise<CallResult> {
  const text = denialText(passing.request.tool, passing.name);
  const error = reason === undefined ? text : `${text} (${reason})`;
  await deps.audit.denied(passing.id, { ...passing.row, decision: "denied" }, error);
  return { call: passing.id, success: false, output: NOTHING, exitCode: 1, error, outcome: "denied" };
}

async function guard(deps: CallDeps, passing: Passing): Promise<string | undefined> {
  const { id, name, row, request } = passing;
  const session = request.session === undefined ? {} : { session: request.session };
  const verdict = await deps.hooks.guardCall({ agent: name, tool: request.tool, args: row.args, callId: id, ...session });
  return verdict?.deny;
}

interface Inner {
  readonly tokens: Tokens;
  readonly rouser: Rouser;
  readonly backgrounds: Backgrounds;
}

async function runCore(deps: CallDeps, inner: Inner, passing: Passing, { signal, cut }: Job): Promise<ToolOutcome> {
  const { tokens, rouser, backgrounds } = inner;
  const { request, id } = passing;
  const { uid } = request.agent;
  const noRoom = refusedForRoom(passing.agent, deps.disk?.(passing.agent), request);
  if (noRoom !== undefined) return failure(noRoom);
  const container = await rouser.container(passing.agent, signal);
  if (!isCoreTool(request.tool) || !("params" in request.input)) throw new BeigeError("internal", `${request.tool} is no core tool`);
  const token = tokens.mint({
    uid,
    call: id,
    ...(request.session === undefined ? {} : { session: request.session }),
    ...(request.request === undefined ? {} : { request: request.request }),
  });
  const capBytes = request.principal.kind === "agent" ? MODEL_BYTES_MAX : RAW_BYTES_MAX;
  const { streams } = request;
  const { onCommand } = request;
  const sitting = streams === undefined ? {} : { streams };
  const kept = onCommand === undefined ? {} : { keep: (timeoutMs: number) => onCommand({ call: id, container, timeoutMs }) };
  const env = deps.environment?.(passing.agent) ?? {};
  const context = { call: id, token, env, capBytes, clock: deps.clock, inside: insideOf(deps.sandbox, container), ...sitting, ...kept };
  const background = { enter: () => backgrounds.enter({ uid, call: id, container }), cut, stopped: backgrounds.stopped };
  const drop = (): void => tokens.drop(token);
  try {
    const outcome = await runCoreTool(request.tool, request.input.params, { ...context, background }, signal);
    if (outcome.later === undefined) drop();
    else void outcome.later.finally(drop);
    return outcome;
  } catch (thrown) {
    drop();
    throw thrown;
  }
}

async function runPlugin(deps: CallDeps, passing: Passing, allowed: Allowed, signal: AbortSignal): Promise<ToolOutcome> {
  const { request, agent, name, id } = passing;
  const plugin = allowed.kind === "tool" ? allowed.plugin : undefined;
  const found = plugin === undefined ? undefined : deps.plugins.find(agent, plugin, allowed.tool);
  if (found === undefined) return failure(`tool '${request.tool}' is not loaded: beige get plugins`, 69);
  const args = wordsOf(request);
  if (args === undefined) return failure(`${request.tool}: args must be a list of text`, 2);
  const input: ToolRequestInput = "args" in request.input ? request.input : { args };
  const context = {
    agent: name,
    principal: request.principal,
    call: id,
    clock: deps.clock,
    redact: deps.secrets.redact,
    ...(request.session === undefined ? {} : { session: request.session }),
  };
  return runHandler(found, input, context, signal);
}

/** By its own socket, which is the gateway's knowledge and not the frame's; or on behalf of a call that runs there. */
const fromInside = ({ principal, parent }: CallRequest): boolean =>
  parent !== undefined || (principal.kind === "agent" && principal.attribution !== "direct");

function look(deps: CallDeps, id: string, request: CallRequest): { readonly passing: Passing; readonly permission: Permission } {
  const agent = deps.directory.agentByUid(request.agent.uid);
  if (agent === undefined) throw new BeigeError("not_found", `agent ${request.agent.name} does not exist`, { hint: "beige get agents" });
  const name = nsName(agent.metadata.namespace, agent.metadata.name);
  return { passing: { id, request, agent, name, row: rowOf(deps, request, agent) }, permission: permit(deps, request, agent) };
}

const unrun = (id: string, outcome: ToolOutcome): CallResult => ({ ...outcome, call: id, success: false });

export interface CallDoor extends Inner {
  readonly call: CallTool;
  readonly rejoin: RejoinCall;
  readonly calls: Calls;
}

export function createCalls(deps: CallDeps): CallDoor {
  const tokens = createTokens(deps.random);
  const running: RunningCalls = createRunningCalls({ clock: deps.clock, onIdle: deps.onIdle ?? (() => undefined) });
  const rouser = createRouser(deps, running);
  const backgrounds = createBackgrounds(deps, running);
  const call: CallTool = async (request, signal) => {
    const id = deps.random.uuid();
    let { passing, permission } = look(deps, id, request);
    const { uid } = passing.agent.metadata;
    if (permission.allowed && !fromInside(request)) {
      // What was allowed may not be any more after the wait.
      for (let wait = running.wait(uid, signal); wait !== undefined; wait = running.wait(uid, signal)) {
        try {
          await wait;
        } catch (thrown) {
          if (!signal.aborted) throw thrown;
          return unrun(id, { ...failure(messageOf(signal.reason), 130), outcome: "cancelled" });
        }
        ({ passing, permission } = look(deps, id, request));
      }
    }
    if (!permission.allowed) return deny(deps, passing, permission.reason);
    const allowed = permission;
    const job = running.enter(uid, signal);
    if (job === undefined) return unrun(id, failure("too many calls of this agent run already, retry", 75));
    let later: Promise<unknown> | undefined;
    try {
      const refusal = await guard(deps, passing);
      if (refusal !== undefined) return await deny(deps, passing, refusal);
      const run = async (): Promise<ToolOutcome> => {
        if (allowed.kind !== "core_tool") return runPlugin(deps, passing, allowed, job.signal);
        const outcome = await runCore(deps, { tokens, rouser, backgrounds }, passing, job);
        ({ later } = outcome);
        return outcome;
      };
      return await perform(deps, { ...passing, run }, job.signal);
    } finally {
      if (later === undefined) job.leave();
      else void later.finally(() => job.leave());
    }
  };
  return { call, rejoin: createRejoin(deps, running), calls: running, tokens, rouser, backgrounds };
}
