// beige reconcile, suspend, resume: have an object looked at now, or let it rest.
import { setTimeout as pause } from "node:timers/promises";
import type { Resource } from "../../core/resource.ts";
import { BeigeError } from "../../core/errors.ts";
import { milliseconds } from "../duration.ts";
import { type Context, type Input, on, type Run, word } from "../flags.ts";
import { pathOf, refOfTarget, type Target, targetsOf } from "../names.ts";
import { oneLine } from "../output.ts";
import { nameOf } from "../render/values.ts";

const RECONCILE_AT = "beige.dev/reconcile-at";
const RESTING = ["Agent", "Schedule", "Source"];

async function chosen(context: Context, input: Input, verb: string): Promise<readonly Target[]> {
  const targets = await targetsOf(context.client, input.args, word(input, "namespace"));
  const whole = targets.find((target) => target.name === undefined);
  if (whole === undefined) return targets;
  throw new BeigeError("invalid", `${verb} needs names: ${whole.kind.kind.toLowerCase()}/NAME`, {
    hint: `beige get ${whole.kind.plural} -o name`,
  });
}

const patch = (context: Context, target: Target, body: object): Promise<Resource> =>
  context.client.get<Resource>({ method: "PATCH", path: `${pathOf(target)}?fieldManager=beige`, body });

/** Of a Source: until this request has been answered. */
async function answered(context: Context, target: Target, wait: { readonly token: string; readonly timeoutMs: number }): Promise<number> {
  const name = nameOf(refOfTarget(target));
  const end = performance.now() + wait.timeoutMs;
  for (let ms = 50; ; ms = Math.min(ms * 1.5, 500)) {
    const object = await context.client.get<Resource>({ path: pathOf(target) });
    const { conditions = [], observed } = object.status ?? {};
    const ready = conditions.find((each) => each.type === "Ready");
    // A source that waits for its next look is on its way too; only one that acts has not answered yet.
    const busy = conditions.some((each) => each.type === "Progressing" && each.status === "True" && each.reason === "Working");
    if (observed?.["reconciled"] === wait.token && ready !== undefined && !busy) {
      if (ready.status !== "True") {
        await context.out.write(`${name} not ready: ${oneLine(ready.message === "" ? ready.reason : ready.message)}\n`);
        return 1;
      }
      await context.out.write(`${name} reconciled: ${typeof observed["revision"] === "string" ? observed["revision"] : "ready"}\n`);
      return 0;
    }
    if (performance.now() > end)
      throw new BeigeError("timeout", `${name} was not looked at within ${Math.round(wait.timeoutMs / 1000)} s`, {
        hint: `beige describe ${name}`,
      });
    await pause(ms, undefined, { signal: context.signal });
  }
}

export const reconcile: Run = async (context, input) => {
  const targets = await chosen(context, input, "reconcile");
  const force = on(input, "force-conflicts");
  const other = targets.find((target) => target.kind.kind !== "Source");
  if (force && other !== undefined)
    throw new BeigeError("invalid", "--force-conflicts is for sources", {
      hint: "beige apply --force-conflicts takes fields of other objects",
    });
  const token = `${new Date(context.now()).toISOString()}${force ? " force" : ""}`;
  let worst = 0;
  for (const target of targets) {
    const object = await patch(context, target, { metadata: { annotations: { [RECONCILE_AT]: token } } });
    const resting = (object.spec as { readonly suspend?: boolean }).suspend === true;
    if (target.kind.kind !== "Source" || resting || on(input, "no-wait")) {
      await context.out.write(`${nameOf(refOfTarget(target))} ${resting ? "is suspended: nothing is done" : "will be looked at now"}\n`);
      continue;
    }
    const timeoutMs = milliseconds(word(input, "timeout") ?? "60s", "--timeout");
    worst = Math.max(worst, await answered(context, target, { token, timeoutMs }));
  }
  return worst;
};

async function rest(context: Context, input: Input, suspended: boolean): Promise<number> {
  const targets = await chosen(context, input, suspended ? "suspend" : "resume");
  const never = targets.find((target) => !RESTING.includes(target.kind.kind));
  if (never !== undefined)
    throw new BeigeError("invalid", `a ${never.kind.kind} cannot be suspended`, { hint: "agents, schedules and sources can" });
  for (const target of targets) {
    await patch(context, target, { spec: { suspend: suspended } });
    await context.out.write(`${nameOf(refOfTarget(target))} ${suspended ? "suspended" : "resumed"}\n`);
  }
  return 0;
}

export const suspend: Run = (context, input) => rest(context, input, true);
export const resume: Run = (context, input) => rest(context, input, false);
