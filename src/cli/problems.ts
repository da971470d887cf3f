// Problems and errors for people, for machines and for GitHub's annotations.
import { appendFileSync } from "node:fs";
import { BeigeError, ERRORS, type Problem } from "../core/errors.ts";
import { renderProblems } from "../core/problems.ts";
import { oneLine, type Output } from "./output.ts";

/** GitHub shows ten errors a step. */
const GITHUB_SHOWN = 10;

const escapeData = (text: string): string => text.replaceAll("%", "%25").replaceAll("\r", "%0D").replaceAll("\n", "%0A");
const escapeProperty = (text: string): string => escapeData(text).replaceAll(":", "%3A").replaceAll(",", "%2C");

function annotation(problem: Problem, extra: string): string {
  const at = problem.at ? [`file=${escapeProperty(problem.at.file)}`, `line=${problem.at.line}`, `col=${problem.at.column}`] : [];
  const title = `title=${escapeProperty(oneLine(problem.message).slice(0, 80))}`;
  const text = [problem.object, problem.message, problem.hint].filter(Boolean).join(": ");
  return `::error ${[...at, title].join(",")}::${escapeData(oneLine(text))}${escapeData(extra)}`;
}

/** Annotations for a GitHub job; the whole list also goes to the job's summary file. */
export function githubProblems(problems: readonly Problem[], summaryFile: string | undefined): string {
  if (summaryFile !== undefined && summaryFile !== "" && problems.length > 0) {
    appendFileSync(summaryFile, `### beige validate\n\n\`\`\`text\n${renderProblems(problems).replaceAll("```", "'''")}\n\`\`\`\n`);
  }
  const more = problems.length - GITHUB_SHOWN;
  const shown = problems.slice(0, GITHUB_SHOWN);
  return shown
    .map((problem, i) => `${annotation(problem, more > 0 && i === GITHUB_SHOWN - 1 ? ` (and ${more} more: see the job summary)` : "")}\n`)
    .join("");
}

/** Says problems on standard error: as text, or as one JSON object. */
export function sayProblems(out: Output, problems: readonly Problem[], json: boolean): void {
  if (json)
    out.note(
      JSON.stringify({
        error: { code: "invalid", reason: ERRORS.invalid.reason, message: `${problems.length} problems`, details: problems },
      }),
    );
  else out.note(renderProblems(problems));
}

/** Says an error on standard error: message, problems, and the line that mends it. */
export function sayError(out: Output, error: BeigeError, json: boolean): void {
  if (json) {
    const { code, message, hint, at, problems, retryAfterMs } = error;
    const said = {
      code,
      reason: ERRORS[code].reason,
      message,
      ...(problems.length > 0 && { details: problems }),
      ...(hint !== undefined && { hint }),
      ...(at && { at }),
      ...(retryAfterMs !== undefined && { retryAfterMs }),
    };
    out.note(JSON.stringify({ error: said }));
    return;
  }
  const text = error.message.split("\n").map(oneLine).join("\n");
  out.note(`${out.paint("red", "error:")} ${text}`);
  if (error.problems.length > 0) out.note(renderProblems(error.problems).replace(/\n[^\n]*$/, ""));
  if (error.hint !== undefined) out.note(hintLine(out, error.hint));
}

export const hintLine = (out: Output, hint: string): string => {
  const text = oneLine(hint);
  return text.startsWith("did you mean") ? `       ${text}` : `${out.paint("cyan", "fix:")}  ${text}`;
};
