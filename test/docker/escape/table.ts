// The record of all attempts: what was tried where, how it ended, and who stopped it.
import type { Backend } from "./attempts.ts";

export interface Row {
  readonly what: string;
  readonly backend: Backend;
  readonly outcome: string;
  readonly layer: string;
  readonly escaped: boolean;
}

const WIDTHS = [46, 22, 30] as const;
const cell = (text: string, width: number): string => text.padEnd(width).slice(0, Math.max(width, text.length));

const ALL: readonly Backend[] = ["strict", "packages", "bwrap", "runsc", "open"];

/** One line for what ended alike on several backends. */
export function tableOf(rows: readonly Row[], absent: readonly string[] = []): string {
  const lines = new Map<string, { readonly row: Row; readonly on: Backend[] }>();
  for (const row of rows) {
    const key = [row.what, row.outcome, row.layer].join("\0");
    const seen = lines.get(key);
    if (seen === undefined) lines.set(key, { row, on: [row.backend] });
    else if (!seen.on.includes(row.backend)) seen.on.push(row.backend);
  }
  const present = ALL.filter((backend) => rows.some((row) => row.backend === backend));
  const where = (on: readonly Backend[]): string =>
    on.length === ALL.length || (on.length > 1 && on.length === present.length - 1 && !on.includes("open")) ? "all" : on.join(", ");
  const text = [...lines.values()].map(({ row, on }) =>
    [cell(row.what, WIDTHS[0]), cell(where(on), WIDTHS[1]), cell(row.outcome, WIDTHS[2]), row.layer].join("  "),
  );
  const head = [cell("ATTEMPT", WIDTHS[0]), cell("BACKEND", WIDTHS[1]), cell("OUTCOME", WIDTHS[2]), "STOPPED BY"].join("  ");
  const count = rows.filter(({ escaped }) => escaped).length;
  return [head, ...text, "", ...absent, `${rows.length} attempts on ${present.join(", ")}: ${count} escapes`].join("\n");
}
