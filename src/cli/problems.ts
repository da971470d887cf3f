// Problems and errors for people, for machines and for GitHub's annotations.
import { appendFileSync } from "node:fs";
import { BeigeError, ERRORS, type Problem } from "../core/errors.ts";
import { renderProblem, renderProblems } from "../core/problems.ts";
import { oneLine, type Output } from "./output.ts";

/** GitHub shows ten errors a step. */
const GITHUB_SHOWN = 10;

const escapeData = (text: string): string => text.replaceAll("%", "%25").replaceAll("\r", "%0D").replaceAll("\n", "%0A");
const escapeProperty = (text: string): string => escapeData(text).replaceAll(":", "%3A").replaceAll(",", "%2C");

function annotation(problem: Problem, extra: string, level: "error" | "warning" = "error"): string {
  const at = problem.at ? [`file=${escapeProperty(problem.at.file)}`, `line=${problem.at.line}`, `col=${problem.at.column}`] : [];
  const title = `title=${escapeProperty(oneLine(problem.message).slice(0, 80))}`;
  const text = [problem.object, problem.message, problem.hint].filter(Boolean).join(": ");
  return `::${level} ${[...at, title].join(",")}::${escapeData(oneLine(text))}${escapeData(extra)}`;
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

/** The same for what is no error; GitHub shows ten of these too. */
export const githubWarnings = (warnings: readonly Problem[]): string =>
  warnings
    .slice(0, GITHUB_SHOWN)
    .map((each, i) => `${annotation(each, i === GITHUB_SHOWN - 1 ? ` (${warnings.length} in all)` : "", "warning")}\n`)
    .join("");

/** Says on standard error what may be right all the same. */
export function sayWarnings(out: Output, warnings: readonly Problem[]): void {
  for (const each of warnings) out.note(renderProblem(each).replace(/^error:/, out.paint("yellow", "warning:")));
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
  if (tellsItself(error)) {
    out.note(renderProblems(error.problems));
    if (error.hint !== undefined && error.problems.every((problem) => problem.hint === undefined)) out.note(hintLine(out, error.hint));
    return;
  }
  const text = error.message.split("\n").map(oneLine).join("\n");
  out.note(`${out.paint("red", "error:")} ${text}`);
  for (const line of unsaid(error)) out.note(`  --> ${line}`);
  if (error.hint !== undefined) out.note(hintLine(out, error.hint));
}

/** Each problem says what and where: the error's own sentence would say it a second time. Of a conflict the sentence names all. */
const tellsItself = ({ code, problems }: BeigeError): boolean =>
  code !== "conflict" && problems.length > 0 && problems.every(({ at, object }) => at !== undefined || object !== undefined);

/** What the sentence leaves out. */
const unsaid = ({ code, message, problems }: BeigeError): readonly string[] =>
  code === "conflict"
    ? []
    : problems
        .filter((problem) => !message.includes(problem.message))
        .map((problem) => oneLine([problem.path, problem.message].filter(Boolean).join(": ")));

export const hintLine = (out: Output, hint: string): string => {
  const text = oneLine(hint);
  return text.startsWith("did you mean") ? `       ${text}` : `${out.paint("cyan", "fix:")}  ${text}`;
};
