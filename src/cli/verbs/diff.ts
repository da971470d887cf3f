// beige diff: what an apply of these manifests would change, against what runs or against other manifests.
import type { ManifestFile, ObjectPlan, StackPlan } from "../../core/control.ts";
import { asBeigeError, BeigeError, type Problem } from "../../core/errors.ts";
import { type Context, type Input, on, type Run, word, words } from "../flags.ts";
import { collect } from "../manifests.ts";
import { sayError, sayProblems } from "../problems.ts";
import { permissionFields, renderMarkdown } from "../render/markdown.ts";
import type { Before } from "../offline.ts";
import { count, isEmpty, renderPlan } from "../render/plan.ts";
import { savedPlan } from "../planfile.ts";
import { manifestsOf, planStack, stackOptions, type StackOptions } from "../stack.ts";

export const run: Run = async (context, input) => {
  if (!on(input, "detailed-exitcode")) return compare(context, input);
  // As Terraform has it: 0 none, 1 an error, 2 differences.
  try {
    const code = await compare(context, input);
    return code === 0 ? 0 : code === 1 ? 2 : 1;
  } catch (error) {
    if (context.signal.aborted) throw error;
    sayError(context.out, asBeigeError(error), word(input, "output") === "json");
    return 1;
  }
};

/** A file that is not of beige may lie in a folder that nobody named. */
const isOurs = (file: ManifestFile): boolean => file.text.includes("beige.dev/");

/** In a clone the manifests of this folder, when a commit or a folder is what they are compared with. */
async function withFolder(context: Context, input: Input): Promise<Input> {
  if (words(input, "filename").length > 0 || (word(input, "against") ?? "live") === "live") return input;
  const { inWorkTree } = await import("../git.ts");
  if (!inWorkTree(context)) return input;
  context.out.note("no -f given: taking -f .");
  return { ...input, flags: { ...input.flags, filename: ["."], [UNNAMED]: true } };
}

/** Marks an input whose -f was not said. */
const UNNAMED = "unnamed";

const compare: Run = async (context, asked) => {
  const input = await withFolder(context, asked);
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

/** A snapshot, files, or a commit of the repository that the caller stands in: whichever there is, in this order. */
async function beforeOf(context: Context, input: Input, against: string): Promise<Before> {
  const { readSnapshot } = await import("../snapshot.ts");
  const snapshot = readSnapshot(context, against);
  if (snapshot !== undefined) return { snapshot };
  const deep = on(input, "recursive");
  const { commitOf, manifestsIn, onDisk } = await import("../git.ts");
  if (onDisk(context, against) || /[*?[{]/.test(against)) return { files: await collect(context, [against], { deep, empty: true }) };
  const commit = commitOf(context, against);
  if (commit !== undefined) return manifestsIn(context, commit, { given: words(input, "filename"), deep });
  throw new BeigeError("invalid", `--against ${against}: no such file or folder, and no commit of that name`, {
    hint: "in a shallow clone the base is missing: git fetch origin BRANCH, or fetch-depth: 0",
  });
}

const optionsOf = (input: Input, fixed: Partial<StackOptions> = {}): StackOptions => stackOptions(input, { timeoutMs: 60_000, ...fixed });

/** The manifests, and what they are compared with. */
async function sidesOf(context: Context, input: Input, against: string): Promise<readonly [readonly ManifestFile[], Before]> {
  if (!on(input, UNNAMED)) return [await manifestsOf(context, input), await beforeOf(context, input, against)];
  const all = await collect(context, ["."], { deep: on(input, "recursive"), empty: true });
  const before = await beforeOf(context, input, against);
  const then = "files" in before ? { ...before, files: before.files.filter(isOurs) } : before;
  const files = all.filter(isOurs);
  if (files.length > 0 || !("files" in then) || then.files.length > 0) return [files, then];
  throw new BeigeError("invalid", `this folder holds no manifests, and held none in ${against}`, {
    hint: "-f FOLDER, or -R for its folders",
  });
}

async function planOf(context: Context, input: Input): Promise<Got> {
  const against = word(input, "against") ?? "live";
  if (against !== "live") {
    const { planAgainst } = await import("../offline.ts");
    const [files, before] = await sidesOf(context, input, against);
    const { passedOver, ...got } = planAgainst(files, before);
    if (passedOver > 0) context.out.note(`${against} itself has ${count(passedOver, "problem")}: what is wrong there counts as absent`);
    return { ...got, exit: 0, message: "" };
  }
  const files = await manifestsOf(context, input);
  const detail = word(input, "output") === "json";
  const { plan, problems, end } = await planStack(context, files, optionsOf(input, { detail }));
  return { problems, exit: end.exit, message: end.message, ...(plan && { plan }), ...(end.hint !== undefined && { hint: end.hint }) };
}

async function show(context: Context, input: Input, plan: StackPlan): Promise<void> {
  const how = word(input, "output") ?? "text";
  const given = words(input, "filename").join(" ");
  if (how === "json") await context.out.write(savedPlan(context, input, { plan, options: optionsOf(input) }));
  else if (how === "markdown") {
    const against = word(input, "against") ?? "live";
    const offline = against !== "live";
    await context.out.write(
      renderMarkdown(plan, {
        title: given,
        against: offline ? against : "what runs",
        offline,
        next: `\`beige apply -f ${given.replaceAll("`", "")}\``,
      }),
    );
  } else await context.out.write(renderPlan(context.out, plan));
}

/** Exit code of a plan: any difference is 1, or only those that --fail-on names. */
export function judged(plan: StackPlan, failOn: string | undefined): number {
  if (failOn === undefined) return isEmpty(plan) ? 0 : 1;
  const names = failOn.split(",").map((name) => name.trim());
  const odd = names.find((name) => !["create", "update", "replace", "delete", "permission"].includes(name));
  if (odd !== undefined)
    throw new BeigeError("invalid", `--fail-on does not know "${odd}"`, { hint: "--fail-on delete,replace,permission" });
  const named = ({ verb }: ObjectPlan): boolean => names.includes(verb === "replace-later" ? "replace" : verb);
  const hit = plan.objects.some((each) => named(each) || (names.includes("permission") && permissionFields(each).length > 0));
  return hit ? 1 : 0;
}
