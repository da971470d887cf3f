// beige delete: asks the gateway to take objects down, and waits until they are gone.
import { setTimeout as pause } from "node:timers/promises";
import { BeigeError } from "../../core/errors.ts";
import { confirm } from "../ask.ts";
import { milliseconds } from "../duration.ts";
import { type Context, type Input, on, type Run, word, words } from "../flags.ts";
import { pathOf, refOfTarget, type Target, targetsOf } from "../names.ts";
import { oneLine } from "../output.ts";
import { manifestTargets } from "../targets.ts";
import { usersOf } from "../users.ts";
import { count } from "../render/plan.ts";
import { nameOf } from "../render/values.ts";

export const run: Run = async (context, input) => {
  const targets = await chosen(context, input);
  const force = on(input, "force");
  const names = targets.map((target) => nameOf(refOfTarget(target)));
  if ((targets.length > 1 || force) && !on(input, "yes") && !on(input, "dry-run")) {
    context.out.note(names.map((name) => `  - ${name}`).join("\n"));
    await confirm(
      context,
      force ? `Delete ${count(targets.length, "object")} without waiting for clean-up?` : `Delete ${count(targets.length, "object")}?`,
      "--yes",
    );
  }
  await warnUsers(context, targets);
  let worst = 0;
  for (const target of targets) worst = Math.max(worst, await one(context, input, { target, force }));
  return worst;
};

const NAMED_MAX = 5;

/** Those that go with it need no warning. */
async function warnUsers(context: Context, targets: readonly Target[]): Promise<void> {
  const going = new Set(targets.map((target) => nameOf(refOfTarget(target))));
  for (const target of targets) {
    const users = (await usersOf(context.client, target)).map(oneLine).filter((name) => !going.has(name));
    if (users.length === 0) continue;
    const more = users.length > NAMED_MAX ? ` and ${users.length - NAMED_MAX} more` : "";
    context.out.note(`${nameOf(refOfTarget(target))} is used by ${users.slice(0, NAMED_MAX).join(", ")}${more}: not Ready without it`);
  }
}

async function chosen(context: Context, input: Input): Promise<readonly Target[]> {
  const files = words(input, "filename");
  if (files.length > 0 && input.args.length > 0) throw new BeigeError("invalid", "give -f or names, not both");
  // What was applied last is deleted first: users before what they use.
  if (files.length > 0) return (await manifestTargets(context, input)).toReversed();
  const targets = await targetsOf(context.client, input.args, word(input, "namespace"));
  const whole = targets.find((target) => target.name === undefined);
  if (whole)
    throw new BeigeError("invalid", `delete needs names: ${whole.kind.kind.toLowerCase()}/NAME, or -f MANIFEST`, {
      hint: `beige get ${whole.kind.plural} -o name`,
    });
  return targets;
}

async function one(context: Context, input: Input, of: { readonly target: Target; readonly force: boolean }): Promise<number> {
  const name = nameOf(refOfTarget(of.target));
  const path = pathOf(of.target);
  const dry = on(input, "dry-run");
  const query = [...(of.force ? ["force=true"] : []), ...(dry ? ["dryRun=All"] : [])].join("&");
  try {
    await context.client.get({ method: "DELETE", path: query === "" ? path : `${path}?${query}` });
  } catch (error) {
    if (!(error instanceof BeigeError) || error.code !== "not_found") throw error;
    if (on(input, "ignore-not-found")) return 0;
    context.out.note(`${name} not found`);
    return 1;
  }
  if (dry || on(input, "no-wait")) {
    await context.out.write(`${name} ${dry ? "deleted (dry run)" : "is being deleted"}\n`);
    return 0;
  }
  await gone(context, { path, name, timeoutMs: milliseconds(word(input, "timeout") ?? "2m", "--timeout") });
  await context.out.write(`${name} deleted\n`);
  return 0;
}

/** Waits until the object answers 404. */
export async function gone(
  context: Context,
  of: { readonly path: string; readonly name: string; readonly timeoutMs: number },
): Promise<void> {
  const end = performance.now() + of.timeoutMs;
  for (let ms = 50; ; ms = Math.min(ms * 1.5, 500)) {
    const answer = await context.client.ask({ path: of.path });
    answer.close();
    if (answer.status === 404) return;
    if (performance.now() > end) {
      throw new BeigeError("timeout", `${of.name} is still being deleted after ${Math.round(of.timeoutMs / 1000)} s`, {
        hint: `beige describe ${of.name} shows what blocks; --force gives it up`,
      });
    }
    await pause(ms, undefined, { signal: context.signal });
  }
}
