// beige rollout: how far the newest spec is, which specs there were, back to one of them, and a restart of what runs.
import { setTimeout as pause } from "node:timers/promises";
import type { Revision } from "../../core/control.ts";
import { type Condition, type Resource, RESTARTED_AT } from "../../core/resource.ts";
import { BeigeError } from "../../core/errors.ts";
import { milliseconds, positive } from "../duration.ts";
import { type Context, type Input, on, type Run, word } from "../flags.ts";
import { pathOf, refOfTarget, type Target, targetsOf } from "../names.ts";
import { oneLine } from "../output.ts";
import { drawTable } from "../render/table.ts";
import { nameOf, secondsText, whenText } from "../render/values.ts";

/** Writes of these verbs own their fields under this name. */
const MANAGER = "rollout";

async function chosen(context: Context, input: Input, verb: string): Promise<readonly Target[]> {
  const targets = await targetsOf(context.client, input.args, word(input, "namespace"));
  const whole = targets.find((target) => target.name === undefined);
  if (whole === undefined) return targets;
  throw new BeigeError("invalid", `${verb} needs names: ${whole.kind.kind.toLowerCase()}/NAME`, {
    hint: `beige get ${whole.kind.plural} -o name`,
  });
}

const single = async (context: Context, input: Input, verb: string): Promise<Target> => {
  const [target, second] = await chosen(context, input, verb);
  if (target === undefined || second !== undefined)
    throw new BeigeError("invalid", `${verb} is about one object`, { hint: `beige ${verb} agent/NAME` });
  return target;
};

async function revisionsOf(context: Context, target: Target): Promise<readonly Revision[]> {
  const query = new URLSearchParams({
    kind: target.kind.kind,
    name: target.name ?? "",
    ...(target.namespace !== "" && { namespace: target.namespace }),
  });
  return (await context.client.get<{ readonly items: readonly Revision[] }>({ path: `/api/revisions?${query.toString()}` })).items;
}

function revisionIn(revisions: readonly Revision[], wanted: number, name: string): Revision {
  const found = revisions.find((each) => each.revision === wanted);
  if (found !== undefined) return found;
  const kept = revisions.map((each) => each.revision).join(", ");
  throw new BeigeError("not_found", `${name} has no revision ${wanted}; kept are ${kept || "none"}`, {
    hint: `beige rollout history ${name}`,
  });
}

export const history: Run = async (context, input) => {
  const target = await single(context, input, "rollout history");
  const name = nameOf(refOfTarget(target));
  const revisions = await revisionsOf(context, target);
  const wanted = word(input, "revision");
  const json = word(input, "output") === "json";
  if (wanted !== undefined) {
    const found = revisionIn(revisions, positive(wanted, "--revision", 1_000_000_000), name);
    const { yamlText } = await import("../offline.ts");
    await context.out.write(json ? `${JSON.stringify(found, undefined, 2)}\n` : yamlText(found.spec));
    return 0;
  }
  if (json) {
    await context.out.write(`${JSON.stringify({ items: revisions }, undefined, 2)}\n`);
    return 0;
  }
  const rows = revisions.map(({ revision, at, manager, fields }) => [
    String(revision),
    whenText(context.out, at, context.now()),
    oneLine(manager),
    oneLine(fields.join(", ")),
  ]);
  const drawn = drawTable(["REVISION", "WHEN", "BY", "CHANGED"], rows, context.out.tty ? { width: context.out.columns } : {});
  await context.out.write(`${[context.out.paint("dim", drawn.header), ...drawn.rows].join("\n")}\n`);
  return 0;
};

/** A way back that was tried, or a new sandbox that failed: waiting for it would be in vain. */
const failedOf = (object: Resource): Condition | undefined => {
  const { conditions = [] } = object.status ?? {};
  const degraded = conditions.find((each) => each.type === "Degraded" && each.status === "True");
  const ready = conditions.find((each) => each.type === "Ready");
  const failed = [degraded, ready].find((each) => each?.reason === "ReplaceFailed");
  return failed !== undefined && failed.observedGeneration >= object.metadata.generation ? failed : undefined;
};

/** The old sandbox serves on, until the agent is idle or somebody restarts it: not rolled out, as little as a paused deployment is. */
const heldBack = ({ status }: Pick<Resource, "status">): Condition | undefined =>
  status?.conditions.find((each) => each.type === "Degraded" && each.status === "True" && each.reason === "ReplacePending");

export const status: Run = async (context, input) => {
  const target = await single(context, input, "rollout status");
  const name = nameOf(refOfTarget(target));
  const timeoutMs = milliseconds(word(input, "timeout") ?? "5m", "--timeout");
  const started = performance.now();
  let said = "";
  for (let ms = 50; ; ms = Math.min(ms * 1.5, 500)) {
    const object = await context.client.get<Resource>({ path: pathOf(target) });
    const { generation } = object.metadata;
    const ready = object.status?.conditions.find((each) => each.type === "Ready");
    const looked = ready !== undefined && ready.observedGeneration >= generation;
    const held = looked && ready.status === "True" ? heldBack(object) : undefined;
    if (looked && ready.status === "True" && held === undefined) {
      await context.out.write(`${name} rolled out, revision ${generation}\n`);
      return 0;
    }
    const about = held ?? ready;
    const why = looked
      ? [about?.reason, about?.message]
          .flatMap((each) => each ?? [])
          .filter(Boolean)
          .map(oneLine)
          .join(": ")
      : "the newest spec has not been looked at yet";
    const failed = failedOf(object);
    if (failed !== undefined || on(input, "no-wait")) {
      await context.out.write(`${name} not rolled out, revision ${generation}: ${failed === undefined ? why : oneLine(failed.message)}\n`);
      return 1;
    }
    if (why !== said) context.out.note(`${name} waits: ${(said = why)}`);
    if (performance.now() - started > timeoutMs)
      throw new BeigeError("timeout", `${name} is not rolled out after ${secondsText(timeoutMs)}: ${why}`, {
        hint: `beige describe ${name}`,
      });
    await pause(ms, undefined, { signal: context.signal });
  }
};

/** Sets of manifests and Sources that lost fields by the write: their next apply meets them. */
function losers(before: Resource, after: Resource): readonly string[] {
  const owned = (object: Resource): ReadonlyMap<string, string> =>
    new Map((object.metadata.managedFields ?? []).map(({ manager, fieldsV1 }) => [manager, JSON.stringify(fieldsV1)]));
  const now = owned(after);
  return [...owned(before)].flatMap(([manager, fields]) =>
    /^(apply|source)\//.test(manager) && now.get(manager) !== fields ? [manager] : [],
  );
}

export const undo: Run = async (context, input) => {
  const target = await single(context, input, "rollout undo");
  const name = nameOf(refOfTarget(target));
  const [object, revisions] = [await context.client.get<Resource>({ path: pathOf(target) }), await revisionsOf(context, target)];
  const given = word(input, "to-revision");
  const { generation } = object.metadata;
  const before = revisions.find((each) => each.revision < generation)?.revision;
  if (given === undefined && before === undefined)
    throw new BeigeError("invalid", `${name} has only its first revision`, { hint: `beige rollout history ${name}` });
  const to = revisionIn(revisions, given === undefined ? (before ?? 0) : positive(given, "--to-revision", 1_000_000_000), name);
  const { labels, annotations, resourceVersion } = object.metadata;
  const metadata = {
    name: object.metadata.name,
    ...(target.namespace !== "" && { namespace: target.namespace }),
    resourceVersion,
    ...(labels && { labels }),
    ...(annotations && { annotations }),
  };
  const query = new URLSearchParams({
    fieldManager: MANAGER,
    ...(on(input, "dry-run") && { dryRun: "All" }),
    ...(on(input, "force-conflicts") && { force: "true" }),
  });
  const body = { apiVersion: object.apiVersion, kind: target.kind.kind, metadata, spec: to.spec };
  const after = await context.client.get<Resource>({ method: "PUT", path: `${pathOf(target)}?${query.toString()}`, body });
  const dry = on(input, "dry-run") ? " (dry run)" : "";
  if (after.metadata.generation === generation) {
    await context.out.write(`${name} is as in revision ${to.revision} already${dry}\n`);
    return 0;
  }
  await context.out.write(`${name} rolled back to revision ${to.revision}, as revision ${after.metadata.generation}${dry}\n`);
  const still = losers(object, after);
  if (still.length > 0)
    context.out.note(`its manifests (${still.map(oneLine).join(", ")}) still say otherwise: change them before the next apply`);
  return 0;
};

const NOTHING: Readonly<Record<string, string>> = {
  Provider: "a provider has nothing that runs between calls",
  Schedule: "a schedule has nothing that runs between its times",
  Source: "a source has nothing that runs; beige reconcile reads its folder now",
};

export const restart: Run = async (context, input) => {
  const targets = await chosen(context, input, "restart");
  const at = new Date(context.now()).toISOString();
  for (const target of targets) {
    const name = nameOf(refOfTarget(target));
    const nothing = NOTHING[target.kind.kind];
    if (nothing !== undefined) {
      await context.client.get({ path: pathOf(target) });
      await context.out.write(`${name} needs no restart: ${nothing}\n`);
      continue;
    }
    const body = { metadata: { annotations: { [RESTARTED_AT]: at } } };
    const object = await context.client.get<Resource>({ method: "PATCH", path: `${pathOf(target)}?fieldManager=${MANAGER}`, body });
    const resting = (object.spec as { readonly suspend?: boolean }).suspend === true;
    const what = target.kind.kind === "Agent" ? "gets a new sandbox; its sessions and its workspace stay" : "is loaded again";
    await context.out.write(`${name} ${resting ? "is suspended: restarted when it goes on" : what}\n`);
  }
  return 0;
};
