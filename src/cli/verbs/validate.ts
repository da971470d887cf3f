// beige validate: every problem of these manifests, without a gateway.
import type { Run } from "../flags.ts";
import { word } from "../flags.ts";
import { githubProblems, sayProblems } from "../problems.ts";
import { count } from "../render/plan.ts";
import { manifestsOf } from "../stack.ts";

export const run: Run = async (context, input) => {
  const how = word(input, "output") ?? "text";
  const files = await manifestsOf(context, input);
  const { check } = await import("../offline.ts");
  const { problems, objects } = check(files);
  if (how === "json")
    await context.out.write(`${JSON.stringify({ valid: problems.length === 0, objects, files: files.length, problems }, undefined, 2)}\n`);
  else if (how === "github") await context.out.write(githubProblems(problems, context.env["GITHUB_STEP_SUMMARY"]));
  else if (problems.length > 0) sayProblems(context.out, problems, false);
  else await context.out.write(`${count(objects, "object")} in ${count(files.length, "file")}: valid\n`);
  return problems.length === 0 ? 0 : 2;
};
