// Problems as people read them: message, place, the line with a caret, and what mends it.
import type { Problem } from "./errors.ts";
import { clip, dotted, pointerParts } from "./text.ts";

/** Longest source line that is shown, in characters; longer ones are cut around the caret. */
const WIDTH = 160;

/** Several lines, the last without a line break. Safe on a terminal whatever the manifest holds. */
export function renderProblem(p: Problem): string {
  const lines = [`error: ${clip(p.message, 400)}`];
  const path = p.path === undefined || p.path === "" ? undefined : dotted(pointerParts(p.path));
  const about = [p.object, path]
    .filter((part) => part !== undefined)
    .map((part) => clip(part, 200))
    .join(", ");
  if (p.at) {
    const place = `${p.at.file}:${String(p.at.line)}:${String(p.at.column)}`;
    const document = p.at.document !== undefined && p.at.document > 1 ? `   (document ${String(p.at.document)})` : "";
    lines.push(`  --> ${clip(place, 300)}${about === "" ? "" : `   ${about}`}${document}`);
  } else if (about !== "") lines.push(`  --> ${about}`);
  lines.push(...caret(p));
  if (p.hint !== undefined && p.line === undefined) lines.push(`  fix: ${clip(p.hint, 400)}`);
  return lines.join("\n");
}

function caret(p: Problem): readonly string[] {
  if (p.line === undefined || !p.at) return [];
  const number = String(p.at.line);
  const margin = " ".repeat(Math.max(2, number.length));
  const from = p.at.column - 1 > WIDTH - 20 ? p.at.column - 1 - 40 : 0;
  const shown = clip(p.line.slice(from), WIDTH);
  const before = clip(p.line.slice(from, p.at.column - 1), WIDTH);
  const word = /^[\w$./{}-]+/.exec(p.line.slice(p.at.column - 1))?.[0].length ?? 1;
  const carets = "^".repeat(Math.min(word, Math.max(1, WIDTH - before.length)));
  const hint = p.hint === undefined ? "" : ` ${clip(p.hint, 400)}`;
  return [`${margin} |`, `${number.padStart(margin.length)} | ${shown}`, `${margin} | ${" ".repeat(before.length)}${carets}${hint}`];
}

/** By file in their order, then as a reader comes upon them; those without a place first. */
function byPlace(problems: readonly Problem[]): readonly Problem[] {
  const files = [...new Set(problems.map((p) => p.at?.file))];
  const rank = (p: Problem): number => (p.at ? files.indexOf(p.at.file) : -1);
  return problems.toSorted(
    (a, b) => rank(a) - rank(b) || (a.at?.line ?? 0) - (b.at?.line ?? 0) || (a.at?.column ?? 0) - (b.at?.column ?? 0),
  );
}

/** All of them and the closing line. */
export function renderProblems(problems: readonly Problem[]): string {
  const files = new Set(problems.map((p) => p.at?.file).filter((f) => f !== undefined));
  const count = `${String(problems.length)} problem${problems.length === 1 ? "" : "s"}`;
  const where = files.size > 1 ? ` in ${String(files.size)} files` : "";
  return [...byPlace(problems).map(renderProblem), `${count}${where}. Nothing was changed.`].join("\n");
}
