// A session as a Markdown document for people. Pure.
import type { SessionLine, SessionView } from "../../core/session.ts";

const HEADS: Readonly<Record<SessionLine["role"], string>> = { user: "User", assistant: "Assistant", tool: "Tool", summary: "Summary" };

/** Longer than any run of backticks inside, so that no output ends its block. */
function fenced(text: string): string {
  const longest = Math.max(2, ...[...text.matchAll(/`+/g)].map((run) => run[0].length));
  const fence = "`".repeat(longest + 1);
  return `${fence}\n${text}\n${fence}`;
}

function section(line: SessionLine): string {
  const about = line.model ?? line.tool;
  const head = `## ${HEADS[line.role]}${about === undefined ? "" : ` (${about}${line.failed === true ? ", failed" : ""})`}`;
  return `${head}\n\n*${line.at}*\n\n${line.role === "tool" ? fenced(line.text) : line.text}\n`;
}

export function markdown({ session, lines }: { readonly session: SessionView; readonly lines: readonly SessionLine[] }): string {
  return [`# Session ${session.session}\n`, ...lines.map(section)].join("\n");
}
