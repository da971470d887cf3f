// What an apply shows: the plan that somebody has to agree to, the way there, and how it ended.
import { changesNothing, type ApplyEnd, type ApplyEvent, type StackPlan } from "../../core/control.ts";
import { refKey } from "../../core/resource.ts";
import { BeigeError } from "../../core/errors.ts";
import { canAsk, confirm } from "../ask.ts";
import { type Context, type Input, words } from "../flags.ts";
import { oneLine } from "../output.ts";
import { savedPlan } from "../planfile.ts";
import { sayProblems, sayWarnings } from "../problems.ts";
import { count, leftText, renderPlan } from "../render/plan.ts";
import { doneWord, liveProgress, plainProgress, type Progress } from "../render/progress.ts";
import { nameOf, secondsText } from "../render/values.ts";
import { cutShort, plannedOf, type StackOptions } from "../stack.ts";

export interface Sent {
  readonly events: AsyncIterable<ApplyEvent>;
  readonly options: StackOptions;
  readonly json: boolean;
  readonly input: Input;
  /** When it was sent. */
  readonly started: number;
}

export async function follow(context: Context, { events, options, json, input, started }: Sent): Promise<number> {
  const progress = context.out.live && !json ? liveProgress(context.out, () => performance.now()) : plainProgress(context.out);
  try {
    return await show(context, events, { json, progress, options, started });
  } catch (error) {
    if (!context.signal.aborted) throw error;
    progress.stop();
    if (context.signal.reason !== "SIGPIPE") context.out.note(`apply goes on in the gateway: ${waitCommand(input)}`);
    return 130;
  } finally {
    progress.stop();
  }
}

const waitCommand = (input: Input): string =>
  `beige wait ${words(input, "filename")
    .map((file) => `-f ${file}`)
    .join(" ")} --for=Ready`;

export async function dryRun(context: Context, { events, options, json, input }: Sent): Promise<number> {
  const planned = await plannedOf(events);
  if (planned.problems.length > 0) sayProblems(context.out, planned.problems, json);
  sayWarnings(context.out, planned.warnings);
  if (planned.plan)
    await context.out.write(
      json
        ? savedPlan(context, input, { plan: planned.plan, options })
        : `${renderPlan(context.out, planned.plan)}Dry run: nothing was changed.\n`,
    );
  if (planned.end.exit !== 0 && planned.problems.length === 0) sayEnd(context, planned.end);
  return planned.end.exit;
}

/**
 * Asks before something is lost: on a terminal when anything is replaced or deleted, elsewhere only for what pruning would
 * delete, where nobody can answer. What was agreed to is what is done: a plan that has become another one is refused.
 */
export async function agree(
  context: Context,
  events: () => AsyncIterable<ApplyEvent>,
  { options, json }: Pick<Sent, "options" | "json">,
): Promise<Pick<StackOptions, "expect">> {
  const person = canAsk(context);
  if (!person && !options.prune) return {};
  const { plan, end } = await plannedOf(events());
  if (plan === undefined || end.exit !== 0) return {};
  const gone = plan.objects.filter((each) => each.verb === "delete");
  const replaced = person ? plan.objects.filter((each) => each.verb === "replace") : [];
  if (gone.length + replaced.length === 0) return {};
  const lost = [
    ...(replaced.length > 0 ? [`replace ${count(replaced.length, "object")}`] : []),
    ...(gone.length > 0 ? [`delete ${count(gone.length, "object")}`] : []),
  ].join(" and ");
  context.out.note(person && !json ? renderPlan(context.out, plan).trimEnd() : gone.map((each) => `  - ${nameOf(each.ref)}`).join("\n"));
  await confirm(context, `${lost.slice(0, 1).toUpperCase()}${lost.slice(1)}?`, "--yes");
  return plan.basis === undefined ? {} : { expect: plan.basis };
}

interface Follow {
  readonly json: boolean;
  readonly progress: Progress;
  readonly options: StackOptions;
  readonly started: number;
}

async function show(context: Context, events: AsyncIterable<ApplyEvent>, how: Follow): Promise<number> {
  const { out } = context;
  let plan: StackPlan | undefined;
  let end: ApplyEnd | undefined;
  let problems = 0;
  for await (const event of events) {
    if (how.json) await out.write(`${JSON.stringify(event)}\n`);
    if (event.type === "plan") {
      plan = event.plan;
      if (!how.json) how.progress.plan(event.plan);
    } else if (event.type === "problems") {
      problems += event.problems.length;
      if (!how.json) sayProblems(out, event.problems, false);
    } else if (event.type === "warnings" && !how.json) sayWarnings(out, event.problems);
    else if (event.type === "progress" && !how.json) await how.progress.event(event);
    else if (event.type === "end") end = event;
  }
  if (end === undefined) throw cutShort();
  how.progress.stop();
  if (how.json) return end.exit;
  if (problems === 0) await finish(context, { end, how, ...(plan && { plan }) });
  return end.exit;
}

async function finish(context: Context, said: { readonly plan?: StackPlan; readonly end: ApplyEnd; readonly how: Follow }): Promise<void> {
  const { plan, end, how } = said;
  const { out } = context;
  if (plan && !how.options.wait && end.exit === 0) {
    const lines = plan.objects
      .filter((each) => !changesNothing(each))
      .map((each) => `${nameOf(each.ref)} ${doneWord(each.verb)}${each.held === undefined ? "" : ` (${oneLine(each.held.until)})`}\n`);
    await out.write(lines.join(""));
  }
  const left = [...new Map((plan?.left ?? []).map((ref) => [refKey(ref), ref])).values()];
  if (left.length > 0) out.note(`no longer in the manifests, kept: ${leftText(left)}   (--prune deletes)`);
  const sum = `applied ${end.applied}, unchanged ${end.unchanged}, failed ${end.failed}`;
  const summed = end.exit === 0 || end.applied + end.failed + end.unchanged > 0;
  if (summed) await out.write(`${sum} in ${secondsText(context.now() - how.started)}\n`);
  // The numbers have just been said.
  const message = summed && end.message.startsWith(`${sum}: `) ? end.message.slice(sum.length + 2) : end.message;
  if (end.exit !== 0) sayEnd(context, { ...end, message });
}

function sayEnd(context: Context, end: ApplyEnd): void {
  if (end.message === "") throw new BeigeError("internal", `the gateway ended the apply with ${end.exit} and no reason`);
  context.out.note(`${context.out.paint("red", "error:")} ${oneLine(end.message)}`);
  if (end.hint !== undefined) context.out.note(`${context.out.paint("cyan", "fix:")}  ${oneLine(end.hint)}`);
}
