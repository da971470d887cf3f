// beige validate: every problem of these manifests, and what they need besides, without a gateway.
import type { Run } from "../flags.ts";
import { on, word } from "../flags.ts";
import { githubProblems, githubWarnings, sayProblems, sayWarnings } from "../problems.ts";
import { count } from "../render/plan.ts";
import { manifestsOf } from "../stack.ts";

export const run: Run = async (context, input) => {
  const how = word(input, "output") ?? "text";
  const files = await manifestsOf(context, input);
  const { check, looseReferences } = await import("../offline.ts");
  const found = check(files);
  const loose = looseReferences(found.documents);
  const strict = on(input, "strict");
  const problems = strict ? [...found.problems, ...loose] : found.problems;
  const warnings = strict ? [] : loose;
  const { objects } = found;
  const { out } = context;
  if (how === "json") {
    const said = { valid: problems.length === 0, objects, files: files.length, problems, warnings };
    await out.write(`${JSON.stringify(said, undefined, 2)}\n`);
  } else if (how === "github") {
    await out.write(`${githubProblems(problems, context.env["GITHUB_STEP_SUMMARY"])}${githubWarnings(warnings)}`);
  } else {
    sayWarnings(out, warnings);
    if (problems.length > 0) sayProblems(out, problems, false);
    else await out.write(`${count(objects, "object")} in ${count(files.length, "file")}: valid\n`);
  }
  return problems.length === 0 ? 0 : 2;
};
