// beige diff: what an apply of these manifests would change, against what runs or against other manifests.
import type { StackPlan } from "../../core/control.ts";
import { BeigeError, type Problem } from "../../core/errors.ts";
import { type Context, type Input, on, type Run, word, words } from "../flags.ts";
import { collect } from "../manifests.ts";
import { sayError, sayProblems } from "../problems.ts";
import { permissionFields, renderMarkdown } from "../render/markdown.ts";
import { isEmpty, renderPlan } from "../render/plan.ts";
import { savedPlan } from "../planfile.ts";
import { manifestsOf, planStack, stackOptions, type StackOptions } from "../stack.ts";

export const run: Run = async (context, input) => {
  const json = word(input, "output") === "json";
  const got = await planOf(context, input);
  if (got.problems.length > 0) {
    sayProblems(context.out, got.problems, json);
    return 2;
  }
  if (got.plan === undefined || got.exit > 1) {
    const hint = got.hint === undefined ? {} : { hint: got.hint };
    sayError(context.out, new BeigeError("conflict", got.message || "the gateway made no plan", hint), json);
    // 0 and 1 speak of differences: a failure is never one of them.
    return Math.max(2, got.exit);
  }
  await show(context, input, got.plan);
  return judged(got.plan, word(input, "fail-on"));
};

interface Got {
  readonly plan?: StackPlan;
  readonly problems: readonly Problem[];
  readonly exit: number;
  readonly message: string;
  readonly hint?: string;
}

const optionsOf = (input: Input, fixed: Partial<StackOptions> = {}): StackOptions => stackOptions(input, { timeoutMs: 60_000, ...fixed });

async function planOf(context: Context, input: Input): Promise<Got> {
  const against = word(input, "against") ?? "live";
  const files = await manifestsOf(context, input);
  if (against !== "live") {
    const { planAgainst } = await import("../offline.ts");
    const deep = on(input, "recursive");
    return { ...planAgainst(files, await collect(context, [against], { deep })), exit: 0, message: "" };
  }
  const detail = word(input, "output") === "json";
  const { plan, problems, end } = await planStack(context, files, optionsOf(input, { detail }));
  return { problems, exit: end.exit, message: end.message, ...(plan && { plan }), ...(end.hint !== undefined && { hint: end.hint }) };
}

async function show(context: Context, input: Input, plan: StackPlan): Promise<void> {
  const how = word(input, "output") ?? "text";
  const given = words(input, "filename").join(" ");
  if (how === "json") await context.out.write(savedPlan(context, input, { plan, options: optionsOf(input) }));
  else if (how === "markdown") {
    const against = word(input, "against") ?? "what runs";
    await context.out.write(renderMarkdown(plan, { title: given, against, next: `\`beige apply -f ${given.replaceAll("`", "")}\`` }));
  } else await context.out.write(renderPlan(context.out, plan));
}

/** Exit code of a plan: any difference is 1, or only those that --fail-on names. */
export function judged(plan: StackPlan, failOn: string | undefined): number {
  if (failOn === undefined) return isEmpty(plan) ? 0 : 1;
  const names = failOn.split(",").map((name) => name.trim());
  const odd = names.find((name) => !["create", "update", "replace", "delete", "permission"].includes(name));
  if (odd !== undefined)
    throw new BeigeError("invalid", `--fail-on does not know "${odd}"`, { hint: "--fail-on delete,replace,permission" });
  const hit = plan.objects.some((each) => names.includes(each.verb) || (names.includes("permission") && permissionFields(each).length > 0));
  return hit ? 1 : 0;
}
