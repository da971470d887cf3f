// A session's entries as lines for people: what was said, what tools answered, what was summarised.
import type { SessionEntry, SessionLine } from "../core/session.ts";

const EXCERPT = 80;

interface Said {
  readonly role?: unknown;
  readonly content?: unknown;
  readonly provider?: unknown;
  readonly model?: unknown;
  readonly toolName?: unknown;
  readonly isError?: unknown;
  readonly errorMessage?: unknown;
  readonly command?: unknown;
  readonly output?: unknown;
}

interface Part {
  readonly type?: unknown;
  readonly text?: unknown;
  readonly name?: unknown;
  readonly arguments?: unknown;
}

function partText(part: Part): string {
  if (part.type === "text" && typeof part.text === "string") return part.text;
  if (part.type === "toolCall") return `[${String(part.name)} ${JSON.stringify(part.arguments)}]`;
  return part.type === "image" ? "[image]" : "";
}

const textOf = (content: unknown): string =>
  typeof content === "string"
    ? content
    : Array.isArray(content)
      ? (content as readonly Part[])
          .map(partText)
          .filter((text) => text !== "")
          .join("\n")
      : "";

function messageLine(entry: SessionEntry, said: Said): SessionLine | undefined {
  const base = { id: entry.id, at: entry.timestamp, text: textOf(said.content) };
  if (said.role === "user") return { ...base, role: "user" };
  if (said.role === "toolResult") return { ...base, role: "tool", tool: String(said.toolName), failed: said.isError === true };
  if (said.role === "bashExecution") return { ...base, role: "user", text: `! ${String(said.command)}\n${String(said.output)}` };
  if (said.role !== "assistant") return undefined;
  const failed = typeof said.errorMessage === "string" ? { failed: true, text: base.text === "" ? said.errorMessage : base.text } : {};
  return { ...base, role: "assistant", model: `${String(said.provider)}/${String(said.model)}`, ...failed };
}

function lineOf(entry: SessionEntry): SessionLine | undefined {
  if (entry.type === "compaction" || entry.type === "branch_summary")
    return { id: entry.id, at: entry.timestamp, role: "summary", text: textOf(entry["summary"]) };
  const message = entry["message"];
  return entry.type === "message" && typeof message === "object" && message !== null ? messageLine(entry, message) : undefined;
}

export const linesOf = (entries: readonly SessionEntry[]): readonly SessionLine[] => entries.flatMap((entry) => lineOf(entry) ?? []);

/** The words around what was found, on one line; undefined where it is not. */
export function excerptOf(text: string, wanted: string): string | undefined {
  const at = text.toLowerCase().indexOf(wanted.toLowerCase());
  if (at === -1) return undefined;
  const [from, to] = [Math.max(0, at - EXCERPT), Math.min(text.length, at + wanted.length + EXCERPT)];
  return `${from > 0 ? "…" : ""}${text.slice(from, to).replaceAll(/\s+/g, " ")}${to < text.length ? "…" : ""}`;
}
