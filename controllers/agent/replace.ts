// Another container in the place of the serving one: new first, then drain, switch, remove. Pure; each pass does what can be done now.
import type { Intent, Plan } from "../../src/core/kind.ts";
import { refName, refOf, RESTARTED_AT } from "../../src/core/resource.ts";
import type { SandboxSeen } from "../../src/core/sandbox.ts";
import { quietly, removeBox, step, type AgentAction, type Cause } from "./action.ts";
import { nextName } from "./box.ts";
import { dropImages } from "./images.ts";
import {
  cannotStart,
  endText,
  HELLO_LIMIT_MS,
  imageMissing,
  makeSteps,
  remains,
  replaceWhy,
  runSteps,
  START_LIMIT_MS,
  type Body,
} from "./live.ts";
import type { Situation } from "./situation.ts";
import { shortId } from "./seen.ts";

/** A replacement that failed is tried again after this, or at once when the wish or the image changes. */
export const REPLACE_PAUSE_MS = 300_000;
/** Only in case the word that an agent is idle gets lost. */
const IDLE_LOOK_MS = 2000;
/** The end of the last call wakes the agent; this is for when that is missed. */
const DRAIN_LOOK_MS = 2000;
/** New calls wait so much longer than the drain may take, and then go on whatever became of it. */
const HOLD_SLACK_MS = 10_000;

export const REPLACE = "replace";
export const REPLACE_FAILED = "replace-failed";

const BOOK: Cause = { impact: "live", why: "spec" };

interface Replacement {
  readonly s: Situation;
  readonly old: SandboxSeen;
  readonly cause: Cause;
  /** The intent, when it is this replacement's. */
  readonly intent?: Intent;
}

/** With what a replacement waits for that is not begun. */
export type ReplaceBody = Body & Pick<Plan, "held">;

export function planReplace(s: Situation, old: SandboxSeen): ReplaceBody {
  const cause: Cause = { impact: "replace", why: replaceWhy(s, old), fields: s.compare(old).replace };
  const drift = cause.why === "spec" ? [] : s.compare(old).replace;
  const mine = s.intent?.data["key"] === s.key ? s.intent : undefined;
  const r: Replacement = { s, old, cause, ...(mine === undefined ? {} : { intent: mine }) };
  const held = heldBack(r);
  if (held !== undefined) return { ...held, drift };
  const stuck = hindrance(r);
  if (stuck !== undefined)
    return { ...keepOld(r, stuck), held: heldUntil(r, `held back: ${stuck.pending?.message ?? "the new sandbox failed"}`), drift };
  const body = s.spare === undefined ? makeNew(r) : bringUp(r, s.spare);
  return { serving: old, ...body, drift };
}

const RESTART = `metadata.annotations[${RESTARTED_AT}]`;

const heldUntil = ({ cause }: Replacement, until: string): Plan["held"] & {} => ({ why: cause.why, fields: cause.fields ?? [], until });

/** Strategies that let the old container serve on: until the agent is idle, or until a person says so. What is begun is finished. */
function heldBack(r: Replacement): ReplaceBody | undefined {
  const { s, old, intent } = r;
  if (intent?.type === REPLACE || s.spare !== undefined) return undefined;
  const { strategy } = s.agent.spec.update;
  const busy = s.seen.calls + s.seen.sessions > 0;
  const asked = s.compare(old).replace.some((field) => field.path === RESTART);
  if (strategy === "onIdle" ? !busy : strategy !== "manual" || asked) return undefined;
  const restart = `beige rollout restart ${refName(refOf(s.agent))}`;
  const until = strategy === "onIdle" ? "once the agent is idle" : `by: ${restart}`;
  const run = runSteps(s, old, "drift");
  return {
    ...run,
    actions: [...remains(s, old), ...run.actions],
    degraded: { reason: "ReplacePending", message: `sandbox ${shortId(old.id)} is replaced ${until}` },
    held: heldUntil(r, strategy === "onIdle" ? "held back until it is idle" : `held back: ${restart}`),
    serving: old,
    ...(strategy === "onIdle" ? { wait: { ms: IDLE_LOOK_MS } } : {}),
  };
}

/** Why nothing is begun: a refused path, a missing image, or a failure that is too fresh. */
function hindrance({ s, intent }: Replacement): Body | undefined {
  if (s.refused !== undefined) return { actions: [], pending: s.refused };
  if (s.seen.imageId === undefined) return imageMissing(s);
  if (intent?.type !== REPLACE_FAILED) return undefined;
  const restMs = intent.startedAt + REPLACE_PAUSE_MS - s.view.now;
  if (restMs <= 0 || restMs > REPLACE_PAUSE_MS) return undefined;
  const said = intent.data["message"];
  return {
    actions: [],
    pending: { reason: "ReplaceFailed", message: typeof said === "string" ? said : "the new sandbox failed" },
    wait: { ms: restMs },
  };
}

/** The old container goes on serving, and is kept running. */
function keepOld({ s, old, cause }: Replacement, stuck: Body): Body {
  const run = runSteps(s, old, "drift");
  const reason = stuck.pending?.reason ?? "ReplaceFailed";
  const message = `${stuck.pending?.message ?? ""}; the old sandbox ${shortId(old.id)} keeps serving`;
  return {
    ...stuck,
    actions: [
      ...remains(s, old),
      ...run.actions,
      ...stuck.actions.map((each) => (each.type === "image-build" ? { ...each, ...cause } : each)),
    ],
    pending: { reason, message },
    // What is on its way is no failure.
    ...(reason === "ImageBuilding" ? {} : { degraded: { reason: "ReplaceFailed", message } }),
    serving: old,
    ...(run.waitingFor === undefined ? {} : { waitingFor: run.waitingFor }),
  };
}

const begin = ({ s, intent }: Replacement): readonly AgentAction[] =>
  intent?.type === REPLACE ? [] : [quietly(BOOK, "open the replacement", { type: "begin", uid: s.agent.metadata.uid, key: s.key })];

const replacing = (message: string): Body["pending"] => ({ reason: "Replacing", message });

function makeNew(r: Replacement): Body {
  const { s, old, cause } = r;
  const name = nextName(s.box.name);
  return {
    actions: [...remains(s, old), ...begin(r), ...makeSteps(s, cause, name, s.key)],
    pending: replacing(`a new sandbox is made; ${shortId(old.id)} keeps serving`),
  };
}

function bringUp(r: Replacement, next: SandboxSeen): Body {
  const { s, old } = r;
  const before = [...remains(s, old, next), ...begin(r)];
  if (next.state === "exited") return failed(r, next, `the new sandbox ${endText(next)}`);
  if (cannotStart(s, next)) return failed(r, next, `the new sandbox could not be started for ${START_LIMIT_MS / 1000} s`);
  const run = runSteps(s, next, r.cause.why);
  if (run.actions.length > 0 || run.pending?.reason !== undefined) {
    const silentMs = s.view.now - s.waiting(next).sinceMs;
    if (run.actions.length === 0 && silentMs >= HELLO_LIMIT_MS)
      return failed(r, next, `the new sandbox said nothing for ${HELLO_LIMIT_MS / 1000} s`);
    const starts = run.actions.map((action) => (action.type === "start" ? { ...action, replacing: s.key } : action));
    return { ...run, actions: [...before, ...starts], waitingFor: next, pending: replacing(run.pending?.message ?? "") };
  }
  return before.length > 0 ? { actions: before, waitingFor: next, pending: replacing("") } : handOver(r, next);
}

function failed({ s, old }: Replacement, next: SandboxSeen, message: string): Body {
  const uid = s.agent.metadata.uid;
  return {
    actions: [
      quietly(BOOK, `give the replacement up: ${message}`, { type: "fail", uid, key: s.key, message }),
      removeBox({ impact: "live", why: "drift" }, next.id, next.spec.name),
    ],
    pending: { reason: "ReplaceFailed", message: `${message}; the old sandbox ${shortId(old.id)} keeps serving` },
    degraded: { reason: "ReplaceFailed", message },
  };
}

/** New calls wait, running ones end; then the switch: one row in the store, and the old one is gone. */
function handOver(r: Replacement, next: SandboxSeen): Body {
  const { s, old, intent } = r;
  const { strategy, drainTimeoutSeconds } = s.agent.spec.update;
  const uid = s.agent.metadata.uid;
  const wholeMs = drainTimeoutSeconds * 1000;
  const restMs = (intent?.startedAt ?? 0) + wholeMs - s.view.now;
  const drains = strategy !== "immediate" && old.state === "running" && restMs > 0 && restMs <= wholeMs;
  // Even when nothing runs: a call that comes between this look and the switch would end with the old container.
  if (drains && !s.seen.held) {
    const hold = { type: "hold", uid, limitMs: restMs + HOLD_SLACK_MS } as const;
    return { actions: [quietly(BOOK, "let new calls wait", hold)], pending: replacing(""), waitingFor: next, draining: true };
  }
  if (drains && s.seen.calls > 0) {
    // No countdown: the status must not change at every look.
    const message = `waiting for ${s.seen.calls} running calls in the old sandbox; new ones wait for the new one`;
    const wait = { ms: Math.min(restMs, DRAIN_LOOK_MS) };
    return { actions: [], pending: { reason: "Draining", message }, wait, waitingFor: next, draining: true };
  }
  return { actions: switchTo(r, next), serving: next, waitingFor: next, draining: true };
}

function switchTo({ s, old, cause }: Replacement, next: SandboxSeen): readonly AgentAction[] {
  const uid = s.agent.metadata.uid;
  const switched: Cause = { ...cause, impact: "replace" };
  return [
    step(switched, `switch to container ${shortId(next.id)}`, { type: "serve", uid, id: next.id, cut: true }),
    removeBox({ impact: "live", why: cause.why }, old.id, old.spec.name),
    ...dropImages(s, [old]),
    quietly(BOOK, `rename container ${shortId(next.id)} to ${s.box.name}`, { type: "rename", id: next.id, name: s.box.name }),
    quietly(BOOK, "close the replacement", { type: "settle", uid }),
  ];
}
