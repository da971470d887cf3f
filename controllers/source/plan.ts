// What becomes of a Source's folder: the next revision, the last good one, or nothing. Pure.
import type { Problem } from "../../src/core/errors.ts";
import type { Plan, View, Want } from "../../src/core/kind.ts";
import type { Source } from "../../src/core/resource.ts";
import { BEING_DELETED, type StackAnswer, type StackRequest } from "../../src/core/source.ts";
import { askedOf } from "./asked.ts";
import { intervalMs } from "./interval.ts";
import { baseOf, revisionText } from "./revision.ts";
import type { SourceAction, SourceSeen } from "./seen.ts";

/** When what stands in the way goes by itself: a folder that keeps changing, an object on its way out. */
const SOON_MS = 2_000;

export function planSource(want: Want<Source> | undefined, seen: SourceSeen, _view: View): Plan<SourceAction> {
  if (want === undefined) return planGone(seen, { why: "prune", delete: false });
  if (want.deleting) return planGone(seen, { why: "delete", delete: want.object.spec.prune });
  const source = want.object;
  const observed = shown(source, seen);
  if (source.spec.suspend) {
    const message = "suspended: set suspend to false, or beige resume";
    return { actions: unwatch(seen, "spec"), ready: false, reason: "Suspended", message, suspended: true, observed };
  }
  const going = seen.drift.some(({ after }) => after === BEING_DELETED);
  const wait = { ms: Math.min(intervalMs(source.spec.interval), going ? SOON_MS : Infinity) };
  const { tree } = seen;
  const detected = source.spec.selfHeal === "detect" || seen.repair !== undefined || seen.offer?.answer.state !== "fine";
  const base = { wait, observed, ...(seen.drift.length > 0 && detected ? { drift: seen.drift } : {}) };
  if (tree === undefined) {
    const message = `path '${source.spec.path}' is relative and nobody knows to which folder: write it absolute`;
    return { ...base, actions: [], ready: false, reason: "PathUnknown", message };
  }
  if (!tree.ok) {
    const soon = tree.reason === "Unsettled" ? { wait: { ms: Math.min(wait.ms, SOON_MS) } } : {};
    const refused = tree.problems === undefined ? {} : { refused: tree.problems };
    return { ...base, ...soon, ...refused, ...failing(seen, tree.reason, tree.message), actions: repairs(seen) };
  }
  const watching = watches(seen, tree.tree.place);
  const { offer } = seen;
  if (offer === undefined) return { ...base, actions: watching, ready: true, reason: "Ready", message: "" };
  if (offer.answer.state !== "fine") {
    const { reason, message } = whyNot(offer.request, offer.answer);
    return { ...base, ...failing(seen, reason, message), actions: [...watching, ...repairs(seen)] };
  }
  return { ...base, actions: [...watching, applying(seen, offer.request, offer.answer)], ready: true, reason: "Ready", message: "" };
}

function watches(seen: SourceSeen, place: string): readonly SourceAction[] {
  if (seen.watched === place || seen.path === undefined) return [];
  const { name, path } = seen;
  return [{ type: "watch", name, path, place, impact: "live", why: "missing", summary: `watch ${path}`, quiet: true }];
}

function unwatch(seen: SourceSeen, why: "spec" | "delete" | "prune"): readonly SourceAction[] {
  if (seen.watched === undefined) return [];
  return [{ type: "unwatch", name: seen.name, impact: "live", why, summary: `stop watching for source ${seen.name}`, quiet: true }];
}

function planGone(seen: SourceSeen, how: { readonly why: "delete" | "prune"; readonly delete: boolean }): Plan<SourceAction> {
  const { name, held, accepted } = seen;
  const what = how.delete ? `delete the ${held} objects of source ${name}` : `release the ${held} objects of source ${name}`;
  const holds = held > 0 || accepted !== undefined;
  const release: SourceAction = {
    type: "release",
    name,
    delete: how.delete,
    impact: how.delete ? "delete" : "live",
    why: how.why,
    summary: what,
  };
  const actions = [...unwatch(seen, how.why), ...(holds ? [release] : [])];
  return { actions, ready: false, reason: "Deleting", message: "", gone: actions.length === 0 };
}

type Fine = Extract<StackAnswer, { state: "fine" }>;

const countsText = ({ changed, deleted }: Fine): string =>
  changed + deleted === 0 ? "nothing changes" : [`${changed} changed`, ...(deleted === 0 ? [] : [`${deleted} deleted`])].join(", ");

function applying(seen: SourceSeen, request: StackRequest, answer: Fine): SourceAction {
  const heals = seen.accepted?.key === request.key && seen.drift.length > 0;
  const what = heals ? `put back revision ${request.revision}` : `apply revision ${request.revision}`;
  const summary = `${what}: ${countsText(answer)}`;
  return { type: "apply", request, impact: "update", why: heals ? "drift" : "spec", summary, ...(heals ? { fields: seen.drift } : {}) };
}

/** Drift of the last good revision is mended while the folder holds nothing good. */
function repairs(seen: SourceSeen): readonly SourceAction[] {
  const { repair } = seen;
  if (repair === undefined || repair.answer.state !== "fine" || repair.answer.changed === 0) return [];
  const summary = `put back revision ${repair.request.revision}: ${countsText(repair.answer)}`;
  return [{ type: "apply", request: repair.request, impact: "update", why: "drift", summary, fields: seen.drift }];
}

/** What was accepted goes on: that it is not the newest is a degradation. */
function failing(seen: SourceSeen, reason: string, message: string): Pick<Plan, "ready" | "reason" | "message" | "degraded"> {
  const { accepted } = seen;
  if (accepted === undefined) return { ready: false, reason, message };
  const whole = `${message}; ${accepted.revision} keeps running`;
  return { ready: false, reason, message: whole, degraded: { reason, message: whole } };
}

const placeText = ({ at, message }: Problem): string => (at === undefined ? message : `${at.file}:${at.line}:${at.column} ${message}`);

function invalidText({ revision }: StackRequest, problems: readonly Problem[]): string {
  const [first] = problems;
  const more = problems.length > 1 ? ` (and ${problems.length - 1} more)` : "";
  const hint = first?.hint === undefined ? "" : `; ${first.hint}`;
  return `${revision} is not valid: ${first === undefined ? "" : placeText(first)}${hint}${more}`;
}

function whyNot(request: StackRequest, answer: Exclude<StackAnswer, Fine>): { readonly reason: string; readonly message: string } {
  if (answer.state === "problems") return { reason: "InvalidRevision", message: invalidText(request, answer.problems) };
  const message = `${request.revision}: ${answer.message}`;
  if (answer.state === "conflicts") return { reason: "Conflict", message: `${message}; ${conflictHint(request)}` };
  return { reason: "PruneRefused", message: `${message}; ${answer.hint}` };
}

const conflictHint = (request: StackRequest): string =>
  `remove them from the manifest, or take them: beige reconcile source/${request.source} --force-conflicts`;

/** More are counted in the message. */
const PROBLEMS_SHOWN = 20;

function problemsOf({ offer }: SourceSeen): { readonly problems?: readonly string[] } {
  if (offer?.answer.state !== "problems") return {};
  return { problems: offer.answer.problems.slice(0, PROBLEMS_SHOWN).map(placeText) };
}

function shown(source: Source, seen: SourceSeen): Readonly<Record<string, unknown>> {
  const { accepted, tree, held, drift, path } = seen;
  const before = source.status?.observed;
  const now = tree?.ok === true ? tree.tree : undefined;
  const base = now === undefined ? undefined : baseOf(now, before);
  const found = now === undefined ? undefined : revisionText(now, base);
  // A commit of what was accepted before it is the same content under another name.
  const applied = accepted !== undefined && accepted.hash === now?.hash ? found : accepted?.revision;
  const { token } = askedOf(source);
  const looked = now === undefined ? {} : { found, files: now.files, contentHash: now.hash };
  return {
    ...(path === undefined ? {} : { path }),
    ...(applied === undefined ? {} : { revision: applied }),
    ...(accepted === undefined ? {} : { appliedAt: new Date(accepted.at).toISOString() }),
    ...looked,
    ...(base === undefined ? {} : { commit: base.commit, commitHash: base.hash }),
    objects: held,
    drift: drift.length,
    ...problemsOf(seen),
    ...(token === undefined ? {} : { reconciled: token }),
  };
}
