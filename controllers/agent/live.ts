// Plans around the one container that serves: make it, start it, keep it as it should be. Pure.
import type { FieldChange, Plan, Why } from "../../src/core/kind.ts";
import type { BuildFailure } from "../../src/core/packages.ts";
import type { SandboxSeen } from "../../src/core/sandbox.ts";
import { fingerprint } from "../../src/core/fingerprint.ts";
import { quietly, removeBox, step, type AgentAction, type Cause } from "./action.ts";
import { agentId, limitsOf } from "./box.ts";
import { madeFor } from "./drift.ts";
import type { Refused } from "./place.ts";
import { planImage } from "./images.ts";
import { limitsWanted, stateChange, type Situation } from "./situation.ts";
import { shortId } from "./seen.ts";

/** A container that ended is not started again sooner than this after its last start. */
export const RESTART_PAUSE_MS = 10_000;
/** A container that says nothing for so long is broken. */
export const HELLO_LIMIT_MS = 60_000;
/** A container that was made and cannot be started for so long never will: an engine that crashed may have lost track of it. */
export const START_LIMIT_MS = 60_000;
/** One that ran before may hold what its agent installed, so it gets more time. */
const RESTART_LIMIT_MS = 300_000;
const HELLO_LOOK_MS = 1000;
// Slower than what a waiting apply takes for work under way: nobody but a person brings an image.
const IMAGE_LOOK_MS = 30_000;

/** A plan without the judgement on Ready that all branches share. */
export type Body = Pick<Plan<AgentAction>, "actions" | "drift" | "wait" | "degraded"> & {
  /** Why it is not ready; absent when the container serves. */
  readonly pending?: { readonly reason: string; readonly message: string };
  readonly serving?: SandboxSeen;
  readonly waitingFor?: SandboxSeen;
  /** Why nothing runs although all is well: it is started when it is needed. */
  readonly asleep?: string;
  /** The build of its image that came to nothing: until the next one works. */
  readonly build?: BuildFailure;
  /** New calls wait while it is so. */
  readonly draining?: boolean;
};

export const imageHint = (ref: string): string => (ref.startsWith("beige-") ? `run: sandbox/engine.sh images` : `run: docker pull ${ref}`);

export function imageMissing(s: Situation): Body {
  const built = planImage(s);
  if (built !== undefined) return built;
  const { image, backend } = s.box;
  const message =
    backend === "bwrap"
      ? `there is no folder ${s.view.home}/images/${image}; sandbox.image: host takes this machine's own programs`
      : `image ${image} is not on the engine; ${imageHint(image)}`;
  return {
    actions: [],
    pending: { reason: "ImageMissing", message },
    wait: { ms: IMAGE_LOOK_MS },
  };
}

/** Folder, container, start: what one pass can do; the rest waits for the hello. */
export function makeSteps(s: Situation, cause: Cause, name: string, replacing?: string): readonly AgentAction[] {
  const agent = agentId(s.agent);
  const key = replacing === undefined ? {} : { replacing };
  const { box, places } = s;
  const { shared } = s.agent.spec.workspace;
  return [
    ...workspaceSteps(s, cause),
    step(cause, `create container ${name} from ${box.image}`, { type: "create", agent, box: { ...box, name }, places, shared, ...key }),
    step({ ...cause, impact: "live" }, `start container ${name}`, { type: "start", agent, which: { name }, ...key }),
  ];
}

/** Makes the folder, or takes over what an earlier agent of this name left in the gateway's own. */
function workspaceSteps(s: Situation, cause: Cause): readonly AgentAction[] {
  const folder = s.seen.workspace;
  if (folder === undefined) return [];
  const mine = folder.exists && (!s.ownWorkspace || folder.uid === s.seen.user?.uid);
  if (mine) return [];
  const summary = `${folder.exists ? "take over" : "make"} workspace ${folder.path}`;
  const what = {
    type: "workspace",
    agent: agentId(s.agent),
    path: folder.path,
    own: s.ownWorkspace,
    shared: s.agent.spec.workspace.shared,
  } as const;
  return [step({ impact: "live", why: cause.why }, summary, what)];
}

const blockedBy = (refused: Refused): Body => ({
  actions: [],
  pending: refused,
  ...(refused.waitMs === undefined ? {} : { wait: { ms: refused.waitMs } }),
});

export function planCreate(s: Situation): Body {
  if (s.refused !== undefined) return blockedBy(s.refused);
  if (s.seen.imageId === undefined) return imageMissing(s);
  const lost = s.seen.active !== undefined;
  // In the place of a container whose owner has stopped it.
  const impact = s.seen.adopt?.foreign === undefined || lost ? "create" : "adopt";
  const cause: Cause = { impact, why: lost ? "missing" : "spec" };
  const drift: readonly FieldChange[] = lost ? [{ path: "container", before: "missing", after: s.box.name }] : [];
  return {
    actions: [...remains(s, undefined), ...makeSteps(s, cause, s.box.name)],
    drift,
    pending: { reason: "Progressing", message: "" },
  };
}

/** Every container but the ones named. */
export function remains(s: Situation, ...keep: readonly (SandboxSeen | undefined)[]): readonly AgentAction[] {
  const kept = new Set(keep.map((box) => box?.id));
  return s.containers.filter((box) => !kept.has(box.id)).map((box) => removeBox({ impact: "live", why: "drift" }, box.id, box.spec.name));
}

/** A container that is as wanted and does not serve yet: the rest of an interrupted or lost pass. */
export function planSpare(s: Situation, spare: SandboxSeen): Body {
  const others = remains(s, spare);
  const run = runSteps(s, spare, "missing");
  if (others.length > 0 || run.actions.length > 0 || run.pending !== undefined) return { ...run, actions: [...others, ...run.actions] };
  const uid = s.agent.metadata.uid;
  const summary = `let container ${spare.spec.name} (${shortId(spare.id)}) serve`;
  return {
    actions: [quietly({ impact: "live", why: "spec" }, summary, { type: "serve", uid, id: spare.id, cut: false })],
    serving: spare,
    waitingFor: spare,
  };
}

/** Brings a container to running and heard; actions empty and nothing pending when it is. */
export function runSteps(s: Situation, box: SandboxSeen, why: Why): Body {
  const named = `container ${box.spec.name} (${shortId(box.id)})`;
  const cause: Cause = { impact: "update", why, fields: [stateChange(box)] };
  const starting = { reason: "Starting", message: `sandbox ${shortId(box.id)} is starting` };
  const agent = agentId(s.agent);
  if (cannotStart(s, box)) return madeAnew(box);
  switch (box.state) {
    case "created":
      return {
        actions: [step(cause, `start ${named}`, { type: "start", agent, which: { id: box.id } })],
        pending: starting,
        waitingFor: box,
      };
    case "exited":
      return restart(s, box, cause);
    case "paused":
      return { actions: [step(cause, `unpause ${named}`, { type: "unpause", id: box.id })], pending: starting, waitingFor: box };
    case "running":
      return s.helloed(box) ? { actions: [] } : silence(s, box);
    // On its way somewhere else: restarting, removing, dead.
    default:
      return {
        actions: [],
        pending: { reason: "Starting", message: `sandbox ${shortId(box.id)} is ${box.state}` },
        wait: { ms: HELLO_LOOK_MS },
      };
  }
}

/** It was to be started all the time since then, and was not. */
export function cannotStart(s: Situation, box: SandboxSeen): boolean {
  if (box.state !== "created" && box.state !== "exited") return false;
  const { sinceMs } = s.waiting(box);
  if (box.startedAt !== undefined && Date.parse(box.startedAt) >= sinceMs) return false;
  return s.view.now - sinceMs >= (box.state === "created" ? START_LIMIT_MS : RESTART_LIMIT_MS);
}

function madeAnew(box: SandboxSeen): Body {
  return {
    actions: [removeBox({ impact: "live", why: "drift" }, box.id, box.spec.name)],
    pending: { reason: "SandboxStuck", message: `sandbox ${shortId(box.id)} cannot be started; it is made anew` },
  };
}

export const endText = (box: SandboxSeen): string =>
  box.oomKilled ? "ran out of memory" : `ended with exit code ${box.exitCode === undefined ? "unknown" : String(box.exitCode)}`;

function restart(s: Situation, box: SandboxSeen, cause: Cause): Body {
  const started = box.startedAt === undefined ? Number.NaN : Date.parse(box.startedAt);
  const since = s.view.now - started;
  const message = `sandbox ${shortId(box.id)} ${endText(box)}`;
  if (since >= 0 && since < RESTART_PAUSE_MS) {
    const ms = RESTART_PAUSE_MS - since;
    return {
      actions: [],
      pending: { reason: "SandboxExited", message: `${message} right after its start; it is started again soon` },
      wait: { ms },
    };
  }
  const summary = `start container ${box.spec.name} (${shortId(box.id)})`;
  const action = step(cause, summary, { type: "start", agent: agentId(s.agent), which: { id: box.id } });
  return { actions: [action], pending: { reason: "SandboxExited", message }, waitingFor: box };
}

/** It runs and has not said hello: wait, and after the limit bind its folders anew. */
function silence(s: Situation, box: SandboxSeen): Body {
  const silentMs = s.view.now - s.waiting(box).sinceMs;
  const pending = { reason: "Starting", message: `sandbox ${shortId(box.id)} has not said hello yet` };
  if (silentMs < HELLO_LIMIT_MS || box.id !== s.active?.id) return { actions: [], pending, wait: { ms: HELLO_LOOK_MS }, waitingFor: box };
  return {
    actions: againSteps(s, box, [{ path: "container.socket", before: "silent", after: "connected" }]),
    pending: {
      reason: "SandboxSilent",
      message: `sandbox ${shortId(box.id)} said nothing for ${HELLO_LIMIT_MS / 1000} s; it is restarted`,
    },
  };
}

/** Stop and start: the engine binds the folders as they are now. */
function againSteps(s: Situation, box: SandboxSeen, fields: readonly FieldChange[]): readonly AgentAction[] {
  const cause: Cause = { impact: "update", why: "drift", fields };
  const named = `container ${box.spec.name} (${shortId(box.id)})`;
  return [
    step(cause, `stop ${named}`, { type: "stop", id: box.id }),
    step(cause, `start ${named}`, { type: "start", agent: agentId(s.agent), which: { id: box.id } }),
  ];
}

/** The serving container is of the right make: limits, name, state, and nothing beside it. */
export function planServe(s: Situation, active: SandboxSeen): Body {
  const { limits } = s.compare(active);
  const uid = s.agent.metadata.uid;
  const fromSpec = s.limitsBefore !== undefined && fingerprint(s.limitsBefore) !== fingerprint(limitsWanted(s));
  const change: Cause = { impact: "update", why: fromSpec ? "spec" : "drift", fields: limits };
  const named = `container ${active.spec.name} (${shortId(active.id)})`;
  const run = workspaceLost(s, active) ?? runSteps(s, active, "drift");
  const others = remains(s, active);
  const actions: readonly AgentAction[] = [
    ...others,
    ...(limits.length === 0 ? [] : [step(change, `change limits of ${named}`, { type: "limits", id: active.id, limits: limitsOf(s.box) })]),
    ...(active.spec.name === s.box.name
      ? []
      : [
          quietly({ impact: "live", why: "spec" }, `rename ${named} to ${s.box.name}`, { type: "rename", id: active.id, name: s.box.name }),
        ]),
    ...run.actions,
    ...(s.intent === undefined ? [] : [quietly({ impact: "live", why: "spec" }, "close the replacement", { type: "settle", uid })]),
  ];
  const state = run.actions.flatMap((action) => action.fields ?? []);
  const drift = [...(fromSpec ? [] : limits), ...dedupe(state)];
  return { ...run, actions, drift, serving: active };
}

function workspaceLost(s: Situation, active: SandboxSeen): Body | undefined {
  const workspace = s.seen.workspace;
  if (workspace === undefined || workspace.exists || s.refused !== undefined) return undefined;
  const fields: readonly FieldChange[] = [{ path: "workspace", before: "missing", after: workspace.path }];
  const cause: Cause = { impact: "update", why: "drift", fields };
  const make = step(cause, `make workspace ${workspace.path}`, {
    type: "workspace",
    agent: agentId(s.agent),
    path: workspace.path,
    own: s.ownWorkspace,
    shared: s.agent.spec.workspace.shared,
  });
  return {
    actions: [make, ...againSteps(s, active, fields)],
    pending: { reason: "WorkspaceMissing", message: `workspace ${workspace.path} was gone` },
  };
}

function dedupe(fields: readonly FieldChange[]): readonly FieldChange[] {
  return [...new Map(fields.map((field) => [field.path, field])).values()];
}

/** Where a difference comes from. */
export const replaceWhy = (s: Situation, active: SandboxSeen): Why =>
  s.compare(active).imageMoved ? "image" : madeFor(s.box, active) ? "drift" : "spec";
